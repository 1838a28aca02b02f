#include "kernels/rules/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include <giro/runtime/error.h>

#include "kernels/rules/rules.h"
#include "runtime/program/graph_recorder.h"

namespace giro::rules {
namespace {

constexpr Rule kRules[] = {
    {"drop_unused", drop_unused},
    {"write_in_place", write_in_place},
    {"dense_of_bytes", dense_of_bytes},
    {"gather_together", gather_together},
    {"add_in_place", add_in_place},
    {"count_with_publish", count_with_publish},
    {"splice", splice},
    {"mean_cross_entropy", mean_cross_entropy},
    {"pool_gradient", pool_gradient},
    {"pool_after_relu", pool_after_relu},
    {"bias_gradient", bias_gradient},
    {"publish_with_update", publish_with_update},
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

void rewrite(std::vector<detail::HeldOp>& ops, const Arena& trace) {
  OpList list(ops, trace);
  for (const Rule& rule : chosen_rules()) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      while (i < list.size() && rule.apply(list, i)) {
      }
    }
  }
}

}  // namespace

std::span<const Rule> all_rules() { return kRules; }

Graph record(const Stream& stream, const std::function<void()>& body, const RecordOptions& options) {
  return detail::GraphRecorder::record(stream, body, options, rewrite);
}

}  // namespace giro::rules
