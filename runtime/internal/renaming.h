#pragma once

#include <string>
#include <utility>
#include <vector>

#include "runtime/internal/path_pattern.h"

namespace giro {

// The pairs of patterns of LoadOptions::rename and SaveOptions::rename.
class Renaming {
 public:
  // Error(invalid_argument), which begins with the name of the call, for two patterns with different numbers of
  // wildcards.
  Renaming(const char* call, const std::vector<std::pair<std::string, std::string>>& pairs);

  std::string operator()(const std::string& path) const;
  // The path that the first pair which makes `path` of something makes it of.
  std::string before(const std::string& path) const;

 private:
  struct Rule {
    PathPattern from, to;
  };
  std::vector<Rule> rules_;
};

}  // namespace giro
