#include "kernels/cpu/expression_analysis.h"

#include <algorithm>

#include "kernels/cpu/team.h"

namespace giro::cpu {

using expr::Expression;
using expr::Instruction;
using Kind = Instruction::Kind;
using Pattern = Plan::Pattern;

namespace {

constexpr std::int64_t kMaxColumns = 1024, kMinColumns = 128;  // of a tile
constexpr std::int64_t kFewUnits = 8;

}  // namespace

void reject(ErrorCode code, const std::string& what) { throw Error(code, "expression: " + what); }

Analysis::Analysis(const Expression& expression, Plan& plan) : e_(expression), p_(plan) {
  find_needed();
  merge_axes();
  find_levels();
  choose_pattern();
  find_numbers();
}

void Analysis::find_needed() {
  needed_.resize(e_.code.size());
  for (const auto& write : e_.writes) {
    if (write.value >= e_.code.size()) reject(ErrorCode::invalid_argument, "a write of a missing value");
    if (write.to.memory.dtype() != at(write.value).dtype) {
      reject(ErrorCode::dtype_mismatch,
             "a write of " + std::string(name_of(at(write.value).dtype)) + " to " + to_string(write.to.memory));
    }
    needed_[write.value] = true;
  }
  for (std::size_t i = e_.code.size(); i-- > 0;) {
    if (!needed_[i]) continue;
    for (std::size_t k = 0; k < operand_count(at(i)); ++k) {
      const std::size_t operand = at(i).operands[k];
      if (operand >= i) reject(ErrorCode::invalid_argument, "an operand defined after its use");
      needed_[operand] = true;
    }
    if (at(i).kind == Kind::reduce) has_reductions_ = true;
    if (at(i).kind == Kind::read && e_.reads[at(i).index].memory.dtype() != at(i).dtype) {
      reject(ErrorCode::dtype_mismatch,
             "a read of " + std::string(name_of(at(i).dtype)) + " from " + to_string(e_.reads[at(i).index].memory));
    }
  }
}

// Drops axes of size 1, and merges two axes where every access can treat them as one.
void Analysis::merge_axes() {
  std::vector<const expr::Layout*> from(e_.reads.size() + e_.places.size() + e_.writes.size(), nullptr);
  for (std::size_t i = 0; i < e_.code.size(); ++i) {
    if (needed_[i] && at(i).kind == Kind::read) from[at(i).index] = &e_.reads[at(i).index].layout;
    if (needed_[i] && at(i).kind == Kind::place) from[e_.reads.size() + at(i).index] = &e_.places[at(i).index];
  }
  for (std::size_t w = 0; w < e_.writes.size(); ++w) {
    from[e_.reads.size() + e_.places.size() + w] = &e_.writes[w].to.layout;
  }
  std::vector<Strides> to(from.size());
  for (std::size_t l = 0; l < from.size(); ++l) to[l].offset = from[l] != nullptr ? from[l]->offset : 0;

  const std::size_t split = e_.space.rank() - e_.reduced;
  int rank = 0;
  const auto add_group = [&](std::size_t begin, std::size_t end) {
    const int first = rank;
    for (std::size_t a = begin; a < end; ++a) {
      const std::int64_t size = e_.space[static_cast<int>(a)];
      const bool is_whole = std::all_of(from.begin(), from.end(), [&](const expr::Layout* layout) {
        return layout == nullptr || layout->bounds[a].holds_all_of(size);
      });
      if (size == 1 && is_whole) continue;
      bool joins = rank > first && is_whole;
      for (std::size_t l = 0; l < from.size() && joins; ++l) {
        joins = from[l] == nullptr || to[l].of[rank - 1] == from[l]->strides[a] * size;
      }
      if (!joins) p_.sizes[rank++] = 1;
      p_.sizes[rank - 1] *= size;
      for (std::size_t l = 0; l < from.size(); ++l) {
        if (from[l] == nullptr) continue;
        to[l].of[rank - 1] = from[l]->strides[a];
        expr::Layout::Bounds& bounds = to[l].bounds[rank - 1];
        bounds = joins ? expr::Layout::Bounds{bounds.begin * size, bounds.end * size}
                       : expr::Layout::Bounds{from[l]->bounds[a].begin, std::min(from[l]->bounds[a].end, size)};
      }
    }
    if (rank == first) p_.sizes[rank++] = 1;
  };
  add_group(0, split);
  p_.kept = rank;
  if (e_.reduced > 0 || has_reductions_) add_group(split, e_.space.rank());
  p_.rank = rank;
  const auto writes = to.begin() + static_cast<std::ptrdiff_t>(e_.reads.size() + e_.places.size());
  reads_.assign(to.begin(), to.begin() + static_cast<std::ptrdiff_t>(e_.reads.size()));
  places_.assign(to.begin() + static_cast<std::ptrdiff_t>(e_.reads.size()), writes);
  writes_.assign(writes, to.end());
}

bool Analysis::is_same_along(const Strides& strides, int begin, int end) const {
  for (int a = begin; a < end; ++a) {
    if ((strides.of[a] != 0 && p_.sizes[a] != 1) || !strides.bounds[a].holds_all_of(p_.sizes[a])) return false;
  }
  return true;
}

// Finds which values are per row, and after how many passes each is known.
void Analysis::find_levels() {
  const std::size_t n = e_.code.size();
  of_rows_.assign(n, false);
  known_.assign(n, 0);
  const bool has_rows = p_.rank > p_.kept;
  for (std::size_t i = 0; i < n; ++i) {
    if (!needed_[i]) continue;
    bool of_rows = has_rows;
    for (std::size_t k = 0; k < operand_count(at(i)); ++k) {
      const std::size_t operand = at(i).operands[k];
      known_[i] = std::max(known_[i], known_[operand]);
      of_rows = of_rows && of_rows_[operand];
    }
    switch (at(i).kind) {
      case Kind::read:
        of_rows_[i] = has_rows && is_of_rows(reads_[at(i).index]);
        break;
      case Kind::place:
        of_rows_[i] = has_rows && is_of_rows(places_[at(i).index]);
        break;
      case Kind::reduce:
        of_rows_[i] = true;
        ++known_[i];
        break;
      default:
        of_rows_[i] = of_rows;
    }
  }
  writes_rows_.resize(e_.writes.size());
  bool any = false;
  for (std::size_t w = 0; w < e_.writes.size(); ++w) {
    writes_rows_[w] = of_rows_[e_.writes[w].value] && is_of_rows(writes_[w]);
    any = any || writes_rows_[w];
  }
  if (!has_reductions_ && !any) {  // nothing is per row
    p_.kept = p_.rank;
    of_rows_.assign(n, false);
  }
}

void Analysis::choose_pattern() {
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

void Analysis::find_numbers() {
  is_number_.assign(e_.code.size(), false);
  if (p_.pattern != Pattern::columns) return;
  for (std::size_t i = 0; i < e_.code.size(); ++i) {
    if (!needed_[i] || of_rows_[i]) continue;
    const auto is_same = [&](std::size_t k) { return is_number_[k] || at(k).kind == Kind::constant; };
    const auto first = at(i).operands.begin();
    is_number_[i] = at(i).kind == Kind::read ? is_same_along(reads_[at(i).index], 0, p_.kept)
                    : at(i).kind == Kind::place
                        ? is_same_along(places_[at(i).index], 0, p_.kept)
                        : std::all_of(first, first + static_cast<std::ptrdiff_t>(operand_count(at(i))), is_same);
  }
}

// Tiles the innermost axis that is not reduced.
void Analysis::cut(std::int64_t inner, std::int64_t most) {
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
int Analysis::votes_for_columns() const {
  int votes = 0;
  const auto count = [&](const Strides& strides) {
    if (strides.of[p_.kept - 1] == 0 || strides.of[p_.rank - 1] == 0) return;
    const auto is_one = [&](int a) { return strides.of[a] == 1 && p_.sizes[a] > 1; };
    votes += is_one(p_.kept - 1) - is_one(p_.rank - 1);
  };
  for (std::size_t i = 0; i < e_.code.size(); ++i) {
    if (needed_[i] && at(i).kind == Kind::read && !of_rows_[i]) count(reads_[at(i).index]);
  }
  for (std::size_t w = 0; w < e_.writes.size(); ++w) {
    if (!writes_rows_[w]) count(writes_[w]);
  }
  return votes;
}

}  // namespace giro::cpu
