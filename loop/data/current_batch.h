#pragma once

#include <optional>
#include <ranges>
#include <type_traits>

namespace giro::detail {

// The batch that an iterator of R stands at, made once: an iterator that returns values makes another at each access.
template <std::ranges::input_range R, class B>
class CurrentBatch {
 public:
  static constexpr bool kIsReference = std::is_lvalue_reference_v<std::ranges::range_reference_t<R>>;
  // Whether it is still there when the iterator has moved on.
  static constexpr bool kOutlivesIterator = std::ranges::forward_range<R> || !kIsReference;

  const B& at(const std::ranges::iterator_t<R>& it) {
    if constexpr (kIsReference) {
      return *it;
    } else {
      if (!made_) made_.emplace(*it);
      return *made_;
    }
  }
  // What the iterator has given already, for at().
  void keep(std::ranges::range_reference_t<R>&& batch) {
    if constexpr (!kIsReference) made_.emplace(std::forward<std::ranges::range_reference_t<R>>(batch));
  }
  // The iterator has moved on, and the batch is done with.
  void forget() {
    if constexpr (!kIsReference) made_.reset();
  }

 private:
  struct Nothing {};
  std::conditional_t<kIsReference, Nothing, std::optional<B>> made_;
};

}  // namespace giro::detail
