#pragma once

#include <concepts>
#include <memory>
#include <utility>

namespace giro::detail {

// What the copies of a handle share. A move is a copy, so that a handle that was moved from can still be used.
template <class T>
class Handle {
 public:
  Handle() = default;                                                         // of nothing yet
  Handle(std::shared_ptr<T> shared) noexcept : shared_(std::move(shared)) {}  // NOLINT: a handle is made of it
  Handle(const Handle&) noexcept = default;
  Handle& operator=(const Handle&) noexcept = default;

  T* get() const noexcept { return shared_.get(); }
  T* operator->() const noexcept { return get(); }
  T& operator*() const noexcept { return *shared_; }
  template <class U>
    requires std::convertible_to<T*, U*>
  operator std::shared_ptr<U>() const noexcept {
    return shared_;
  }

  friend bool operator==(const Handle&, const Handle&) noexcept = default;

 private:
  std::shared_ptr<T> shared_;
};

}  // namespace giro::detail
