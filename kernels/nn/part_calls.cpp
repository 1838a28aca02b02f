#include <giro/kernels/nn/part_calls.h>

#include <algorithm>
#include <cstddef>
#include <source_location>
#include <unordered_set>
#include <utility>
#include <vector>

#include "runtime/call_site.h"
#include "runtime/throw_error.h"

namespace giro::nn {
namespace {

bool is_same(const std::source_location& a, const std::source_location& b) {
  return a.line() == b.line() && a.column() == b.column() && a.file_name() == b.file_name();
}

}  // namespace

// The values that the calls have made.
struct PartCalls::Made {
  std::vector<std::vector<std::weak_ptr<const Var::Node>>> of_parts;
  int part = -1;  // of the present call
  bool over = false;
};

PartCalls::PartCalls(std::shared_ptr<const Partitioner> ranks, int parts)
    : made_(std::make_shared<Made>()), step_(std::move(ranks), parts) {
  step_.calls = this;
  made_->of_parts.resize(static_cast<std::size_t>(parts));
}

PartCalls::~PartCalls() { made_->over = true; }

void PartCalls::next() { ++made_->part; }

void PartCalls::returned(const Var& result) { result.node_->of_part = {}; }

void PartCalls::note(const Var& y, std::span<const Var> inputs) {
  const PartCalls* const current = detail::StepScope::current().calls;
  if (current == nullptr || current->made_->part < 0) return;
  const std::shared_ptr<Made>& made = current->made_;
  const bool depends =
      std::ranges::any_of(inputs, [&](const Var& in) { return in.requires_grad() || in.node_->of_part.calls == made; });
  if (!depends) return;
  y.node_->of_part = {made, made->part};
  y.node_->where = detail::CallSite::where();
  made->of_parts[static_cast<std::size_t>(made->part)].push_back(y.node_.shared());
}

void PartCalls::note_total(const Var& y, Total total) {
  if (!y.node_->of_part.calls) return;
  if (total == Total::mean_of_rows || y.shape() == Shape{}) y.node_->of_part.total = total;
}

void PartCalls::expect_all(const Var& value) {
  const Var::Node& node = *value.node_;
  const auto& made = *static_cast<const Made*>(node.of_part.calls.get());
  if (!made.over || node.where.line() == 0) return;
  for (std::size_t part = 0; part < made.of_parts.size(); ++part) {
    if (static_cast<int>(part) == node.of_part.part) continue;
    const bool is_there = std::ranges::any_of(made.of_parts[part], [&](const std::weak_ptr<const Var::Node>& other) {
      const std::shared_ptr<const Var::Node> there = other.lock();
      return there && is_same(there->where, node.where);
    });
    if (is_there) continue;
    throw_invalid(
        "value_and_grad: a value that {}:{} computed for part {} of {} of the batch is used after the calls, but "
        "that of part {} is gone: it stands for its part alone; expected the function to return it beside the "
        "loss, std::pair{{loss, value}}, or a collection of the values of all parts",
        node.where.file_name(), node.where.line(), node.of_part.part + 1, made.of_parts.size(), part + 1);
  }
}

void PartCalls::expect_mean(const Var& loss) {
  const detail::StepContext& step = detail::StepScope::current();
  if (step.calls == nullptr || step.calls->made_->of_parts.size() < 2) return;
  const auto parts = static_cast<std::int64_t>(step.calls->made_->of_parts.size());
  const std::int64_t rows = step.rows / parts;  // 0 if unknown
  // Other than the parameters, which a penalty may add up: the same in each part.
  const auto is_of_rows = [&](const Var& x) {
    const Shape& shape = x.shape();
    return !x.requires_grad() && shape.count() > 1 && rows > 0 && shape.begin()[0] == rows;
  };
  std::unordered_set<const Var::Node*> seen;
  const auto reads_rows = [&](const Var& sum) {
    std::vector<Var> reached{sum};
    while (!reached.empty()) {
      const Var x = std::move(reached.back());
      reached.pop_back();
      if (std::ranges::any_of(x.node_->inputs, is_of_rows)) return true;
      for (const Var& input : x.node_->inputs) {
        if (input.node_->of_part.total == Total::mean_of_rows) continue;
        if (input.requires_grad() && seen.insert(input.node_.get()).second) reached.push_back(input);
      }
    }
    return false;
  };
  std::vector<Var> totals{loss};
  while (!totals.empty()) {
    const Var x = std::move(totals.back());
    totals.pop_back();
    const Total total = x.node_->of_part.total;
    if (total == Total::of_inputs) {
      for (const Var& input : x.node_->inputs) {
        if (input.node_->of_part.total != Total::none && seen.insert(input.node_.get()).second) totals.push_back(input);
      }
    }
    if (total != Total::sum || !reads_rows(x)) continue;
    throw_invalid(
        "value_and_grad: the loss of each of {} parts is a sum over its rows, made at {}:{}, but grads is the mean "
        "of the parts' gradients; expected a mean: mean(losses), or, for the sum over the batch, mean(losses) "
        "times the number of losses in the whole batch",
        parts, x.node_->where.file_name(), x.node_->where.line());
  }
}

}  // namespace giro::nn
