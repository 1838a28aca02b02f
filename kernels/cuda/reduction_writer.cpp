// Of ExpressionWriter: what reduces.

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "kernels/cuda/expression_writer.h"
#include "kernels/cuda/scalar_source.h"

namespace giro::cuda {

using pointwise::Combiner;
using pointwise::Expression;
using Kind = pointwise::Instruction::Kind;

namespace {

constexpr int kMostLanes = 1024;          // of a row, each with a unit at a time
constexpr int kFewestThreads = 128;       // of a block
constexpr int kColumnThreads = 512;       // of a block
constexpr std::int64_t kPartUnits = 128;  // that are joined as Parts (reduction_prelude)

std::int64_t units_of(std::int64_t length) { return std::max<std::int64_t>((length + kUnit - 1) / kUnit, 1); }

std::int64_t power_of_2(std::int64_t n) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(n)));
}

int levels_of(std::int64_t count) { return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(count))) - 1; }

}  // namespace

void ExpressionWriter::write_reductions() { write_passes(share()); }

ExpressionWriter::Share ExpressionWriter::share() const {
  Share share;
  share.units = power_of_2(units_of(plan_.length));
  share.lanes = static_cast<int>(std::min<std::int64_t>(share.units, kMostLanes));
  share.rows = std::max(kFewestThreads / share.lanes, 1);
  return share;
}

// One kernel that goes through each row once for every reduction that follows from another, and once to write.
void ExpressionWriter::write_passes(const Share& share) {
  begin_kernel("", static_cast<unsigned int>(share.lanes * share.rows), (plan_.rows + share.rows - 1) / share.rows);
  write_row(share);
  write_row_values(0);
  const bool keeps = keeps_values(share);
  if (keeps) {
    for (std::size_t i = 0; i < expression_.code.size(); ++i) {
      if (!is_needed_[i] || !plan_.is_of_element[i] || expression_.code[i].kind == Kind::constant) continue;
      line(1, fmt::format("{} v{}[{}];", value_type(expression_.code[i].dtype), i, kUnit));
    }
  }
  for (int pass = 0; pass <= plan_.levels; ++pass) {
    if (pass == plan_.levels && !has_element_writes()) break;
    write_pass(share, pass, keeps);
    if (pass < plan_.levels) write_row_values(pass + 1);
  }
  // What the row's outputs may replace has been read.
  if (plan_.levels == 0) {
    line(1, "__syncthreads();");
  } else if (share.lanes > 1 && share.lanes <= 32) {
    line(1, "__syncwarp();");
  }
  write_outputs_of_row("live && lane == 0");
  end_kernel();
}

// Names what belongs to a thread's row: whether it is there (live), how long it is.
void ExpressionWriter::write_row(const Share& share) {
  line(1, fmt::format("const int lane = threadIdx.x % {};", share.lanes));
  line(1, fmt::format("const {0} row = {0}(blockIdx.x) * {1} + threadIdx.x / {2};", count_type(), share.rows,
                      share.lanes));
  line(1, "const bool live = row < n;");
  line(1, fmt::format("const {} length = live ? {} : 0;", index_type(), plan_.length));
  if (plan_.row_axes > 0) {
    std::string rest = "row";
    if (plan_.row_axes > 1) {
      line(1, "auto rest = row;");
      rest = "rest";
    }
    for (std::size_t axis = plan_.row_axes - 1; axis > 0; --axis) {
      line(1, fmt::format("const auto d{0} = rest % {1}; rest /= {1};", axis, plan_.sizes[axis]));
    }
    line(1, fmt::format("const auto d0 = {};", rest));
  }
  const auto offset_of_row = [&](const ExpressionPlan::Array& array) {
    return strided(array.strides, 0, plan_.row_axes, "d", "giro::i64");
  };
  for (std::size_t i = 0; i < plan_.reads.size(); ++i) {
    line(1, fmt::format("const auto* const x{0} = r{0} + ({1});", i, offset_of_row(plan_.reads[i])));
  }
  for (std::size_t i = 0; i < plan_.writes.size(); ++i) {
    line(1, fmt::format("auto* const y{0} = w{0} + ({1});", i, offset_of_row(plan_.writes[i])));
  }
  for (std::size_t i = 0; i < plan_.places.size(); ++i) {
    line(1, fmt::format("const giro::i64 b{} = {} + {};", i, expression_.places[i].offset,
                        offset_of_row(plan_.places[i])));
  }
}

