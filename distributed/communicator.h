#pragma once

#include <memory>

#include <giro/runtime/device.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro {

namespace detail {
class CommunicatorImpl;
}

// How the ranks' elements become one. Sums of integers wrap around; those of f16 and bf16 are rounded after each pair
// of ranks by MPI, as NCCL does it on GPUs. `mean` is of floating-point dtypes, `sum` not of bool. Which NaN, or
// whether any, is the `max` or `min` of elements that hold one is not promised.
enum class Reduction { sum, mean, max, min };

// A group of processes, its ranks, that work on one thing: each makes the same calls in the same order, with tensors of
// the same dtypes and shapes. Work is queued on the stream and recorded like any op, and what it touches has to be
// there at the replays. The same ranks with the same elements give the same bits, run after run, and all ranks have the
// same. A handle; copies name the same group. One thread at a time may use it.
//
// Errors of every collective: device_mismatch unless tensors and stream are of device(); dtype_mismatch, shape_mismatch
// or invalid_argument for arguments that no rank could use, at once. Error(communication) where another rank is gone,
// hangs or disagrees: on the CPU of the call that runs the work, on a GPU of the next call; from then on every call
// fails. Within a recording nothing runs yet, and what can be told already is an error of Graph::record.
class Communicator {
 public:
  // Of this process alone: every call leaves its tensors as they are; all_gather and reduce_scatter copy.
  explicit Communicator(Device device = Device::cpu());

  int rank() const noexcept;
  int size() const noexcept;
  Device device() const noexcept;  // where the tensors lie

  // Every rank's elements become their reduction, in place.
  void all_reduce(const Tensor& tensor, Reduction reduction, const Stream& stream) const;
  // Every rank's elements become those of the rank `root`.
  void broadcast(const Tensor& tensor, int root, const Stream& stream) const;
  // `out` becomes what the ranks have in `in`, in the order of ranks: its first axis is size() times that of `in`,
  // which may be this rank's part of `out`. Of scalars, `out` has the shape (size()).
  void all_gather(const Tensor& out, const Tensor& in, const Stream& stream) const;
  // `out` becomes this rank's part of the reduction of `in`: the first axis of `in` is size() times that of `out`,
  // which may be this rank's part of `in`; the rest of `in` is then undefined on a GPU, and as it was on the CPU.
  void reduce_scatter(const Tensor& out, const Tensor& in, Reduction reduction, const Stream& stream) const;
  // Work that is queued on the stream after it starts once all ranks have come to it.
  void barrier(const Stream& stream) const;

  // A call of all ranks, which waits: those of one color, 0 or more, are a group, in the order of key, then of rank.
  // Errors: invalid_argument (a negative color), communication.
  Communicator split(int color, int key) const;

  // For World.
  explicit Communicator(std::shared_ptr<detail::CommunicatorImpl> impl);

 private:
  std::shared_ptr<detail::CommunicatorImpl> impl_;
};

}  // namespace giro
