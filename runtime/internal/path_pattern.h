#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace giro {

// A pattern of leaves' paths. `*` stands for any characters but '/' and '.', which separate the parts of a path here
// and in PyTorch; `**` for any characters at all. A pattern without either stands for that path and all that are below
// it.
class PathPattern {
 public:
  explicit PathPattern(std::string text) : text_(std::move(text)) {}

  const std::string& text() const noexcept { return text_; }
  // The number of `*` and `**`.
  std::size_t wildcards() const;

  // What the wildcards stand for in `path`, each as long as it can be, the first first; of a pattern without wildcards,
  // the rest of the path. Nothing if the pattern does not match.
  std::optional<std::vector<std::string_view>> match(std::string_view path) const;
  // The text with its wildcards replaced, of which there are as many; without wildcards, with the rest appended.
  std::string fill(const std::vector<std::string_view>& matched) const;

 private:
  std::string text_;
};

}  // namespace giro
