#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace giro::detail {

// UTF-8 in one line of a terminal.
struct LineOfText {
  std::string text;
  std::size_t columns = 0;  // that it takes there: wide characters take two, combining ones none
};

// As much of a text as `columns` have room for. What is no character to be seen, a line break above all, is a space.
LineOfText line_of(std::string_view text, std::size_t columns = std::string_view::npos);

}  // namespace giro::detail
