#pragma once

#include <source_location>
#include <stdexcept>
#include <string>

namespace giro {

// The kind of failure, for programs that react to it.
enum class ErrorCode {
  invalid_argument,
  shape_mismatch,
  dtype_mismatch,
  device_mismatch,
  not_found,
  io,
  corrupt_data,
  out_of_memory,
  device,
  unsupported,
  communication,  // another rank has exited, hangs or disagrees
  callback,       // a user's function threw something else
};

// The only exception type giro throws. what() is one line: what went wrong, where, what was expected and what was
// found. If the error arose in an op, it ends with the line of the user's program that called the op, e.g. " (called at
// train.cpp:31)".
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message, std::source_location where = std::source_location::current());

  ErrorCode code() const noexcept { return code_; }
  // The line in giro that raised the error.
  const std::source_location& where() const noexcept { return where_; }

 private:
  ErrorCode code_;
  std::source_location where_;
};

}  // namespace giro
