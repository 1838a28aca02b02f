#include "kernels/rules/record.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <ranges>
#include <string_view>
#include <vector>

#include "kernels/prepare.h"
#include "kernels/rules/op_list.h"
#include "kernels/rules/rules.h"
#include "runtime/dispatch.h"
#include "runtime/program/recording.h"
#include "runtime/program/verify.h"
#include "runtime/throw_error.h"

namespace giro::rules {
namespace {

std::vector<Rule> chosen_rules(Device device) {
  std::vector<Rule> chosen(rules().begin(), rules().end());
  const Rule::Backend other = device.is_cpu() ? Rule::Backend::cuda : Rule::Backend::cpu;
  std::erase_if(chosen, [&](const Rule& rule) { return rule.backend == other; });
  const char* const variable = std::getenv("GIRO_REWRITE");
  const std::string_view setting = variable == nullptr ? "" : variable;
  if (setting == "0") return {};
  if (setting.empty() || setting == "1") return chosen;
  for (const auto part : std::views::split(setting, ',')) {
    const std::string_view word(part.begin(), part.end());
    const auto is_meant = [&](const Rule& rule) { return word.starts_with('-') && rule.name == word.substr(1); };
    if (std::ranges::none_of(rules(), is_meant)) {
      throw_error(ErrorCode::invalid_argument,
                  "GIRO_REWRITE is '{}', expected 0, 1, or some of -{}, separated by commas", variable,
                  fmt::join(rules() | std::views::transform(&Rule::name), ", -"));
    }
    std::erase_if(chosen, is_meant);
  }
  return chosen;
}

void rewrite(std::vector<detail::HeldOp>& ops, detail::Values& values) {
  if (ops.empty()) return;
  const bool verifies = detail::verifies_programs();
  OpList list(ops, values);
  for (const Rule& rule : chosen_rules(ops.front().stream.device())) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      while (rule.apply(list, i)) {
      }
    }
    if (verifies) detail::verify(ops, values, fmt::format("the rule {}", rule.name));
  }
  list.compact();
}

void prepare_ops(const std::vector<detail::HeldOp>& ops) {
  if (ops.empty()) return;
  const Stream& stream = ops.front().stream;
  GIRO_DISPATCH(stream, prepare(ops, stream));
}

}  // namespace

Graph record(const Stream& stream, const std::function<void()>& body, const RecordOptions& options) {
  return detail::Recording::record(stream, body, options, {rewrite, prepare_ops});
}

}  // namespace giro::rules
