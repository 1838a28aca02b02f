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

  void all_reduce(void* data, std::int64_t count, DType dtype, Reduction reduction, const Stream& stream) override;
  void broadcast(void* data, std::int64_t count, DType dtype, int root, const Stream& stream) override;
  void all_gather(void* out, const void* in, std::int64_t count, DType dtype, const Stream& stream) override;
  void reduce_scatter(void* out, const void* in, std::int64_t count, DType dtype, Reduction reduction,
                      const Stream& stream) override;
  void barrier(const Stream& stream) override;
  std::shared_ptr<CommunicatorImpl> split(int color, int key) override;

 private:
  // A byte range of the copy on the GPU.
  struct Part {
    std::size_t offset, bytes;
  };
  // Copies `in` to the range `from` of a GPU buffer, calls `call(buffer)`, waits, and copies the range `to` to `out`.
  template <class Call>
  void stage(std::size_t bytes, Part from, const void* in, Part to, void* out, Call&& call);

  const std::shared_ptr<CommunicatorImpl> gpus_;
  const Stream gpu_stream_;
};

}  // namespace giro::detail
