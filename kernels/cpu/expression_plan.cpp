#include "kernels/cpu/expression_plan.h"

#include <cstring>
#include <optional>
#include <string>

#include <giro/runtime/error.h>

#include "kernels/cpu/expression_values.h"
#include "kernels/cpu/team.h"
#include "kernels/expr/scalar_function.h"
#include "kernels/expr/table.h"
#include "runtime/program/overlap.h"

namespace giro::cpu {
namespace {

using expr::Combiner;
using expr::computed_in;
using expr::Expression;
using expr::Instruction;
using Kind = Instruction::Kind;
using Pattern = Plan::Pattern;

constexpr std::int64_t kMaxKeptLength = 65536;  // elements: the longest row whose values are kept between passes
constexpr std::int64_t kMaxColumns = 1024, kMinColumns = 128;  // of a tile
constexpr std::int64_t kFewUnits = 8;

class Planner : expr::Analysis {
 public:
  Planner(const Expression& expression, int threads, Plan& plan) : Analysis(expression), threads_(threads), p_(plan) {}

  void run() {
    set_axes();
    find_values_of_rows();
    choose_pattern();
    find_numbers();
    make_passes();
    form_chains(p_, values_);
    place_values(p_, values_, expression);
  }

 private:
  const Instruction& at(std::size_t i) const { return expression.code[i]; }
  const Array& array_of(const Instruction& load) const {
    return (load.kind == Kind::read ? reads : places)[load.index];
  }
  std::size_t size_of_value(std::size_t i) const { return size_of(computed_in(at(i).dtype)); }

  void set_axes() {
    join_axes();
    if (row_axes == 0) insert_axis(row_axes++);
    const bool has_rows = expression.reduced > 0 || levels > 0;
    if (has_rows && sizes.size() == row_axes) insert_axis(row_axes);
    p_.rank = static_cast<int>(sizes.size());
    p_.kept = static_cast<int>(row_axes);
    std::ranges::copy(sizes, p_.sizes.begin());
  }

  void find_values_of_rows() {
    const bool has_rows = p_.rank > p_.kept;
    of_rows_ = values_that_vary_from(row_axes);
    for (std::size_t i = 0; i < of_rows_.size(); ++i) of_rows_[i] = has_rows && is_needed[i] && !of_rows_[i];
    for (std::size_t w = 0; w < writes.size(); ++w) {
      writes_rows_.push_back(of_rows_[expression.writes[w].value] && writes[w].is_same_along(row_axes, sizes.size()));
    }
    if (levels == 0 && std::ranges::find(writes_rows_, true) == writes_rows_.end()) {  // nothing is per row
      p_.kept = p_.rank;
      of_rows_.assign(of_rows_.size(), false);
    }
  }

  void choose_pattern() {
    p_.rows = p_.length = 1;
    for (int a = 0; a < p_.rank; ++a) (a < p_.kept ? p_.rows : p_.length) *= p_.sizes[a];
    const std::int64_t inner = p_.sizes[p_.kept - 1];
    if (p_.kept == p_.rank) {
      cut(inner, 2 * kPiece);
    } else if (const int votes = votes_for_columns(); inner >= 16 && votes > 0) {
      p_.pattern = Pattern::columns;
      cut(inner, std::clamp(ceil_div(p_.rows, threads_), kMinColumns, kMaxColumns));
    } else {
      p_.pattern = Pattern::rows;
      p_.unit_rows = std::max<std::int64_t>(1, std::min(p_.rows, kPiece / std::max<std::int64_t>(1, p_.length)));
      p_.tile = std::min(p_.length, kPiece) * p_.unit_rows;
      p_.units = ceil_div(p_.rows, p_.unit_rows);
    }
    if (p_.rows == 0) p_.units = 0;
    const std::int64_t few = p_.pattern == Pattern::columns ? threads_ : kFewUnits;
    p_.is_split = p_.pattern != Pattern::elements && p_.units < few && p_.length >= 2 * kBlockLength;
  }

  // Tiles the innermost axis that is not reduced.
  void cut(std::int64_t inner, std::int64_t most) {
    const std::int64_t others = inner == 0 ? 0 : p_.rows / inner;
    if (inner >= most / 2) {
      p_.tiles_of_axis = ceil_div(inner, most);
      p_.tile = std::min(inner, ceil_div(ceil_div(inner, p_.tiles_of_axis), 16) * 16);
      p_.tiles_of_axis = ceil_div(inner, p_.tile);
      p_.units = others * p_.tiles_of_axis;
    } else {
      const std::int64_t together = std::min(others, most / std::max<std::int64_t>(1, inner));
      p_.tile = inner * together;
      p_.units = together == 0 ? 0 : ceil_div(others, together);
    }
    p_.unit_rows = p_.tile;
  }

