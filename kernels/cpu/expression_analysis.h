#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <giro/runtime/error.h>

#include "kernels/cpu/expression_plan.h"
#include "kernels/expr/scalar_function.h"

namespace giro::cpu {

[[noreturn]] void reject(ErrorCode code, const std::string& what);

inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Analyzes an expression before its steps are planned: which instructions are needed, its axes, which values are per
// row, and how it is tiled. Fills in that part of the plan.
struct Analysis {
  struct Strides {
    std::int64_t offset;
    std::array<std::int64_t, kMaxAxes> of{};
    std::array<expr::Layout::Bounds, kMaxAxes> bounds{};
  };

  Analysis(const expr::Expression& expression, Plan& plan);

  const expr::Instruction& at(std::size_t i) const { return e_.code[i]; }
  std::size_t size_of_value(std::size_t i) const { return size_of(expr::computed_in(at(i).dtype)); }

  const expr::Expression& e_;
  Plan& p_;
  bool has_reductions_ = false;
  std::vector<bool> needed_, of_rows_, writes_rows_;
  std::vector<bool> is_number_;  // columns: the same for all columns, but not a constant
  std::vector<int> known_;       // the number of passes before a value can be computed
  std::vector<Strides> reads_, places_, writes_;

 private:
  void find_needed();
  void merge_axes();
  void find_levels();
  void choose_pattern();
  void find_numbers();
  bool is_same_along(const Strides& strides, int begin, int end) const;
  bool is_of_rows(const Strides& strides) const { return is_same_along(strides, p_.kept, p_.rank); }
  void cut(std::int64_t inner, std::int64_t most);
  int votes_for_columns() const;
};

}  // namespace giro::cpu
