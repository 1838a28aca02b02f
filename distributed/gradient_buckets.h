#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <giro/distributed/communicator.h>
#include <giro/kernels/nn/partitioner.h>
#include <giro/runtime/device_context.h>
#include <giro/runtime/state.h>

namespace giro::detail {

// All-reduces gradients while the backward pass computes them. Once the ready ones fill a bucket, their all-reduce is
// queued on the communication stream: it runs after the work that computes them and concurrently with later work.
// Leaves that are adjacent in the collection are sent together.
class GradientBuckets final : public GradientReduction {
 public:
  GradientBuckets(Communicator ranks, const Collection& grads, DeviceContext context, std::int64_t bucket_bytes);

  void ready(std::size_t leaf) override;
  void finish() override;

 private:
  enum class Progress : std::uint8_t { computing, ready, sent };
  void send();

  Communicator ranks_;
  Tensor flat_;
  DeviceContext context_;
  std::int64_t bucket_bytes_;
  std::vector<std::int64_t> begins_;  // of each leaf, in elements of the flat buffer; then the buffer's end
  std::vector<Progress> leaves_;
  std::int64_t ready_bytes_ = 0;
};

}  // namespace giro::detail
