#pragma once

#include <string>
#include <utility>
#include <vector>

#include "runtime/internal/path_pattern.h"

namespace giro {

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
