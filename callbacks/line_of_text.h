#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace giro::detail {

// UTF-8 text in one line of a terminal.
struct LineOfText {
  std::string text;
  std::size_t columns = 0;  // on the terminal: a wide character takes two, a combining one none
};

// As much of `text` as fits into `columns`. A character that cannot be shown, such as a line break, becomes a space.
LineOfText line_of(std::string_view text, std::size_t columns = std::string_view::npos);

}  // namespace giro::detail