  // Only arrays that vary along both innermost axes vote.
  int votes_for_columns() const {
    int votes = 0;
    const auto count = [&](const Array& array) {
      if (array.strides[p_.kept - 1] == 0 || array.strides[p_.rank - 1] == 0) return;
      const auto is_one = [&](int a) { return array.strides[a] == 1 && p_.sizes[a] > 1; };
      votes += is_one(p_.kept - 1) - is_one(p_.rank - 1);
    };
    for (std::size_t i = 0; i < expression.code.size(); ++i) {
      if (is_needed[i] && at(i).kind == Kind::read && !of_rows_[i]) count(reads[at(i).index]);
    }
    for (std::size_t w = 0; w < writes.size(); ++w) {
      if (!writes_rows_[w]) count(writes[w]);
    }
    return votes;
  }

  void find_numbers() {
    is_number_.assign(expression.code.size(), false);
    if (p_.pattern != Pattern::columns) return;
    for (std::size_t i = 0; i < expression.code.size(); ++i) {
      if (!is_needed[i] || of_rows_[i]) continue;
      const auto is_same = [&](std::size_t k) { return is_number_[k] || at(k).kind == Kind::constant; };
      is_number_[i] = at(i).kind == Kind::read || at(i).kind == Kind::place
                          ? array_of(at(i)).is_same_along(0, row_axes)
                          : std::ranges::all_of(operands_of(at(i)), is_same);
    }
  }

  Plan::Access access(const Array& array, bool of_rows) const {
    Plan::Access a{array};
    for (std::size_t k = 0; k < sizes.size(); ++k) a.is_bounded = a.is_bounded || !a.is_whole_along(k);
    const int last = of_rows || p_.pattern == Pattern::columns ? p_.kept : p_.rank;
    a.is_flat = !a.is_bounded;
    a.is_periodic = !a.is_bounded;
    std::int64_t count = 1;
    for (int k = last - 1; k >= 0; --k) {
      a.is_flat = a.is_flat && (a.strides[k] == count || p_.sizes[k] == 1);
      a.is_periodic = a.is_periodic && (k == last - 1 || a.strides[k] == 0 || p_.sizes[k] == 1);
      count *= p_.sizes[k];
    }
    return a;
  }

  int load(std::size_t i, bool of_rows, std::vector<Plan::Access>& into) {
    const Instruction& code = at(i);
    Plan::Access a = access(array_of(code), of_rows);
    if (code.kind == Kind::read) {
      a.array = code.index;
    } else {
      a.is_flat = false;
    }
    if (is_16_bit(code.dtype)) a.convert = conversion(code.dtype, DType::f32);
    const bool is_of_elements = code.kind == Kind::read && !of_rows;
    a.value = values_.add({size_of_value(i), of_rows, true, is_of_elements ? code.index : -1});
    a.number = p_.number_of_reads++;
    a.is_number = !of_rows && is_number_[i];
    into.push_back(a);
    return a.value;
  }

  int constant(std::size_t i) {
    const DType dtype = at(i).dtype, computed = computed_in(dtype);
    PlannedValues::Constant constant{values_.add({0, true, true}), size_of(computed), {}};
    if (computed == DType::f64) {
      std::memcpy(constant.bytes.data(), &at(i).number, 8);
    } else if (computed == DType::f32) {
      float number = static_cast<float>(at(i).number);
      if (is_16_bit(dtype)) rounding(dtype)(&number, &number, 1);
      std::memcpy(constant.bytes.data(), &number, 4);
    } else {
      conversion(DType::i64, computed)(&at(i).integer, constant.bytes.data(), 1);
    }
    values_.constants.push_back(constant);
    return constant.value;
  }

  Plan::Step step(std::size_t i, const std::array<int, 3>& in, int out) const {
    const Instruction& code = at(i);
    Plan::Step s;
    s.in = in;
    s.inputs = static_cast<int>(operands_of(code).size());
    s.out = out;
    s.size = size_of_value(i);
    const DType from = computed_in(inputs_dtype(code));
    if (code.kind == Kind::cast) {
      s.kind = Plan::Step::Kind::convert;
      s.convert = conversion(from, computed_in(code.dtype));
      if (is_16_bit(code.dtype)) s.round = rounding(code.dtype);
    } else {
      s.loop = code.function->loops.get(from);
      if (s.loop == nullptr) {
        expr::reject(ErrorCode::dtype_mismatch, std::string(code.function->name) + " of " + std::string(name_of(from)));
      }
      if (is_16_bit(code.dtype) && !code.function->rules.is_exact) s.round = rounding(code.dtype);
      if (from == DType::f32) s.function = code.function;
    }
    return s;
  }

