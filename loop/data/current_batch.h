#pragma once

#include <optional>
#include <type_traits>
#include <utility>

#include <giro/loop/data/range.h>

namespace giro {

// Whether the batch that an iterator of R refers to is still there when the iterator has found the end. So it is where
// ranges can be passed over again; a range that can be passed over once says so by a specialization.
template <class R>
inline constexpr bool keeps_last_batch = std::ranges::forward_range<R>;

namespace detail {

// The batch that an iterator of R stands at, made once: an iterator that returns values makes another at each access.
template <std::ranges::input_range R, class B>
class CurrentBatch {
 public:
  static constexpr bool kIsReference = std::is_lvalue_reference_v<std::ranges::range_reference_t<R>>;
  // Whether it is still there when the iterator has found the end.
  static constexpr bool kOutlivesIterator = !kIsReference || keeps_last_batch<std::remove_cvref_t<R>>;

  const B& at(const std::ranges::iterator_t<R>& it) {
    if constexpr (kIsReference) {
      return *it;
    } else {
      if (!made_) made_.emplace(*it);
      return *made_;
    }
  }
  // What the iterator has given already, for at() and kept().
  void keep(std::ranges::range_reference_t<R>&& batch) {
    if constexpr (kIsReference) {
      made_ = &batch;
    } else {
      made_.emplace(std::forward<std::ranges::range_reference_t<R>>(batch));
    }
  }
  // What was kept, or null if it has gone with the iterator.
  const B* kept() const {
    if constexpr (!kOutlivesIterator) {
      return nullptr;
    } else if constexpr (kIsReference) {
      return made_;
    } else {
      return &*made_;
    }
  }
  // The iterator has moved on, and the batch is done with.
  void forget() {
    if constexpr (!kIsReference) made_.reset();
  }

 private:
  std::conditional_t<kIsReference, const B*, std::optional<B>> made_{};
};

}  // namespace detail
}  // namespace giro
