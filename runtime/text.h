#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace giro {

// The word of `known` with the fewest single-character edits to `word`; empty if `known` is.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

// The tail of a "no such name" message: "; did you mean 'x'?", or "" when nothing is known.
std::string suggestion(std::string_view word, const std::vector<std::string>& known);

// The same for the keys of a map, or the first of each pair.
template <class Pairs>
  requires requires(const Pairs& known) { known.begin()->first; }
std::string suggestion(std::string_view word, const Pairs& known) {
  std::vector<std::string> names;
  for (const auto& pair : known) names.push_back(pair.first);
  return suggestion(word, names);
}

// The text as a JSON string. Whatever is not UTF-8 in it is replaced.
std::string json_string(const std::string& text);

// The text in quotes, truncated if long, fit for a one-line message: files may contain anything.
std::string printable(std::string_view text);

}  // namespace giro
