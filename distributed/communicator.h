#pragma once

#include <memory>

#include <giro/runtime/device.h>
#include <giro/runtime/handle.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro {

namespace detail {
class CommunicatorImpl;
}

// How elements are combined across ranks. Integer sums wrap around. MPI rounds f16 and bf16 sums after each pair of
// ranks; on GPUs rounding is up to NCCL, which for `mean` multiplies each element by 1 / size, rounded to the dtype,
// before it adds. `mean` requires a floating-point dtype, `sum` any dtype but bool. If an element is NaN, whether `max`
// and `min` return a NaN, and which one, is unspecified; NCCL ignores NaN.
enum class Reduction { sum, mean, max, min };

// A group of processes (ranks) that work together: every rank makes the same calls in the same order, with tensors of
// the same dtypes and shapes. Work is queued on the stream and recorded like any op; the memory it uses must still
// exist at the replays. The same ranks with the same elements give bitwise equal results in every run, and on all
// ranks. A handle: copies refer to the same group. One thread at a time may use it.
//
// Errors of every collective: device_mismatch unless the tensors and the stream are on device(); dtype_mismatch,
// shape_mismatch or invalid_argument, at once, for arguments that are invalid on any rank; communication if another
// rank has exited, hangs or disagrees. On the CPU the call that runs the work throws that error, on a GPU the next
// call; after that every call fails. While recording, nothing runs; errors that can be detected then are thrown by
// Graph::record.
class Communicator {
 public:
  // A group of this process alone: all_gather and reduce_scatter copy, the other calls leave the tensors as they are.
  explicit Communicator(Device device = Device::cpu());

  int rank() const noexcept;
  int size() const noexcept;
  Device device() const noexcept;  // where the tensors lie

  // Reduces the tensor over the ranks, in place, on every rank.
  void all_reduce(const Tensor& tensor, Reduction reduction, const Stream& stream) const;
  // Copies the tensor of the rank `root` to all other ranks.
  void broadcast(const Tensor& tensor, int root, const Stream& stream) const;
  // Concatenates `in` of all ranks in `out`, in rank order. The first axis of `out` is size() times as long as the
  // first axis of `in`, and `in` may be this rank's part of `out`. If `in` is a scalar, `out` has the shape (size()).
  void all_gather(const Tensor& out, const Tensor& in, const Stream& stream) const;
  // Reduces `in` over the ranks and writes this rank's part of the result to `out`. The first axis of `in` is size()
  // times as long as the first axis of `out`, and `out` may be this rank's part of `in`; the rest of `in` is then
  // undefined on a GPU and unchanged on the CPU.
  void reduce_scatter(const Tensor& out, const Tensor& in, Reduction reduction, const Stream& stream) const;
  // Work queued on the stream afterwards starts once all ranks have reached the barrier.
  void barrier(const Stream& stream) const;

  // Called by all ranks; blocks. Ranks of the same color (0 or more) form a group, ordered by key, then by rank.
  // Errors: invalid_argument (a negative color), communication.
  Communicator split(int color, int key) const;

  // For World.
  explicit Communicator(std::shared_ptr<detail::CommunicatorImpl> impl);

 private:
  detail::Handle<detail::CommunicatorImpl> impl_;
};

}  // namespace giro
