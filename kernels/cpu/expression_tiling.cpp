#include "kernels/cpu/expression_tiling.h"

#include <algorithm>

#include "kernels/cpu/team.h"

namespace giro::cpu {

using expr::Expression;
using Kind = expr::Instruction::Kind;
using Pattern = Plan::Pattern;

namespace {

constexpr std::int64_t kMaxColumns = 1024, kMinColumns = 128;  // of a tile
constexpr std::int64_t kFewUnits = 8;

}  // namespace

Tiling::Tiling(const Expression& expression, Plan& plan) : Analysis(expression), p_(plan) {
  set_axes();
  find_values_of_rows();
  choose_pattern();
  find_numbers();
}

void Tiling::set_axes() {
  join_axes();
  if (row_axes == 0) insert_axis(row_axes++);
  const bool has_rows = expression.reduced > 0 || levels > 0;
  if (has_rows && sizes.size() == row_axes) insert_axis(row_axes);
  p_.rank = static_cast<int>(sizes.size());
  p_.kept = static_cast<int>(row_axes);
  std::ranges::copy(sizes, p_.sizes.begin());
}

void Tiling::find_values_of_rows() {
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

void Tiling::choose_pattern() {
  p_.rows = p_.length = 1;
  for (int a = 0; a < p_.rank; ++a) (a < p_.kept ? p_.rows : p_.length) *= p_.sizes[a];
  const std::int64_t inner = p_.sizes[p_.kept - 1];
  if (p_.kept == p_.rank) {
    cut(inner, 2 * kPiece);
  } else if (const int votes = votes_for_columns(); inner >= 16 && votes > 0) {
    p_.pattern = Pattern::columns;
    cut(inner, std::clamp(ceil_div(p_.rows, team_threads()), kMinColumns, kMaxColumns));
  } else {
    p_.pattern = Pattern::rows;
    p_.unit_rows = std::max<std::int64_t>(1, std::min(p_.rows, kPiece / std::max<std::int64_t>(1, p_.length)));
    p_.tile = std::min(p_.length, kPiece) * p_.unit_rows;
    p_.units = ceil_div(p_.rows, p_.unit_rows);
  }
  if (p_.rows == 0) p_.units = 0;
  const std::int64_t few = p_.pattern == Pattern::columns ? team_threads() : kFewUnits;
  p_.is_split = p_.pattern != Pattern::elements && p_.units < few && p_.length >= 2 * kBlockLength;
}

void Tiling::find_numbers() {
  is_number_.assign(expression.code.size(), false);
  if (p_.pattern != Pattern::columns) return;
  for (std::size_t i = 0; i < expression.code.size(); ++i) {
    if (!is_needed[i] || of_rows_[i]) continue;
    const auto is_same = [&](std::size_t k) { return is_number_[k] || at(k).kind == Kind::constant; };
    const auto first = at(i).operands.begin();
    is_number_[i] = at(i).kind == Kind::read || at(i).kind == Kind::place
                        ? array_of(at(i)).is_same_along(0, row_axes)
                        : std::all_of(first, first + static_cast<std::ptrdiff_t>(operand_count(at(i))), is_same);
  }
}

// Tiles the innermost axis that is not reduced.
void Tiling::cut(std::int64_t inner, std::int64_t most) {
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
int Tiling::votes_for_columns() const {
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

}  // namespace giro::cpu
