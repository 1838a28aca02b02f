#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cpu/expression_plan.h"
#include "kernels/expr/analysis.h"

namespace giro::cpu {

inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Chooses how an expression is tiled, before its steps are planned. Fills in that part of the plan.
struct Tiling : expr::Analysis {
  Tiling(const expr::Expression& expression, Plan& plan);

  const expr::Instruction& at(std::size_t i) const { return expression.code[i]; }
  const Array& array_of(const expr::Instruction& load) const {
    return (load.kind == expr::Instruction::Kind::read ? reads : places)[load.index];
  }
  std::size_t size_of_value(std::size_t i) const { return size_of(expr::computed_in(at(i).dtype)); }

  Plan& p_;
  std::vector<bool> of_rows_, writes_rows_;
  std::vector<bool> is_number_;  // columns: the same for all columns, but not a constant

 private:
  void set_axes();
  void find_values_of_rows();
  void choose_pattern();
  void find_numbers();
  void cut(std::int64_t inner, std::int64_t most);
  int votes_for_columns() const;
};

}  // namespace giro::cpu
