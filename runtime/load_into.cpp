#include <giro/runtime/load_into.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

#include <giro/runtime/error.h>

#include "runtime/internal/path_pattern.h"
#include "runtime/internal/structure.h"
#include "runtime/internal/text.h"

namespace giro {
namespace {

constexpr const char* kCall = "load_into";

bool matches_any(const std::vector<PathPattern>& patterns, const std::string& path) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const PathPattern& p) { return p.match(path).has_value(); });
}

class Renaming {
 public:
  explicit Renaming(const LoadOptions& options) {
    for (const auto& [from, to] : options.rename) {
      const Rule& rule = rules_.emplace_back(Rule{PathPattern(from), PathPattern(to)});
      if (rule.from.wildcards() == rule.to.wildcards()) continue;
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: rename: '{}' has {} wildcards, '{}' has {}, expected as many", kCall, from,
                              rule.from.wildcards(), to, rule.to.wildcards()));
    }
  }

  std::string operator()(const std::string& path) const {
    for (const Rule& rule : rules_) {
      if (const auto matched = rule.from.match(path)) return rule.to.fill(*matched);
    }
    return path;
  }

 private:
  struct Rule {
    PathPattern from, to;
  };
  std::vector<Rule> rules_;
};

// The state's leaves that are to be loaded.
std::vector<Leaf> chosen_leaves(const State& state, const std::vector<PathPattern>& only) {
  std::vector<Leaf> leaves = Structure(collections_of(state, /*saved_only=*/true)).leaves;
  if (only.empty()) return leaves;
  std::vector<std::string> paths;
  for (const Leaf& leaf : leaves) paths.push_back(leaf.path);
  for (const PathPattern& pattern : only) {
    if (std::any_of(paths.begin(), paths.end(), [&](const auto& path) { return pattern.match(path).has_value(); })) {
      continue;
    }
    throw Error(ErrorCode::not_found, fmt::format("{}: only: '{}' matches no saved leaf of the state{}", kCall,
                                                  pattern.text(), suggestion(pattern.text(), paths)));
  }
  std::erase_if(leaves, [&](const Leaf& leaf) { return !matches_any(only, leaf.path); });
  return leaves;
}

struct Given {
  const Leaf* leaf;
  bool used = false;
};

// The given leaves by their paths in the state.
std::map<std::string, Given> rename_all(const std::vector<Leaf>& leaves, const Renaming& renamed) {
  std::map<std::string, Given> result;
  for (const Leaf& leaf : leaves) {
    const std::string path = renamed(leaf.path);
    const auto [place, is_new] = result.emplace(path, Given{&leaf});
    if (is_new) continue;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: {} and {} are both for the leaf {}", kCall, printable(place->second.leaf->path),
                            printable(leaf.path), printable(path)));
  }
  return result;
}

// "; 2 missing: a, b"
std::string listed(const char* what, const std::vector<std::string>& names) {
  if (names.empty()) return {};
  const std::size_t named = std::min(names.size(), LoadReport::kNamed);
  const std::vector<std::string> first(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(named));
  const std::string more = named < names.size() ? fmt::format(" and {} more", names.size() - named) : "";
  return fmt::format("; {} {}: {}{}", names.size(), what, fmt::join(first, ", "), more);
}

// Which of the given leaves that are left over may be the first missing one.
std::string hint(const LoadReport& report) {
  constexpr std::size_t kNames = 1'000, kLength = 1'000;  // a file may hold far more than is worth comparing
  std::vector<std::string> left_over;
  for (const std::string& path : report.extra) {
    if (left_over.size() < kNames && path.size() < kLength) left_over.push_back(path);
  }
  if (report.missing.empty() || left_over.empty()) return {};
  return fmt::format("; the nearest to {} is {}", report.missing.front(),
                     printable(nearest(report.missing.front(), left_over)));
}

}  // namespace

std::string LoadReport::text() const {
  std::vector<std::string> quoted;
  for (const std::string& path : extra) quoted.push_back(printable(path));
  return fmt::format("{} leaves loaded{}{}{}", loaded.size(), listed("missing", missing), listed("extra", quoted),
                     listed("mismatched", mismatched));
}

LoadReport load_into(State& state, const std::vector<Leaf>& leaves, const LoadOptions& options) {
  const std::vector<PathPattern> only(options.only.begin(), options.only.end());
  const std::vector<Leaf> targets = chosen_leaves(state, only);
  std::map<std::string, Given> given = rename_all(leaves, Renaming(options));

  LoadReport report;
  std::vector<std::pair<Tensor, Tensor>> copies;  // to, from
  bool shapes_differ = false;
  for (const Leaf& target : targets) {
    const auto found = given.find(target.path);
    if (found == given.end()) {
      report.missing.push_back(target.path);
      continue;
    }
    found->second.used = true;
    const Tensor &to = target.value, &from = found->second.leaf->value;
    if (!from.device().is_cpu() && from.device() != to.device()) {
      throw Error(ErrorCode::device_mismatch, fmt::format("{}: leaf '{}' is {}, expected it on the host or on {}",
                                                          kCall, target.path, to_string(from), to_string(to.device())));
    }
    if (from.shape() == to.shape() && from.dtype() == to.dtype()) {
      copies.emplace_back(to, from);
      report.loaded.push_back(target.path);
      continue;
    }
    shapes_differ = shapes_differ || from.shape() != to.shape();
    report.mismatched.push_back(fmt::format("{} is {}{}, expected {}{}", target.path, name_of(from.dtype()),
                                            to_string(from.shape()), name_of(to.dtype()), to_string(to.shape())));
  }
  for (const auto& [path, leaf] : given) {
    if (!leaf.used && (only.empty() || matches_any(only, path))) report.extra.push_back(leaf.leaf->path);
  }

  const bool absent = !report.missing.empty() || !report.extra.empty();
  if (options.strict && (absent || !report.mismatched.empty())) {
    LoadReport refused = report;
    refused.loaded.clear();
    throw Error(absent          ? ErrorCode::not_found
                : shapes_differ ? ErrorCode::shape_mismatch
                                : ErrorCode::dtype_mismatch,
                fmt::format("{}: {}{}", kCall, refused.text(), hint(report)));
  }

  state.stream().synchronize();  // an error of what runs already, or of a recording, is seen before anything changes
  for (const auto& [to, from] : copies) copy(to, from, state.stream());
  state.stream().synchronize();
  return report;
}

}  // namespace giro
