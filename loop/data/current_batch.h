#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <giro/loop/data/range.h>
#include <giro/runtime/error.h>

namespace giro {

// Whether the batch an iterator of R refers to stays valid after the iterator has reached the end. True for ranges that
// allow several passes; a single-pass range that keeps its last batch specializes this.
template <class R>
inline constexpr bool keeps_last_batch = std::ranges::forward_range<R>;

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

// The batch at an iterator of R. An iterator that returns by value makes a new batch at each access, so the batch is
// made once and kept here.
template <std::ranges::input_range R, class B>
class CurrentBatch {
 public:
  static constexpr bool kIsReference = std::is_lvalue_reference_v<std::ranges::range_reference_t<R>>;
  // Whether the batch stays valid after the iterator has reached the end.
  static constexpr bool kOutlivesIterator = !kIsReference || keeps_last_batch<std::remove_cvref_t<R>>;

  const B& at(const std::ranges::iterator_t<R>& it) {
    if constexpr (kIsReference) {
      return *it;
    } else {
      if (!made_) made_.emplace(*it);
      return *made_;
    }
  }
  // Stores a batch already read from the iterator, for at() and kept().
  void keep(std::ranges::range_reference_t<R>&& batch) {
    if constexpr (kIsReference) {
      made_ = &batch;
    } else {
      made_.emplace(std::forward<std::ranges::range_reference_t<R>>(batch));
    }
  }
  // The stored batch, or null if it does not outlive the iterator.
  const B* kept() const {
    if constexpr (!kOutlivesIterator) {
      return nullptr;
    } else if constexpr (kIsReference) {
      return made_;
    } else {
      return &*made_;
    }
  }
  // Call this after the iterator has moved on and the batch is no longer needed.
  void forget() {
    if constexpr (!kIsReference) made_.reset();
  }

 private:
  std::conditional_t<kIsReference, const B*, std::optional<B>> made_{};
};

}  // namespace detail
}  // namespace giro
