#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace giro {

// A pattern of leaf paths. `*` matches any characters except '/' and '.', which separate the parts of a path here and
// in PyTorch; `**` matches any characters. A pattern without either matches that path and all paths below it.
class PathPattern {
 public:
  explicit PathPattern(std::string text) : text_(std::move(text)) {}

  const std::string& text() const noexcept { return text_; }
  // The number of `*` and `**`.
  std::size_t wildcards() const;

  // The text that the wildcards match in `path`, each as long as possible, earlier ones first; for a pattern without
  // wildcards, the rest of the path. nullopt if the pattern does not match.
  std::optional<std::vector<std::string_view>> match(std::string_view path) const;
  // The text with its wildcards replaced by `matched`, one each; without wildcards, with the rest appended.
  std::string fill(const std::vector<std::string_view>& matched) const;

 private:
  std::string text_;
};

bool matches_any(const std::vector<PathPattern>& patterns, std::string_view path);

// The pairs of patterns of LoadOptions::rename and SaveOptions::rename.
class Renaming {
 public:
  // Error(invalid_argument), beginning with the call's name, for two patterns with different numbers of wildcards.
  Renaming(const char* call, const std::vector<std::pair<std::string, std::string>>& pairs);

  std::string operator()(const std::string& path) const;
  // The original of a renamed path, according to the first pair whose second pattern matches it.
  std::string before(const std::string& path) const;

 private:
  struct Rule {
    PathPattern from, to;
  };
  std::vector<Rule> rules_;
};

}  // namespace giro
