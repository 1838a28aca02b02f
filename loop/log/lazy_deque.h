#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

namespace giro::detail {

// A std::deque that takes no memory until something is put into it. libstdc++'s takes two allocations each time that
// one is made or moved, which is most of what a run of a few steps costs: it hands its history on several times.
template <class T>
class LazyDeque {
 public:
  using const_iterator = typename std::deque<T>::const_iterator;

  bool empty() const noexcept { return !values_ || values_->empty(); }
  std::size_t size() const noexcept { return values_ ? values_->size() : 0; }
  const_iterator begin() const noexcept { return values_ ? values_->cbegin() : const_iterator(); }
  const_iterator end() const noexcept { return values_ ? values_->cend() : const_iterator(); }

  // Of one that is not empty.
  T& operator[](std::size_t i) { return (*values_)[i]; }
  const T& operator[](std::size_t i) const { return (*values_)[i]; }
  T& back() { return values_->back(); }
  const T& back() const { return values_->back(); }

  [[gnu::always_inline]] void push_back(const T& value) {
    if (!values_) [[unlikely]]
      values_.emplace();
    values_->push_back(value);
  }
  void push_back(T&& value) {
    if (!values_) values_.emplace();
    values_->push_back(std::move(value));
  }
  void emplace_back() { push_back(T()); }

 private:
  std::optional<std::deque<T>> values_;
};

}  // namespace giro::detail