  // f of each operand.
  template <class F>
  std::array<int, 3> operands(std::size_t i, const F& f) {
    std::array<int, 3> values{};
    for (std::size_t k = 0; k < operands_of(at(i)).size(); ++k) values[k] = f(at(i).operands[k]);
    return values;
  }

  // The value of each row. Its steps come before pass level[i].
  int row_value(std::size_t i) {
    if (row_values_[i] >= 0) return row_values_[i];
    int value = -1;
    switch (at(i).kind) {
      case Kind::constant:
        value = constant(i);
        break;
      case Kind::read:
      case Kind::place:
        value = load(i, true, p_.row_reads);
        break;
      case Kind::reduce:
        value = values_.add({size_of_value(i), true, true});  // set by its pass
        break;
      default: {
        const auto in = operands(i, [&](std::size_t k) { return row_value(k); });
        value = values_.add({size_of_value(i), true, true});
        const auto before = static_cast<std::size_t>(level[i]);
        (before == 0 ? p_.first_row_steps : p_.passes[before - 1].row_steps).push_back(step(i, in, value));
      }
    }
    return row_values_[i] = value;
  }

  // The value of each element, in the pass being made.
  int element_value(std::size_t i) {
    const bool is_constant = at(i).kind == Kind::constant;
    if (is_constant || (of_rows_[i] && p_.pattern == Pattern::columns)) return row_value(i);
    if (element_values_[i] >= 0) return element_values_[i];
    int value = -1;
    if (is_number_[i] || (of_rows_[i] && at(i).kind != Kind::read && at(i).kind != Kind::place)) {
      const int single = is_number_[i] ? number_value(i) : row_value(i);
      value = values_.add({size_of_value(i), false, false});
      p_.passes[static_cast<std::size_t>(pass_)].steps.push_back(
          {.kind = Plan::Step::Kind::expand, .in = {single}, .out = value, .size = size_of_value(i)});
    } else {
      value = computed(i, [&](std::size_t k) { return element_value(k); });
    }
    return element_values_[i] = value;
  }

  // The same for a value that is a number, equal for all columns.
  int number_value(std::size_t i) {
    if (at(i).kind == Kind::constant) return row_value(i);
    if (numbers_[i] < 0) numbers_[i] = computed(i, [&](std::size_t k) { return number_value(k); });
    return numbers_[i];
  }

  template <class Operand>
  int computed(std::size_t i, const Operand& operand) {
    Plan::Pass& pass = p_.passes[static_cast<std::size_t>(pass_)];
    if (at(i).kind == Kind::read || at(i).kind == Kind::place) return load(i, false, pass.reads);
    const auto in = operands(i, operand);
    // A chain rereads a number for each of its blocks, so its slot must not be reused.
    const int value = values_.add({size_of_value(i), false, is_number_[i]});
    pass.steps.push_back(step(i, in, value));
    pass.steps.back().is_number = is_number_[i];
    return value;
  }

  int converted(int value, DType from, DType to, std::vector<Plan::Step>& steps) {
    const int out = values_.add({size_of(to), false, false});
    steps.push_back(Plan::Step::conversion(value, from, out, to));
    return out;
  }

  // For a sum in f64 of the squares of f32 values: these values.
  std::optional<std::size_t> squared_f32(const Instruction& sum) const {
    const Instruction& square = at(sum.operands[0]);
    if (sum.combiner != Combiner::sum || square.kind != Kind::apply || square.dtype != DType::f64 ||
        square.function != &expr::functions::square) {
      return std::nullopt;
    }
    const Instruction& wide = at(square.operands[0]);
    const bool is_of_f32 = wide.kind == Kind::cast && computed_in(at(wide.operands[0]).dtype) == DType::f32;
    return is_of_f32 ? std::optional<std::size_t>(wide.operands[0]) : std::nullopt;
  }

