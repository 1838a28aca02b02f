#pragma once

#include <fmt/format.h>

#include <source_location>
#include <type_traits>
#include <utility>

#include <giro/runtime/error.h>

namespace giro {

// A format string and the line that it is on.
template <class... Args>
struct ErrorFormat {
  template <class Text>
  consteval ErrorFormat(const Text& text, std::source_location where = std::source_location::current())
      : text(text), where(where) {}

  fmt::format_string<Args...> text;
  std::source_location where;
};

// throw Error(code, fmt::format(format, args...)), with the caller's line.
template <class... Args>
[[noreturn]] void throw_error(ErrorCode code, ErrorFormat<std::type_identity_t<Args>...> format, Args&&... args) {
  throw Error(code, fmt::format(format.text, std::forward<Args>(args)...), format.where);
}
// The same with ErrorCode::invalid_argument.
template <class... Args>
[[noreturn]] void throw_invalid(ErrorFormat<std::type_identity_t<Args>...> format, Args&&... args) {
  throw_error(ErrorCode::invalid_argument, format, std::forward<Args>(args)...);
}
// The same with ErrorCode::shape_mismatch.
template <class... Args>
[[noreturn]] void throw_shape(ErrorFormat<std::type_identity_t<Args>...> format, Args&&... args) {
  throw_error(ErrorCode::shape_mismatch, format, std::forward<Args>(args)...);
}

}  // namespace giro
