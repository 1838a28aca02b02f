#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>

#include <giro/kernels/nn/partitioner.h>
#include <giro/loop/data/batch.h>
#include <giro/loop/data/dataset.h>
#include <giro/loop/step/step.h>
#include <giro/runtime/device.h>

namespace giro {

struct FindBatchSizeOptions {
  std::int64_t min = 1, max = 65'536;  // samples of a whole batch, over all ranks
  bool power_of_two = true;            // else any size
  // Bytes for the step on its device (StepMemory::bytes). 0: nine tenths of the memory free there now; the rest is for
  // launches of many steps and for other steps. Ranks that share a device each see all of its memory as free: give each
  // its share.
  std::size_t budget = 0;
};

namespace detail {

// `bytes_of(n)` returns the bytes that a batch of n samples needs. With several ranks n is a multiple of their number,
// and all return the same size.
std::int64_t find_batch_size(const std::function<std::size_t(std::int64_t)>& bytes_of, Device device,
                             const Partitioner* ranks, const FindBatchSizeOptions& options);

}  // namespace detail

// The largest batch size within the options whose step fits the memory. `batch_of(n)` returns a batch of n samples, or
// this rank's part of one:
//
//   const std::int64_t size = giro::find_batch_size(train_step, state, [&](std::int64_t n) {
//     return *rows.batch(n).partition(partitioner).begin();
//   });
//
// The step is recorded, but not run, for each size tried: the size is doubled as long as it fits, then bisected. A size
// at which the recording runs out of memory does not fit. More samples are assumed to need more memory. Memory held by
// earlier recordings for this state counts as needed, so call this before the first step. With R ranks all must call
// it, and the sizes are R times a power of two, or multiples of R.
//
// Errors: invalid_argument for min < 1, or if no size lies in [min, max]; out_of_memory if the smallest does not fit,
// with the bytes needed and available; unsupported if the free memory is not known and no budget is given; those of
// batch_of and of Step::memory.
template <class S, class Statics>
std::int64_t find_batch_size(const Step<S, Statics>& step, std::type_identity_t<S>& state,
                             const std::function<Batch(std::int64_t)>& batch_of,
                             const FindBatchSizeOptions& options = {}) {
  const std::shared_ptr<const Partitioner> ranks = partitioner_of(state);
  return detail::find_batch_size([&](std::int64_t n) { return step.memory(state, batch_of(n)).bytes(); },
                                 state.device(), ranks.get(), options);
}

// The same for a dataset before batch(), up to its number of rows.
template <class S, class Statics>
std::int64_t find_batch_size(const Step<S, Statics>& step, std::type_identity_t<S>& state, const Dataset& rows,
                             FindBatchSizeOptions options = {}) {
  if (rows.num_rows() < options.max) options.max = rows.num_rows();
  const auto batch_of = [&](std::int64_t n) { return *rows.batch(n).partition(partitioner_of(state)).begin(); };
  return find_batch_size(step, state, std::function<Batch(std::int64_t)>(batch_of), options);
}

}  // namespace giro
