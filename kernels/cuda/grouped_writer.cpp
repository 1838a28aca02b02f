// Part of ExpressionWriter: rows that several blocks share. For each level of reductions, one kernel reduces each
// block's units, and the last block of a row joins the blocks' results. Another kernel writes the outputs that have a
// value per element. Results of rows pass from kernel to kernel in the workspace.

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "kernels/cuda/expression_writer.h"
#include "kernels/cuda/scalar_source.h"

namespace giro::cuda {

using expr::Combiner;
using Kind = expr::Instruction::Kind;

std::int64_t ExpressionWriter::bytes_of_whole(std::size_t r) const {
  const Instruction& reduction = expression_.code[r];
  const bool has_place = reduction.combiner == Combiner::argmax || reduction.combiner == Combiner::argmin;
  return !has_place ? 8 : size_of(plan_.inputs_dtype(reduction)) == 8 ? 24 : 16;
}

// The size of all of a row's Wholes, over all passes.
std::int64_t ExpressionWriter::bytes_of_wholes() const {
  std::int64_t bytes = 0;
  for (int pass = 0; pass < plan_.levels; ++pass) {
    for (const std::size_t r : plan_.reduced_in(pass)) bytes += bytes_of_whole(r);
  }
  return bytes;
}

// How many threads fit in shared memory, with one Whole per row and reduction.
std::int64_t ExpressionWriter::max_threads() const {
  const std::int64_t bytes = std::max<std::int64_t>(row_pack_ * bytes_of_wholes(), 1);
  return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(kSharedBytes / bytes)));
}

void ExpressionWriter::write_groups(const Share& share) {
  place_in_workspace(share);
  const bool writes_elements = has_element_writes_in(plan_.levels);
  for (int pass = 0; pass < plan_.levels; ++pass) {
    begin_kernel(fmt::format("_parts_{}", pass), share);
    write_row(share);
    write_known_values(pass);
    line(1, "{");
    write_pass(share, pass, false);
    for (const std::size_t r : plan_.reduced_in(pass)) {
      line(1, "if (live && lane == 0) {}[(giro::i64(blockIdx.x % {}) * n + row) / {}] = j{};", parts(r), share.groups,
           row_pack_, r);
    }
    line(1, "}");
    line(1, "if (!giro::is_last_block(arrivals + blockIdx.x / {0}, {0})) return;", share.groups);
    write_finish(share, pass);
    if (pass + 1 == plan_.levels && !writes_elements) write_outputs_of_row("live && lane == 0");
    end_kernel();
  }
  if (!writes_elements) return;
  begin_kernel("_elements", share);
  write_row(share);
  write_known_values(plan_.levels);
  write_pass(share, plan_.levels, false);
  end_kernel();
  bool writes_rows = false;
  for (std::size_t w = 0; w < plan_.writes.size(); ++w) writes_rows |= !this->writes_elements(w);
  if (!writes_rows) return;
  const Share one_each{.is_by_columns = plan_.is_by_columns, .rows = 128};
  begin_kernel("_rows", one_each);
  write_row(one_each);
  write_known_values(plan_.levels);
  write_outputs_of_row("live");
  end_kernel();
}

// Joins all blocks' results for each row, in the last block. Its threads have the same rows as before: one row, or
// several by columns. Then writes the row values that depend on these results.
void ExpressionWriter::write_finish(const Share& share, int pass) {
  Share finish{.is_by_columns = true, .rows = share.rows};
  finish.units = power_of_2(share.groups);
  const std::int64_t most = std::min<std::int64_t>(share.threads(), max_threads());
  finish.lanes = static_cast<int>(std::min(finish.units, std::max<std::int64_t>(most / finish.rows, 1)));
  const std::int64_t each = finish.units / finish.lanes;
  write_operations(finish, plan_.reduced_in(pass));
  for (const std::size_t r : plan_.reduced_in(pass)) {
    line(1, "giro::Tree<Op{0}, typename Op{0}::Whole, {1}> t{0};", r, levels_of(each));
    line(1, "int u{} = 0;", r);
    line(1, "for (; live && u{0} < {1} && lane * {1} + u{0} < {2}; ++u{0})", r, each, share.groups);
    line(2, "t{0}.push(u{0}, {1}[(giro::i64(lane * {2} + u{0}) * n + row) / {3}]);", r, parts(r), each, row_pack_);
    // With 128 units, only Wholes are joined.
    line(1, "const auto j{0} = giro::over_columns<Op{0}, {1}, {2}, 128>(t{0}.joined(u{0}), {3}){4};", r, finish.rows,
         finish.lanes, finish.lanes > 1 ? fmt::format("shared{}", r) : "nullptr", plan_.is_by_columns ? "" : "[0]");
    write_result(r);
    for_each_row(1, fmt::format("if (live && lane == 0) {}[row{}] = {};", result(r), plan_.is_by_columns ? " + e" : "",
                                value(r)));
  }
  write_row_values(pass + 1);
}

// Row values that depend on up to `levels` levels of reductions. The reductions' results are in the workspace.
void ExpressionWriter::write_known_values(int levels) {
  write_row_values(0);
  for (int level = 1; level <= levels; ++level) {
    for (const std::size_t r : plan_.reduced_in(level - 1)) {
      define_row_value(r, fmt::format("live ? {}[row{}] : {}(0)", result(r), plan_.is_by_columns ? " + e" : "",
                                      value_type(expression_.code[r].dtype)));
    }
    write_row_values(level);
  }
}

void ExpressionWriter::place_in_workspace(const Share& share) {
  std::int64_t bytes = 0;
  parts_at_.assign(expression_.code.size(), 0);
  result_at_ = parts_at_;
  for (std::size_t i = 0; i < expression_.code.size(); ++i) {
    if (expression_.code[i].kind != Kind::reduce || !plan_.is_needed[i]) continue;
    parts_at_[i] = bytes;
    bytes += share.groups * bytes_of_whole(i);
    result_at_[i] = bytes;
    bytes += 8;
  }
  source_.workspace_bytes = static_cast<std::size_t>(bytes * plan_.rows);
}

std::string ExpressionWriter::parts(std::size_t r) const {
  return fmt::format("reinterpret_cast<typename Op{}::Whole*>(workspace + giro::i64(n) * {})", r, parts_at_[r]);
}

std::string ExpressionWriter::result(std::size_t r) const {
  return fmt::format("reinterpret_cast<{}*>(workspace + giro::i64(n) * {})", value_type(expression_.code[r].dtype),
                     result_at_[r]);
}

}  // namespace giro::cuda
