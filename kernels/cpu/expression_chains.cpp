#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "kernels/cpu/expression_values.h"
#include "kernels/expr/table.h"

namespace giro::cpu {
namespace {

using Step = Plan::Step;

constexpr std::int64_t kShortest = 128;  // elements: the shortest row worth its own lanes

class Chains {
 public:
  Chains(Plan& plan, PlannedValues& values) : p_(plan), values_(values) {
    count(p_.first_row_steps);
    for (const Plan::Pass& pass : p_.passes) {
      count(pass.steps);
      count(pass.row_steps);
      for (const Plan::Reduction& r : pass.reductions) ++uses_[r.operand];
      for (const Plan::Access& w : pass.writes) ++uses_[w.value];
    }
    for (const Plan::Access& w : p_.row_writes) ++uses_[w.value];
  }

  // A step without a chain function, or of another dtype, goes before the chain, or ends it if it needs its values.
  void form(std::vector<Step>& steps, bool of_rows) {
    of_rows_ = of_rows;
    done_.clear();
    in_four_bytes_.clear();
    conditions_ = {};
    for (const Step& s : steps) {
      if (const auto function = function_of(s); function && function->inputs == 3) ++conditions_[s.in[0]];
    }
    for (const Step& s : steps) {
      if (const auto function = function_of(s)) {
        add(s, *function);
        continue;
      }
      if (std::ranges::any_of(s.operands(), [&](int value) { return std::ranges::count(made_, value) > 0; })) end();
      for (const int value : s.operands()) --uses_[value];
      done_.push_back(s);
    }
    end();
    std::erase_if(done_, [&](const Step& s) { return s.kind == Step::Kind::expand && !is_read(s.out); });
    steps = std::move(done_);
  }

 private:
  void count(const std::vector<Step>& steps) {
    for (const Step& s : steps) {
      for (const int value : s.operands()) ++uses_[value];
    }
  }

  static std::optional<ChainFunction> function_of(const Step& s) {
    if (s.kind != Step::Kind::apply || s.function == nullptr || s.is_number) return std::nullopt;
    const bool is_square = s.function == &expr::functions::multiply && s.in[0] == s.in[1];
    return chain_function(is_square ? expr::functions::square : *s.function);
  }

  void add(const Step& s, const ChainFunction& function) {
    const std::size_t first = s.inputs == 3 ? 1 : 0;
    const int condition = s.inputs == 3 ? in_four_bytes(s.in[0]) : -1;
    const int a = s.in[first], b = function.inputs > 1 ? s.in[first + 1] : a;
    for (const int value : s.operands()) --uses_[value];
    const bool operand_first = held_ != a && (held_ == b || number_of(a) >= 0);
    const int value = operand_first ? b : a, other = operand_first ? a : b;
    // The value stays in registers; the one it replaces is stored if it is still needed.
    if (held_ >= 0 && !is_stored_ &&
        (uses_[held_] > 0 || held_ == condition || (function.inputs > 1 && held_ == other))) {
      push(kChainStore.code, held_);
      is_stored_ = true;
    }
    if (value != held_) push_with(kChainLoad, false, value);
    if (function.inputs == 1) {
      push(function.code, links_.back().operand);
    } else {
      push_with(function, operand_first, other);
      if (condition >= 0) links_.back().condition = condition;
    }
    if (s.round != nullptr) {
      push((s.round == rounding(DType::bf16) ? kChainToBf16 : kChainToF16).code, links_.back().operand);
    }
    held_ = s.size == 1 ? boolean_in_four_bytes(s.out) : s.out;
    is_stored_ = false;
    made_.push_back(held_);
  }

  void push(int code, int operand) { links_.push_back({code, operand, operand}); }
  void push_with(const ChainFunction& function, bool operand_first, int operand) {
    const int number = number_of(operand);
    push(function.with(operand_first, number >= 0), number >= 0 ? number : operand);
  }

  // The value that is one number for the whole tile, or -1: a constant, the value of a tile's only row, or one for all
  // columns.
  int number_of(int value) const {
    const auto is_value = [&](const PlannedValues::Constant& constant) { return constant.value == value; };
    if (std::ranges::any_of(values_.constants, is_value)) return value;
    const bool is_of_one_row = p_.pattern == Plan::Pattern::rows && p_.unit_rows == 1;
    if (of_rows_ || (!is_of_one_row && p_.pattern != Plan::Pattern::columns)) return -1;
    for (const Step& s : done_) {
      if (s.kind == Step::Kind::expand && s.out == value) return s.in[0];
    }
    return -1;
  }

