#pragma once

#include <charconv>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace giro {

// The word of `known` with the fewest single-character edits to `word`; empty if `known` is.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

// The tail of a "no such name" message: "; did you mean 'x'?", or "" when nothing is known.
std::string suggestion(std::string_view word, const std::vector<std::string>& known);

// The same for things with names, e.g. &Leaf::path.
template <class Known, class Name>
std::string suggestion(std::string_view word, const Known& known, Name&& name) {
  std::vector<std::string> names;
  for (const auto& each : known) names.emplace_back(std::invoke(name, each));
  return suggestion(word, names);
}
// For the keys of a map, or the first of each pair.
template <class Pairs>
  requires requires(const Pairs& known) { known.begin()->first; }
std::string suggestion(std::string_view word, const Pairs& known) {
  return suggestion(word, known, [](const auto& pair) { return pair.first; });
}

// The number that is the whole text; nullopt for any other text.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && rest == end ? std::optional(number) : std::nullopt;
}

// The text as a JSON string. Whatever is not UTF-8 in it is replaced.
std::string json_string(const std::string& text);

// The text in quotes, truncated if long, fit for a one-line message: files may contain anything.
std::string printable(std::string_view text);

}  // namespace giro
