#include "loop/log/internal/record_text.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

namespace giro::detail {

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + '"';
}

std::string json_string(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void append_json(std::string& text, double number) {
  if (std::isnan(number)) {
    text += "\"NaN\"";
  } else if (std::isinf(number)) {
    text += number > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  } else if (number == 0 && std::signbit(number)) {
    text += "-0.0";  // -0 is read as an integer, which has no sign then
  } else {
    fmt::format_to(std::back_inserter(text), "{}", number);
  }
}

}  // namespace giro::detail
