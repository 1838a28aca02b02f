#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <giro/distributed/communicator.h>
#include <giro/kernels/nn/partitioner.h>
#include <giro/runtime/device_context.h>
#include <giro/runtime/state.h>
#include <giro/runtime/stream.h>

namespace giro::detail {

// Sends gradients to the other ranks as the backward pass finishes them: once those that are ready come to a bucket,
// their all-reduce is queued on the communication stream, after what computes them and beside what comes next. Leaves
// that lie beside each other in the collection go as one.
class GradientBuckets final : public GradientReduction {
 public:
  GradientBuckets(Communicator ranks, const Collection& grads, DeviceContext context, std::int64_t bucket_bytes);

  void ready(std::size_t leaf) override;
  void finish() override;

 private:
  void send();

  Communicator ranks_;
  Tensor flat_;
  DeviceContext context_;
  std::int64_t bucket_bytes_;
  std::vector<std::int64_t> begins_;  // of each leaf in the flat buffer, and its end
  enum class Progress : std::uint8_t { computing, ready, sent };
  std::vector<Progress> leaves_;
  std::int64_t ready_bytes_ = 0;
  std::vector<Event> events_;
};

}  // namespace giro::detail