  void add_reduction(std::size_t i) {
    Plan::Pass& pass = p_.passes[static_cast<std::size_t>(pass_)];
    const Instruction& code = at(i);
    const bool is_place = code.combiner == Combiner::argmax || code.combiner == Combiner::argmin;
    if (is_place && p_.length == 0) expr::reject(ErrorCode::invalid_argument, "argmax or argmin of no elements");
    Plan::Reduction r;
    const std::optional<std::size_t> squared = squared_f32(code);
    DType dtype = squared ? DType::f32 : computed_in(at(code.operands[0]).dtype);
    r.operand = element_value(squared.value_or(code.operands[0]));
    if ((code.combiner == Combiner::any || code.combiner == Combiner::all) && dtype != DType::boolean) {
      r.operand = converted(r.operand, dtype, DType::boolean, pass.steps);
      dtype = DType::boolean;
    }
    r.fold = squared ? fold_of_squares() : fold_of(code.combiner, dtype);
    if (r.fold.takes != dtype) r.operand = converted(r.operand, dtype, r.fold.takes, pass.steps);
    r.number = p_.number_of_reductions++;
    r.index = static_cast<int>(pass.reductions.size());
    r.out = row_value(i);
    if (const DType to = computed_in(code.dtype); to != r.fold.gives) {
      r.convert = conversion(r.fold.gives, to);
      r.between = values_.add({size_of(r.fold.gives), true, true});
    }
    if (is_16_bit(code.dtype)) r.round = rounding(code.dtype);
    r.is_sum_of_f32 = code.combiner == Combiner::sum && dtype == DType::f32 && !squared;
    pass.reductions.push_back(r);
  }

  // One arithmetic step on values that are read: it is recomputed in the next pass instead of kept.
  bool costs_no_more_than_a_load(std::size_t i) const {
    const Instruction& code = at(i);
    const bool is_one_step = code.function == &expr::functions::add || code.function == &expr::functions::subtract ||
                             code.function == &expr::functions::multiply;
    if (!is_one_step || code.dtype != DType::f32) return false;
    return std::all_of(code.operands.begin(), code.operands.begin() + 2, [&](std::size_t k) {
      return at(k).dtype == DType::f32 && (of_rows_[k] || at(k).kind == Kind::read || at(k).kind == Kind::constant);
    });
  }

  void make_passes() {
    const int passes = levels + 1;
    p_.passes.resize(static_cast<std::size_t>(passes));
    row_values_.assign(expression.code.size(), -1);
    element_values_.assign(expression.code.size(), -1);
    const bool keeps = p_.pattern == Pattern::rows && !p_.is_split && p_.length <= kMaxKeptLength;
    const bool keeps_reads = keeps && p_.length <= kPiece;
    for (pass_ = 0; pass_ < passes; ++pass_) {
      for (std::size_t i = 0; i < expression.code.size(); ++i) {
        const bool is_read = at(i).kind == Kind::read || at(i).kind == Kind::place;
        if (is_read ? !keeps_reads : !keeps || of_rows_[i] || costs_no_more_than_a_load(i)) element_values_[i] = -1;
      }
      numbers_.assign(expression.code.size(), -1);
      Plan::Pass& pass = p_.passes[static_cast<std::size_t>(pass_)];
      for (const std::size_t i : reduced_in(pass_)) add_reduction(i);
      for (std::size_t w = 0; w < expression.writes.size(); ++w) {
        if (!writes_rows_[w] && pass_of_write(w) == pass_) pass.writes.push_back(write(w, false));
      }
      p_.work += p_.rows * p_.length * static_cast<std::int64_t>(pass.steps.size() + pass.reductions.size() + 1);
    }
    for (std::size_t w = 0; w < expression.writes.size(); ++w) {
      if (writes_rows_[w]) p_.row_writes.push_back(write(w, true));
    }
  }
  Plan::Access write(std::size_t w, bool of_rows) {
    Plan::Access a = access(writes[w], of_rows);
    const std::size_t value = expression.writes[w].value;
    a.value = of_rows ? row_value(value) : element_value(value);
    a.number = static_cast<int>(w);
    a.array = static_cast<int>(reads.size() + w);
    if (is_16_bit(a.dtype)) a.convert = conversion(DType::f32, a.dtype);
    return a;
  }

  const int threads_;
  Plan& p_;
  std::vector<bool> of_rows_, writes_rows_;
  std::vector<bool> is_number_;                             // columns: the same for all columns, but not a constant
  std::vector<int> row_values_, element_values_, numbers_;  // indices of values, or -1
  PlannedValues values_;
  int pass_ = 0;
};

}  // namespace

Plan::Key::Key(const Expression& expression)
    : structure(expr::structure_of(expression)), threads(expression.reduced > 0 ? team_threads() : 0) {
  for (const Expression::Write& write : expression.writes) {
    for (const expr::Access& read : expression.reads) {
      overlaps.push_back(detail::overlap(write.to.memory, read.memory));
    }
  }
}

Plan::Plan(const Expression& expression, const Key& key) { Planner(expression, key.threads, *this).run(); }

}  // namespace giro::cpu
