#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace giro::detail {

template <class F>
class FunctionRef;

// A function that is called during a call, and not kept. Making one costs nothing, unlike a std::function.
template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>)
  FunctionRef(F&& f)  // NOLINT: stands for f
      : f_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))), call_([](void* of, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(of))(std::forward<Args>(args)...);
        }) {}

  R operator()(Args... args) const { return call_(f_, std::forward<Args>(args)...); }

 private:
  void* f_;
  R (*call_)(void*, Args...);
};

}  // namespace giro::detail