  // A boolean in four bytes, for conditions in this chain. After the chain it is converted for other uses.
  int boolean_in_four_bytes(int value) {
    const int result = values_.add({4, of_rows_, of_rows_});
    const int others = uses_[value] - conditions_[value];
    in_four_bytes_[value] = result;
    uses_[result] = conditions_[value] + (others > 0 ? 1 : 0);
    if (others > 0) {
      after_.push_back(Step::conversion(result, DType::i32, value, DType::boolean));
      made_.push_back(value);
    }
    return result;
  }
  int in_four_bytes(int value) {
    const auto [at, is_new] = in_four_bytes_.try_emplace(value, -1);
    if (is_new) {
      at->second = values_.add({4, of_rows_, of_rows_});
      done_.push_back(Step::conversion(value, DType::u8, at->second, DType::i32));
      uses_[at->second] = conditions_[value];
    }
    --uses_[at->second];
    return at->second;
  }

  void end() {
    if (held_ >= 0) {
      if (!is_stored_ && uses_[held_] > 0) push(kChainStore.code, held_);
      done_.push_back({.kind = Step::Kind::chain, .inputs = 0, .links = std::move(links_)});
      done_.insert(done_.end(), after_.begin(), after_.end());
    }
    links_.clear();
    after_.clear();
    made_.clear();
    held_ = -1;
  }

  bool is_read(int value) {
    return std::ranges::any_of(done_, [&](const Step& s) { return s.takes(value); }) || uses_[value] > 0;
  }

  Plan& p_;
  PlannedValues& values_;
  bool of_rows_ = false;
  // A number for each value, which begins as 0.
  struct Counts {
    std::vector<int> all;
    int& operator[](int value) {
      const auto at = static_cast<std::size_t>(value);
      if (at >= all.size()) all.resize(at + 1);
      return all[at];
    }
  };
  Counts uses_;                       // remaining uses of each value
  Counts conditions_;                 // of these, as conditions of `where` in these steps
  std::map<int, int> in_four_bytes_;  // the four-byte form of a boolean
  std::vector<Step> done_, after_;    // steps before the chain, and after it
  std::vector<ChainStep> links_;
  std::vector<int> made_;  // values made by the chain
  int held_ = -1;          // the value in registers, or -1
  bool is_stored_ = false;
};

bool is_written(const Plan& plan, int value) {
  return std::ranges::any_of(plan.passes, [&](const Plan::Pass& pass) {
    return std::ranges::any_of(pass.writes, [&](const Plan::Access& write) { return write.value == value; });
  });
}

// Lets chains add to sums while the values are in registers.
void sum_in_chains(Plan& plan, Plan::Pass& pass, PlannedValues& values) {
  for (Plan::Reduction& r : pass.reductions) {
    if (!r.is_sum_of_f32) continue;
    for (Step& s : pass.steps) {
      const auto store = std::ranges::find_if(
          s.links, [&](const ChainStep& l) { return l.code == kChainStore.code && l.operand == r.operand; });
      if (store == s.links.end()) continue;
      r.lanes = values.add({4, false, true});
      const ChainStep sum{kChainSum.code, r.lanes, r.lanes};
      if (is_used(plan, r.operand) || is_written(plan, r.operand)) {
        s.links.insert(store + 1, sum);
      } else {
        *store = sum;
      }
      break;
    }
  }
}

}  // namespace

bool is_used(const Plan& plan, int value) {
  return std::ranges::any_of(plan.passes, [&](const Plan::Pass& pass) {
    return std::ranges::any_of(pass.steps, [&](const Step& s) { return s.takes(value); }) ||
           std::ranges::any_of(pass.reductions, [&](const auto& r) { return r.lanes < 0 && r.operand == value; });
  });
}

void form_chains(Plan& plan, PlannedValues& values) {
  plan.chain = chain();
  Chains chains(plan, values);
  chains.form(plan.first_row_steps, true);
  for (Plan::Pass& pass : plan.passes) {
    chains.form(pass.steps, false);
    chains.form(pass.row_steps, true);
  }
  const bool is_of_one_row = plan.pattern == Plan::Pattern::rows && plan.unit_rows == 1 && plan.length >= kShortest;
  for (Plan::Pass& pass : plan.passes) {
    if (is_of_one_row) sum_in_chains(plan, pass, values);
  }
}

}  // namespace giro::cpu
