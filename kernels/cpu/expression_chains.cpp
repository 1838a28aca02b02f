#include "kernels/cpu/expression_chains.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace giro::cpu {
namespace {

class Chains {
 public:
  Chains(Plan& plan, const std::vector<int>& constants) : p_(plan), constants_(constants) {}

  void chain_steps(Plan::Pass& pass) {
    std::vector<Plan::Step> steps;
    for (const Plan::Step& s : pass.steps) {
      if (s.kind != Plan::Step::Kind::apply || s.source == nullptr || s.inputs != 2) {
        steps.push_back(s);
        continue;
      }
      Plan::Step* before = !steps.empty() && steps.back().kind == Plan::Step::Kind::chain ? &steps.back() : nullptr;
      if (before != nullptr && s.in[0] != before->out && s.in[1] != before->out) before = nullptr;
      if (before != nullptr && before->links.size() + 3 > kLongestChain) before = nullptr;
      // The value that goes on is in[x]; a new chain begins with one that is no scalar.
      const int x = before != nullptr ? s.in[0] != before->out : is_scalar(s.in[0], steps);
      const auto code = chain_code(s.source, x == 1);
      const int value = s.in[static_cast<std::size_t>(x)], other = s.in[static_cast<std::size_t>(1 - x)];
      if (!code || (before == nullptr && is_scalar(value, steps))) {
        steps.push_back(s);
        continue;
      }
      const bool is_square = value == other && *code == ChainStep::Code::multiply;
      if (before == nullptr) {
        steps.emplace_back();
        before = &steps.back();
        before->kind = Plan::Step::Kind::chain;
        before->inputs = 0;
        before->links.push_back({ChainStep::Code::load, false, value});
      } else if (uses_of(value) > 1 + is_square || (value == other && !is_square)) {
        before->links.push_back({ChainStep::Code::store, false, value});
      }
      if (is_square) {
        before->links.push_back({ChainStep::Code::square, false, value});
      } else {
        const bool scalar = is_scalar(other, steps);
        before->links.push_back({*code, scalar, scalar ? scalar_of(other, steps) : other});
      }
      before->out = s.out;
      before->size = s.size;
    }
    for (Plan::Step& s : steps) {
      if (s.kind == Plan::Step::Kind::chain) s.links.push_back({ChainStep::Code::store, false, s.out});
    }
    pass.steps = std::move(steps);
    std::erase_if(pass.steps,
                  [&](const Plan::Step& s) { return s.kind == Plan::Step::Kind::expand && uses_of(s.out) == 0; });
  }

 private:
  int uses_of(int value) const {
    int uses = 0;
    for (const Plan::Pass& pass : p_.passes) {
      for (const Plan::Step& s : pass.steps) {
        for (int k = 0; k < s.inputs; ++k) uses += s.in[static_cast<std::size_t>(k)] == value;
        for (const auto& link : s.links) uses += link.value == value;
      }
      for (const Plan::Reduction& r : pass.reductions) uses += r.operand == value;
      for (const Plan::Access& w : pass.writes) uses += w.value == value;
    }
    return uses;
  }

  // One number for all of a tile: a constant, or a row's where a tile is of one row.
  bool is_scalar(int value, const std::vector<Plan::Step>& steps) const { return scalar_of(value, steps) >= 0; }
  int scalar_of(int value, const std::vector<Plan::Step>& steps) const {
    if (std::find(constants_.begin(), constants_.end(), value) != constants_.end()) return value;
    if (p_.pattern != Plan::Pattern::rows || p_.unit_rows != 1) return -1;
    for (const Plan::Step& s : steps) {
      if (s.kind == Plan::Step::Kind::expand && s.out == value) return s.in[0];
    }
    return -1;
  }

  Plan& p_;
  const std::vector<int>& constants_;
};

}  // namespace

void form_chains(Plan& plan, const std::vector<int>& constants) {
  plan.chain = chain();
  Chains chains(plan, constants);
  for (Plan::Pass& pass : plan.passes) chains.chain_steps(pass);
}

}  // namespace giro::cpu
