#pragma once

#include <tuple>
#include <type_traits>

namespace giro::detail {

// The return type and parameter types of a callable with exactly one signature: a function, a lambda, a class with one
// operator(). No members for anything else, such as a lambda with auto parameters.
template <class F, class = void>
struct Signature {
  static constexpr bool known = false;
};

template <class R, class... Args>
struct SignatureOf {
  static constexpr bool known = true;
  using Return = R;
  using Arguments = std::tuple<Args...>;
};

template <class M>
struct MemberSignature;
template <class R, class C, bool kNoexcept, class... Args>
struct MemberSignature<R (C::*)(Args...) noexcept(kNoexcept)> : SignatureOf<R, Args...> {};
template <class R, class C, bool kNoexcept, class... Args>
struct MemberSignature<R (C::*)(Args...) const noexcept(kNoexcept)> : SignatureOf<R, Args...> {};

template <class R, bool kNoexcept, class... Args>
struct Signature<R (*)(Args...) noexcept(kNoexcept), void> : SignatureOf<R, Args...> {};
template <class F>
struct Signature<F, std::void_t<decltype(&F::operator())>> : MemberSignature<decltype(&F::operator())> {};

}  // namespace giro::detail
