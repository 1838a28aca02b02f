#include "kernels/internal/rewrite/rewriter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include <giro/runtime/error.h>

#include "kernels/internal/rewrite/rules.h"

namespace giro::rewrite {
namespace {

constexpr Rule kRules[] = {
    {"drop_unused", drop_unused},
    {"write_in_place", write_in_place},
    {"fold_constants", fold_constants},
    {"dense_of_bytes", dense_of_bytes},
    {"scale_to_dtype", scale_to_dtype},
    {"gather_together", gather_together},
    {"mean_cross_entropy", mean_cross_entropy},
    {"pool_gradient", pool_gradient},
    {"pool_after_relu", pool_after_relu},
    {"add_in_place", add_in_place},
    {"bias_gradient", bias_gradient},
    {"count_with_publish", count_with_publish},
    {"publish_with_update", publish_with_update},
    {"as_expression", as_expression},
    {"splice", splice},
};

std::vector<Rule> chosen_rules() {
  std::vector<Rule> rules(std::begin(kRules), std::end(kRules));
  const char* const variable = std::getenv("GIRO_REWRITE");
  const std::string_view setting = variable == nullptr ? "" : variable;
  if (setting == "0") return {};
  if (setting.empty() || setting == "1") return rules;
  for (std::size_t begin = 0; begin <= setting.size();) {
    const std::size_t end = std::min(setting.find(',', begin), setting.size());
    const std::string_view word = setting.substr(begin, end - begin);
    const auto is_meant = [&](const Rule& rule) { return word.starts_with('-') && rule.name == word.substr(1); };
    if (std::none_of(std::begin(kRules), std::end(kRules), is_meant)) {
      std::string names;
      for (const Rule& rule : kRules) names += fmt::format("{}-{}", names.empty() ? "" : ", ", rule.name);
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("GIRO_REWRITE is '{}', expected 0, 1, or some of {}, with commas between them", variable, names));
    }
    std::erase_if(rules, is_meant);
    begin = end + 1;
  }
  return rules;
}

class RuleRewriter final : public detail::Rewriter {
 public:
  void rewrite(std::vector<detail::HeldOp>& ops, const Arena& trace) const override {
    OpList list(ops, trace);
    for (const Rule& rule : chosen_rules()) {
      for (std::size_t i = 0; i < list.size(); ++i) {
        while (i < list.size() && rule.apply(list, i)) {
        }
      }
    }
  }
};

}  // namespace

std::span<const Rule> all_rules() { return kRules; }

const detail::Rewriter& rewriter() {
  static const RuleRewriter rules;
  return rules;
}

}  // namespace giro::rewrite
