#pragma once

#include <memory>

#include <giro/runtime/stream.h>

#include "distributed/internal/communicator_impl.h"

namespace giro::detail {

// For tensors in host memory when only the ranks' GPUs can communicate: data is copied to the GPU and back. A call
// waits for the other ranks when its work runs, as on any CPU stream.
class HostCommunicator final : public CommunicatorImpl, public std::enable_shared_from_this<HostCommunicator> {
 public:
  explicit HostCommunicator(std::shared_ptr<CommunicatorImpl> gpus);

  void run(const Collective& call, const Stream& stream) override;
  std::shared_ptr<CommunicatorImpl> split(int color, int key) override;

 private:
  void run_now(Collective call);

  const std::shared_ptr<CommunicatorImpl> gpus_;
  const Stream gpu_stream_;
};

}  // namespace giro::detail