void ExpressionWriter::write_pass(const Share& share, int pass, bool keeps) {
  Elements elements{.pack = kUnit,
                    .is_whole = plan_.length % kUnit == 0,
                    .keeps = keeps,
                    .run = run_in(pass),
                    .reduced = reduced_in(pass),
                    .writes = pass == plan_.levels};
  const std::int64_t steps = share.units / share.lanes;
  for (const std::size_t r : elements.reduced) {
    line(1, fmt::format("typedef {} Op{};", operation(r), r));
    if (share.lanes > 32) {
      line(1, fmt::format("__shared__ typename Op{0}::Part shared{0}[{1}][{2}];", r, steps > 1 ? 2 : 1,
                          share.lanes * share.rows / 32));
    }
    if (steps > 1) line(1, fmt::format("giro::Tree<Op{0}, typename Op{0}::Whole, {1}> t{0};", r, levels_of(steps)));
  }
  const std::int64_t taken = (units_of(plan_.length) + share.lanes - 1) / share.lanes;
  const std::string start =
      steps > 1 ? fmt::format("(s * {} + lane) * {}", share.lanes, kUnit) : fmt::format("lane * {}", kUnit);
  // Values that are kept, and a single step's parts, are known beyond the braces.
  for (const std::size_t r : elements.reduced) line(1, fmt::format("typename Op{0}::Part a{0} = Op{0}::none();", r));
  line(1, steps > 1 ? fmt::format("for (int s = 0; s < {}; ++s) {{", taken) : "{");
  line(2, fmt::format("const {0} i = {0}({1}), count = length - i;", index_type(), start));
  write_elements(elements, 2);
  if (steps > 1) {
    for (const std::size_t r : elements.reduced) {
      line(2, fmt::format("t{0}.push(s, giro::over_lanes<Op{0}, {1}>(a{0}, shared{0}[s % 2]));", r, share.lanes));
      line(2, fmt::format("a{0} = Op{0}::none();", r));
    }
  }
  line(1, "}");
  for (const std::size_t r : elements.reduced) {
    write_result(r, steps > 1 ? fmt::format("t{}.joined({})", r, taken)
                              : fmt::format("giro::over_lanes<Op{0}, {1}>(a{0}, {2})", r, share.lanes,
                                            share.lanes > 32 ? fmt::format("shared{}[0]", r) : "nullptr"));
  }
}

void ExpressionWriter::write_result(std::size_t r, const std::string& whole) {
  const DType dtype = expression_.code[r].dtype;
  line(1, fmt::format("const {0} v{1} = {2};", value_type(dtype), r,
                      rounded(dtype, fmt::format("giro::result_of<{}>({})", value_type(dtype), whole))));
}

void ExpressionWriter::write_outputs_of_row(const std::string& condition) {
  for (std::size_t w = 0; w < plan_.writes.size(); ++w) {
    if (writes_elements(w)) continue;
    line(1, fmt::format("if ({}) *y{} = giro::Store<{}>::of({});", condition, w, storage_type(plan_.writes[w].dtype),
                        value(expression_.writes[w].value)));
  }
}

bool ExpressionWriter::has_element_writes() const {
  for (std::size_t w = 0; w < plan_.writes.size(); ++w) {
    if (writes_elements(w)) return true;
  }
  return false;
}

// Whether what one pass computes stays in registers for the next: a unit of each value does, if they are few.
bool ExpressionWriter::keeps_values(const Share& share) const {
  if (share.is_by_columns || share.units > share.lanes || plan_.levels == 0) return false;
  std::vector<int> first(expression_.code.size(), -1), last(expression_.code.size(), -1);
  for (int pass = 0; pass <= plan_.levels; ++pass) {
    const std::vector<bool> run = run_in(pass);
    for (std::size_t i = 0; i < run.size(); ++i) {
      if (!run[i]) continue;
      if (first[i] < 0) first[i] = pass;
      last[i] = pass;
    }
  }
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (first[i] != last[i]) bytes += kUnit * std::max<std::size_t>(size_of(expression_.code[i].dtype), 4);
  }
  return bytes <= (share.lanes == kMostLanes ? 128 : 384);
}

// The elements' instructions that a pass needs and that no array holds.
std::vector<bool> ExpressionWriter::run_in(int pass) const {
  std::vector<bool> run(expression_.code.size(), false);
  for (const std::size_t r : reduced_in(pass)) run[expression_.code[r].operands[0]] = true;
  if (pass == plan_.levels) {
    for (std::size_t w = 0; w < plan_.writes.size(); ++w) {
      if (writes_elements(w)) run[expression_.writes[w].value] = true;
    }
  }
  for (std::size_t i = run.size(); i-- > 0;) {
    const Instruction& instruction = expression_.code[i];
    run[i] = run[i] && plan_.is_of_element[i] && !is_kept_[i];
    for (std::size_t k = 0; run[i] && k < operands_of(instruction); ++k) run[instruction.operands[k]] = true;
  }
  return run;
}

std::vector<std::size_t> ExpressionWriter::reduced_in(int pass) const {
  std::vector<std::size_t> reduced;
  for (std::size_t i = 0; i < expression_.code.size(); ++i) {
    const bool is_reduction = expression_.code[i].kind == Kind::reduce && is_needed_[i];
    if (is_reduction && plan_.level[i] == pass + 1) reduced.push_back(i);
  }
  return reduced;
}

// What the elements are converted to before they are combined.
std::string_view ExpressionWriter::taken_type(std::size_t r) const {
  const Instruction& instruction = expression_.code[r];
  switch (instruction.combiner) {
    case Combiner::sum:
    case Combiner::product:
      return value_type(instruction.dtype);
    case Combiner::any:
    case Combiner::all:
      return "bool";
    default:
      return value_type(expression_.code[instruction.operands[0]].dtype);
  }
}

std::string ExpressionWriter::operation(std::size_t r) const {
  const std::string_view type = taken_type(r);
  switch (expression_.code[r].combiner) {
    case Combiner::sum:
      return fmt::format("giro::Sum<{}>", type);
    case Combiner::product:
      return fmt::format("giro::Product<{}>", type);
    case Combiner::max:
      return fmt::format("giro::Max<{}>", type);
    case Combiner::min:
      return fmt::format("giro::Min<{}>", type);
    case Combiner::any:
      return "giro::Any";
    case Combiner::all:
      return "giro::All";
    case Combiner::argmax:
      return fmt::format("giro::ArgBest<{}, true>", type);
    case Combiner::argmin:
      return fmt::format("giro::ArgBest<{}, false>", type);
  }
  return {};
}

}  // namespace giro::cuda
