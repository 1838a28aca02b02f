#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include <giro/runtime/error.h>

namespace giro::test {

// Runs `f` and expects a giro::Error with `code` and a one-line message that contains each of `words`.
template <class F>
void expect_error(ErrorCode code, std::initializer_list<std::string> words, F&& f) {
  try {
    f();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(error.code(), code) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    for (const std::string& word : words) {
      EXPECT_NE(message.find(word), std::string::npos) << "'" << word << "' is not in: " << message;
    }
    return;
  }
  ADD_FAILURE() << "no error was thrown";
}
// The same with ErrorCode::invalid_argument.
template <class F>
void expect_invalid(std::initializer_list<std::string> words, F&& f) {
  expect_error(ErrorCode::invalid_argument, words, f);
}

}  // namespace giro::test
