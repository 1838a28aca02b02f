#pragma once

#include <cstdint>
#include <string>

#include <giro/loop/data/range.h>
#include <giro/runtime/error.h>

namespace giro {

// Whether the batch an iterator of R refers to stays valid after the iterator has reached the end. True for ranges that
// allow several passes; a single-pass range that keeps its last batch specializes this.
template <class R>
inline constexpr bool keeps_last_batch = std::ranges::forward_range<R>;

// Whether each begin() of a range starts over, as far as its type tells: a generator's begin() is not const, since it
// changes the generator. Specialize it for another range that starts over.
template <class R>
inline constexpr bool can_begin_again =
    std::ranges::forward_range<R> || std::ranges::input_range<const R> || requires(R& range) { range.begin_at(0); };

namespace detail {

// The number of batches that a range skips before begin().
template <class R>
std::int64_t first_batch(R& range) {
  if constexpr (requires { range.first_batch(); }) return range.first_batch();
  return 0;
}

// An iterator at batch number `batch` of a range that begins at number `first`: the range's begin_at, or begin()
// advanced one by one. Error(invalid_argument) if the range has no begin_at and begins later.
template <class R>
std::ranges::iterator_t<R> begin_at(R& range, std::int64_t first, std::int64_t batch) {
  if constexpr (requires { range.begin_at(batch); }) {
    if (batch != first) return range.begin_at(batch);
  }
  if (batch < first) {
    throw Error(ErrorCode::invalid_argument, "the dataset should begin at batch " + std::to_string(batch) +
                                                 ", but it begins at batch " + std::to_string(first) +
                                                 " and has no begin_at");
  }
  auto it = std::ranges::begin(range);
  const auto end = std::ranges::end(range);
  for (; first < batch && it != end; ++first) ++it;
  return it;
}

}  // namespace detail
}  // namespace giro
