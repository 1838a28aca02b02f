#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <giro/kernels/optim/optimizer.h>

#include "runtime/path_pattern.h"
#include "runtime/text.h"
#include "runtime/throw_error.h"

namespace giro::optim {
namespace {

using Each = std::vector<std::shared_ptr<const Optimizer>>;

Each of_leaves(const std::vector<std::pair<std::string, std::shared_ptr<const Optimizer>>>& rules,
               const std::vector<LeafSpec>& params) {
  std::vector<std::string> names;
  for (const LeafSpec& leaf : params) names.push_back(leaf.name);
  Each result(params.size());
  for (const auto& [text, optimizer] : rules) {
    const PathPattern pattern(text);
    bool matches = false;
    std::vector<std::size_t> taken;
    for (std::size_t i = 0; i < params.size(); ++i) {
      if (!pattern.match(names[i])) continue;
      matches = true;
      if (!result[i]) taken.push_back(i);
    }
    if (!matches) {
      throw_error(ErrorCode::not_found, "by_path: the pattern '{}' matches no leaf of params{}", text,
                  suggestion(text, names));
    }
    std::vector<LeafSpec> leaves;
    for (const std::size_t i : taken) leaves.push_back(params[i]);
    const Each inner = optimizer->of_leaves ? optimizer->of_leaves(leaves) : Each(taken.size(), optimizer);
    for (std::size_t k = 0; k < taken.size(); ++k) result[taken[k]] = inner[k];
  }
  for (std::size_t i = 0; i < params.size(); ++i) {
    if (!result[i]) {
      throw_error(ErrorCode::not_found, "by_path: no pattern matches '{}', expected one, such as '**' at the end",
                  names[i]);
    }
  }
  return result;
}

}  // namespace

Optimizer by_path(std::vector<std::pair<std::string, Optimizer>> optimizers) {
  std::vector<std::pair<std::string, std::shared_ptr<const Optimizer>>> rules;
  for (auto& [pattern, optimizer] : optimizers) {
    if (optimizer.accumulated_steps > 1) {
      throw_error(ErrorCode::unsupported,
                  "by_path: '{}' accumulates the gradients of only some leaves, expected accumulate around "
                  "by_path",
                  pattern);
    }
    rules.emplace_back(pattern, std::make_shared<const Optimizer>(std::move(optimizer)));
  }
  Optimizer result{.name = "by_path"};
  result.of_leaves = [rules = std::move(rules)](const std::vector<LeafSpec>& params) {
    return of_leaves(rules, params);
  };
  return result;
}

}  // namespace giro::optim
