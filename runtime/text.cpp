#include "runtime/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

namespace giro {
namespace {

// Levenshtein distance.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  const auto best = std::ranges::min_element(
      known, [&](const auto& a, const auto& b) { return edit_distance(word, a) < edit_distance(word, b); });
  return best == known.end() ? std::string() : *best;
}

std::string suggestion(std::string_view word, const std::vector<std::string>& known) {
  return known.empty() ? std::string() : fmt::format("; did you mean '{}'?", nearest(word, known));
}

std::string json_string(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string printable(std::string_view text) { return fmt::format("{:?}", text.substr(0, 80)); }

}  // namespace giro
