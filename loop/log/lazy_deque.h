#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <utility>

namespace giro::detail {

// A std::deque that takes no memory until something is put into it. libstdc++'s takes two allocations each time that
// one is made or moved, which is most of what a run of a few steps costs: it hands its history on several times.
template <class T>
class LazyDeque {
 public:
  using const_iterator = typename std::deque<T>::const_iterator;

  LazyDeque() = default;
  LazyDeque(const LazyDeque& other)
      : values_(other.empty() ? nullptr : std::make_unique<std::deque<T>>(*other.values_)) {}
  LazyDeque(LazyDeque&&) noexcept = default;
  LazyDeque& operator=(LazyDeque other) noexcept {
    values_ = std::move(other.values_);
    return *this;
  }
  ~LazyDeque() = default;

  bool empty() const noexcept { return values_ == nullptr || values_->empty(); }
  std::size_t size() const noexcept { return values_ == nullptr ? 0 : values_->size(); }
  const_iterator begin() const noexcept { return values_ == nullptr ? const_iterator() : values_->cbegin(); }
  const_iterator end() const noexcept { return values_ == nullptr ? const_iterator() : values_->cend(); }

  // Of one that is not empty.
  T& operator[](std::size_t i) { return (*values_)[i]; }
  const T& operator[](std::size_t i) const { return (*values_)[i]; }
  T& back() { return values_->back(); }
  const T& back() const { return values_->back(); }

  void push_back(T value) { emplace_back(std::move(value)); }
  template <class... Arguments>
  T& emplace_back(Arguments&&... arguments) {
    if (values_ == nullptr) values_ = std::make_unique<std::deque<T>>();
    return values_->emplace_back(std::forward<Arguments>(arguments)...);
  }

 private:
  std::unique_ptr<std::deque<T>> values_;
};

}  // namespace giro::detail
