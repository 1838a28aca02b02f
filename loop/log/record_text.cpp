#include "loop/log/record_text.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

namespace giro::detail {

void append_csv(std::string& text, const Elapsed& elapsed) {
  fmt::format_to(std::back_inserter(text), "{},{},{}", elapsed.steps, elapsed.samples, elapsed.time());
}

void append_csv(std::string& text, double number) {
  fmt::format_to(std::back_inserter(text), "{}", without_nan_sign(number));
}

std::string csv_column(std::string_view collection, std::string_view name) {
  const bool is_elapsed = name == "steps" || name == "samples" || name == "time";
  if (collection == "metrics" && !is_elapsed && name.find('.') == name.npos) return std::string(name);
  return fmt::format("{}.{}", collection, name);
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + '"';
}

void append_json(std::string& text, double number) {
  if (!std::isfinite(number)) {
    text += "null";
  } else if (number == 0 && std::signbit(number)) {
    text += "-0.0";  // -0 would be read as an integer, which has no sign
  } else {
    fmt::format_to(std::back_inserter(text), "{}", number);
  }
}

void append_json(std::string& text, const Elapsed& elapsed) {
  text += kJsonlBegin;
  fmt::format_to(std::back_inserter(text), R"({},"samples":{})", elapsed.steps, elapsed.samples);
  for (const auto& [name, value] : {std::pair("date", elapsed.date), std::pair("date_start", elapsed.date_start),
                                    std::pair("time", elapsed.time())}) {
    fmt::format_to(std::back_inserter(text), R"(,"{}":)", name);
    append_json(text, value);
  }
  text += '}';
}

double without_nan_sign(double number) {
  return std::isnan(number) ? std::numeric_limits<double>::quiet_NaN() : number;
}

}  // namespace giro::detail
