#pragma once

#include <fmt/format.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/cuda/expression_plan.h"
#include "kernels/cuda/expression_source.h"

namespace giro::cuda {

// At least n.
inline std::int64_t power_of_2(std::int64_t n) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(n)));
}
// Of a binary tree.
inline int levels_of(std::int64_t count) {
  return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(count))) - 1;
}

// Writes the source of an expression's kernels. In it, r<i> and w<i> are the arguments, x<i> and y<i> the same offset
// to the row, b<i> the number at which a place starts, v<i> the values of instructions, c<axis> coordinates. By
// columns, a thread computes a pack of neighbouring rows; row values are then arrays, indexed by e.
class ExpressionWriter {
 public:
  ExpressionWriter(const expr::Expression& expression, const ops::Publish* tail);
  ExpressionSource write();

 private:
  using Instruction = expr::Instruction;

  // element_writer.cpp: the elements of a thread, and the values of its rows.

  // What to do with `pack` elements of a row, from number i on. Only `count` of them exist.
  struct Elements {
    int pack = 1;
    bool is_whole = false;       // a pack exists either whole or not at all
    bool keeps = false;          // keeps their values in arrays for later passes
    std::vector<bool> run = {};  // instructions
    std::vector<std::size_t> reduced = {};
    int pass = 0;
  };
  void write_loads(const Elements& elements, int indent);
  void write_elements(const Elements& elements, int indent);
  void write_coordinates(const std::string& index, int indent);
  void split(std::string_view number, std::size_t first, std::size_t end, std::string_view axis, std::string_view rest,
             int indent);
  void write_row_values(int level);
  std::string row_of(const ExpressionPlan::Array& array) const;
  void define_row_value(std::size_t instruction, const std::string& text);
  void for_each_row(int indent, const std::string& statement);
  bool is_per_element(int pack) const;
  bool writes_elements(std::size_t write) const;
  bool writes_elements_in(int pass, std::size_t write) const {
    return writes_elements(write) && plan_.pass_of_write(write) == pass;
  }
  // In code for element k. By columns, a thread stops at the end of its row.
  std::string exists(const Elements& elements) const {
    return plan_.is_by_columns && elements.is_whole ? "true" : "k < count";
  }
  std::string offset(const ExpressionPlan::Array& array) const;
  std::string offset_of(const ExpressionPlan::Array& array, const Elements& elements) const;
  std::string if_in_bounds(const ExpressionPlan::Array& array, const std::string& value,
                           const std::string& other) const;
  std::string value(std::size_t instruction) const;
  std::string computed(std::size_t instruction) const;
  static std::string rounded(DType dtype, const std::string& text);
  static std::string strided(const ExpressionPlan::Array& array, std::size_t begin, std::size_t end,
                             std::string_view axis, std::string_view type);

  // expression_writer.cpp: a kernel's frame, and pointwise kernels.
  void write_pointwise();
  int pointwise_pack() const;

  // reduction_writer.cpp: one kernel for all steps. How blocks and threads share rows:
  struct Share {
    bool is_by_columns = false;  // neighbouring threads have neighbouring rows
    int lanes = 1;               // threads per row in a block
    int rows = 1;                // per block, in packs
    std::int64_t units = 1;      // that a block takes of a row; a power of 2
    std::int64_t groups = 1;     // of `units` units in a row, one per block
    int threads() const { return lanes * rows; }
  };
  Share share() const;
  int row_pack() const;
  std::int64_t row_stride_of(const ExpressionPlan::Array& array) const { return array.strides[plan_.row_axes - 1]; }
  int rows_of(const ExpressionPlan::Array& read) const {  // distinct rows of a pack
    return plan_.is_by_columns && row_stride_of(read) != 0 ? row_pack_ : 1;
  }
  void write_passes(const Share& share);
  void write_row(const Share& share);
  void write_pass(const Share& share, int pass, bool keeps);
  void write_steps_along_row(const Share& share, const Elements& elements);
  void write_steps_along_columns(const Share& share, const Elements& elements);
  void write_operations(const Share& share, const std::vector<std::size_t>& reduced);
  void write_result(std::size_t reduced);
  void write_outputs_of_row(const std::string& condition);
  bool keeps_values(const Share& share) const;
  bool has_element_writes_in(int pass) const;
  std::vector<bool> run_in(int pass) const;
  std::string operation(std::size_t reduced) const;
  std::string_view taken_type(std::size_t reduced) const;

  // grouped_writer.cpp: several blocks share a row; one kernel per step.
  static constexpr std::int64_t kSharedBytes = 20 << 10;  // per block: for its pass, and as much again for joining
  std::int64_t max_threads() const;
  std::int64_t bytes_of_whole(std::size_t reduced) const;
  std::int64_t bytes_of_wholes() const;
  void write_groups(const Share& share);
  void write_finish(const Share& share, int pass);
  void write_known_values(int levels);
  void place_in_workspace(const Share& share);
  std::string parts(std::size_t reduced) const;
  std::string result(std::size_t reduced) const;

  void begin_kernel(const std::string& suffix, int threads, std::int64_t blocks);
  void begin_kernel(const std::string& suffix, const Share& share) {
    begin_kernel(suffix, share.threads(), (packs_of_rows() + share.rows - 1) / share.rows * share.groups);
  }
  std::int64_t packs_of_rows() const { return plan_.rows / row_pack_; }
  void end_kernel();
  void line(int indent, const std::string& text);
  template <class First, class... Rest>
  void line(int indent, fmt::format_string<First, Rest...> format, First&& first, Rest&&... rest) {
    line(indent, fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...));
  }
  std::string title() const;
  std::string_view index_type() const { return plan_.has_wide_index ? "giro::i64" : "int"; }
  std::string_view count_type() const { return source_.has_wide_count ? "giro::i64" : "int"; }

  const expr::Expression& expression_;
  const ops::Publish* const tail_;
  ExpressionPlan plan_;
  ExpressionSource source_;
  std::string body_;
  int row_pack_ = 1;                                // neighbouring rows of a thread, by columns
  std::vector<bool> is_kept_;                       // in an array, by an earlier pass of the kernel
  std::vector<std::int64_t> parts_at_, result_at_;  // of reductions in the workspace, in bytes per row
};

}  // namespace giro::cuda
