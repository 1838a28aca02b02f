#include "runtime/files/internal/renaming.h"

#include "runtime/internal/throw_error.h"

namespace giro {

Renaming::Renaming(const char* call, const std::vector<std::pair<std::string, std::string>>& pairs) {
  for (const auto& [from, to] : pairs) {
    const Rule& rule = rules_.emplace_back(Rule{PathPattern(from), PathPattern(to)});
    if (rule.from.wildcards() == rule.to.wildcards()) continue;
    throw_error(ErrorCode::invalid_argument, "{}: rename: '{}' has {} wildcards, '{}' has {}, expected the same number",
                call, from, rule.from.wildcards(), to, rule.to.wildcards());
  }
}

std::string Renaming::operator()(const std::string& path) const {
  for (const Rule& rule : rules_) {
    if (const auto matched = rule.from.match(path)) return rule.to.fill(*matched);
  }
  return path;
}

std::string Renaming::before(const std::string& path) const {
  for (const Rule& rule : rules_) {
    if (const auto matched = rule.to.match(path)) return rule.from.fill(*matched);
  }
  return path;
}

}  // namespace giro
