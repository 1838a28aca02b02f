// Part of ExpressionWriter: reductions.

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "kernels/cuda/expression_writer.h"
#include "kernels/cuda/scalar_source.h"

namespace giro::cuda {

using expr::Combiner;
using expr::Expression;
using Kind = expr::Instruction::Kind;

namespace {

constexpr int kMaxLanes = 1024;                             // per row, one unit each at a time
constexpr int kMinThreads = 128;                            // per block
constexpr int kColumns = 32;                                // per block, so that a warp reads neighbours
constexpr std::int64_t kColumnThreads = 512;                // per such block
constexpr std::int64_t kMaxLoadedBytes = 128;               // bytes of a thread's elements, by columns
constexpr std::int64_t kMaxWholes = 64;                     // bytes of its rows' Wholes
constexpr std::int64_t kPart = 128;                         // units that are joined as Parts (reduction_prelude)
constexpr std::int64_t kFewBlocks = 128;                    // too few to fill a GPU: long rows are then split
constexpr std::int64_t kLongRow = 4096, kLongColumn = 512;  // units

std::int64_t units_of(std::int64_t length) { return std::max<std::int64_t>((length + kUnit - 1) / kUnit, 1); }

}  // namespace

// As many rows as fit in 16 bytes of the widest elements, if a thread's loads for them fit in registers.
int ExpressionWriter::row_pack() const {
  if (!plan_.is_by_columns) return 1;
  const std::size_t axis = plan_.row_axes - 1;
  const auto fits = [&](int pack) {
    std::int64_t bytes = 0;
    bool takes = plan_.sizes[axis] % pack == 0 && pack * bytes_of_wholes() <= kMaxWholes;
    for (const ExpressionPlan::Array& read : plan_.reads) {
      takes = takes && ExpressionPlan::is_cut_between_packs_of(pack, read, axis);
      if (read.strides[axis] == 0) continue;
      const std::int64_t each = pack * static_cast<std::int64_t>(read.size);
      takes = takes && each <= 16 && ExpressionPlan::takes_packs_of(pack, read, axis);
      bytes += kUnit * each;
    }
    for (const ExpressionPlan::Array& write : plan_.writes) {
      takes = takes && ExpressionPlan::takes_packs_of(pack, write, axis);
    }
    return takes && bytes <= kMaxLoadedBytes;
  };
  int pack = kUnit;
  while (pack > 1 && !fits(pack)) pack /= 2;
  return pack;
}

ExpressionWriter::Share ExpressionWriter::share() const {
  Share share;
  const std::int64_t units = units_of(plan_.length);
  share.units = power_of_2(units);
  share.is_by_columns = plan_.is_by_columns;
  if (share.is_by_columns) {
    const std::int64_t packs = packs_of_rows();
    share.rows = static_cast<int>(std::min<std::int64_t>(power_of_2(packs), kColumns / row_pack_));
    const std::int64_t blocks = (packs + share.rows - 1) / share.rows;
    if (blocks < kFewBlocks && units >= kLongColumn) {
      share.units = std::max(kPart, power_of_2(units / (2 * kFewBlocks / blocks) + 1));
    }
    const std::int64_t threads = std::min(kColumnThreads, max_threads());
    share.lanes =
        static_cast<int>(std::min<std::int64_t>(share.units, std::max<std::int64_t>(threads / share.rows, 1)));
    const std::int64_t rows = std::min<std::int64_t>(power_of_2(packs), kMinThreads / share.lanes);
    share.rows = std::max(share.rows, static_cast<int>(rows));
  } else {
    share.lanes = static_cast<int>(std::min<std::int64_t>(share.units, kMaxLanes));
    share.rows = std::max(kMinThreads / share.lanes, 1);
    if (plan_.rows < kFewBlocks && units >= kLongRow) share.units = kMaxLanes;
  }
  share.groups = (units + share.units - 1) / share.units;
  return share;
}

// One kernel that passes over each row once per level of reductions, and once more for elements that depend on all of
// them.
void ExpressionWriter::write_passes(const Share& share) {
  begin_kernel("", share);
  write_row(share);
  write_row_values(0);
  const bool keeps = keeps_values(share);
  if (keeps) {
    for (std::size_t i = 0; i < expression_.code.size(); ++i) {
      if (!plan_.is_needed[i] || !plan_.is_of_element[i]) continue;
      line(1, "{} v{}[{}];", value_type(expression_.code[i].dtype), i, kUnit);
    }
  }
  for (int pass = 0; pass <= plan_.levels; ++pass) {
    if (pass == plan_.levels && !has_element_writes_in(pass)) break;
    write_pass(share, pass, keeps);
    for (const std::size_t r : plan_.reduced_in(pass)) write_result(r);
    if (pass < plan_.levels) write_row_values(pass + 1);
  }
  // Outputs of a row may overwrite its inputs, so all lanes must have read them.
  if (plan_.levels == 0) {
    line(1, "__syncthreads();");
  } else if (share.lanes > 1 && share.lanes <= 32) {
    line(1, "__syncwarp();");
  }
  write_outputs_of_row("live && lane == 0");
  end_kernel();
}

// Declares a thread's row: whether it exists (live), and which of its elements the block takes.
void ExpressionWriter::write_row(const Share& share) {
  const char* const order = share.is_by_columns ? "/" : "%";
  // A single lane is a constant, so that a short row needs no branches and its loads are in flight together.
  line(1, share.lanes == 1 ? "const int lane = 0;"
                           : fmt::format("const int lane = threadIdx.x {} {};", order,
                                         share.is_by_columns ? share.rows : share.lanes));
  line(1, "const {0} row = ({0}(blockIdx.x / {1}) * {2} + threadIdx.x {3} {4}) * {5};", count_type(), share.groups,
       share.rows, share.is_by_columns ? "%" : "/", share.is_by_columns ? share.rows : share.lanes, row_pack_);
  line(1, "const bool live = row < n;");
  line(1, "const {0} first = {0}(blockIdx.x % {1}) * {2};", index_type(), share.groups, share.units * kUnit);
  if (share.groups > 1) {
    line(1, "const {0} length = !live ? 0 : first > {1} - {2} ? {1} : first + {2};", index_type(), plan_.length,
         share.units * kUnit);
  } else {
    line(1, "const {} length = live ? {} : 0;", index_type(), plan_.length);
  }
  split("row", 0, plan_.row_axes, "d", "rest", 1);
  const auto offset_of_row = [&](const ExpressionPlan::Array& array) {
    return strided(array, 0, plan_.row_axes, "d", "giro::i64");
  };
  for (std::size_t i = 0; i < plan_.reads.size(); ++i) {
    line(1, "const auto* const x{0} = r{0} + ({1});", i, offset_of_row(plan_.reads[i]));
  }
  for (std::size_t i = 0; i < plan_.writes.size(); ++i) {
    line(1, "auto* const y{0} = w{0} + ({1});", i, offset_of_row(plan_.writes[i]));
  }
  for (std::size_t i = 0; i < plan_.places.size(); ++i) {
    line(1, "const giro::i64 b{} = {} + {};", i, plan_.places[i].offset, offset_of_row(plan_.places[i]));
  }
}

// A pass over the block's elements. Afterwards all threads of a row have the Whole j<i> of each reduction.
void ExpressionWriter::write_pass(const Share& share, int pass, bool keeps) {
  const int pack = plan_.is_by_columns && plan_.length < kUnit ? std::max(1, static_cast<int>(plan_.length)) : kUnit;
  const Elements elements{.pack = pack,
                          .is_whole = plan_.length % pack == 0,
                          .keeps = keeps,
                          .run = run_in(pass),
                          .reduced = plan_.reduced_in(pass),
                          .pass = pass};
  write_operations(share, elements.reduced);
  for (const std::size_t r : elements.reduced) line(1, "typename Op{0}::Part a{0} = Op{0}::none();", r);
  if (share.is_by_columns) {
    write_steps_along_columns(share, elements);
  } else {
    write_steps_along_row(share, elements);
  }
}

// Declares the reductions' types and shared memory. Along a row each warp has two Parts, for alternating steps: one
// step's Part is read before the step after next overwrites it.
void ExpressionWriter::write_operations(const Share& share, const std::vector<std::size_t>& reduced) {
  for (const std::size_t r : reduced) {
    const std::string type = operation(r);
    line(1, "typedef {} Op{};", share.is_by_columns ? fmt::format("giro::OfRows<{}, {}>", type, row_pack_) : type, r);
    if (share.is_by_columns && share.lanes > 1) {
      line(1, "__shared__ typename Op{0}::Whole shared{0}[{1}];", r, share.threads());
    } else if (!share.is_by_columns && share.lanes > 32) {
      line(1, "__shared__ typename Op{0}::Part shared{0}[2][{1}];", r, share.threads() / 32);
    }
  }
}

// A thread takes one unit per step.
void ExpressionWriter::write_steps_along_row(const Share& share, const Elements& elements) {
  const std::int64_t most = (std::min(share.units, units_of(plan_.length)) + share.lanes - 1) / share.lanes;
  const auto over_lanes = [&](std::size_t r, const char* half) {
    return fmt::format("giro::over_lanes<Op{0}, {1}>(a{0}, {2})", r, share.lanes,
                       share.lanes > 32 ? fmt::format("shared{}[{}]", r, half) : "nullptr");
  };
  if (most == 1) {
    line(1, "{");
    line(2, "const {} i = first + lane * {}, count = length - i;", index_type(), kUnit);
    write_loads(elements, 2);
    write_elements(elements, 2);
    line(1, "}");
    for (const std::size_t r : elements.reduced) line(1, "const auto j{} = {};", r, over_lanes(r, "0"));
    return;
  }
  for (const std::size_t r : elements.reduced) {
    line(1, "giro::Tree<Op{0}, typename Op{0}::Whole, {1}> t{0};", r, levels_of(power_of_2(most)));
  }
  line(1, "for (int s = 0; s < {}; ++s) {{", most);
  line(2, "const {0} i = first + {0}(s * {1} + lane) * {2}, count = length - i;", index_type(), share.lanes, kUnit);
  write_loads(elements, 2);
  write_elements(elements, 2);
  for (const std::size_t r : elements.reduced) {
    line(2, "t{0}.push(s, {1});", r, over_lanes(r, "s % 2"));
    line(2, "a{0} = Op{0}::none();", r);
  }
  line(1, "}");
  for (const std::size_t r : elements.reduced) line(1, "const auto j{0} = t{0}.joined({1});", r, most);
}

// A thread takes the units of a subtree in order. Up to kPart units are joined as a Part.
void ExpressionWriter::write_steps_along_columns(const Share& share, const Elements& elements) {
  const std::int64_t units = share.units / share.lanes, inner = std::min(units, kPart), outer = units / inner;
  if (outer > 1) {
    for (const std::size_t r : elements.reduced) {
      line(1, "giro::Tree<Op{0}, typename Op{0}::Whole, {1}> w{0};", r, levels_of(outer));
    }
    line(1, "int o = 0;");
    line(1, "for (; o < {0} && first + {2}(lane * {0} + o) * {1} < length; ++o) {{", outer, inner * kUnit,
         index_type());
  } else {
    line(1, "{ const int o = 0;");
  }
  for (const std::size_t r : elements.reduced) {
    line(2, "giro::Tree<Op{0}, typename Op{0}::Part, {1}> t{0};", r, levels_of(inner));
  }
  line(2, "int u = 0;");
  line(2, "for (; u < {}; ++u) {{", inner);
  line(3, "const {0} i = first + {0}((lane * {1} + o) * {2} + u) * {3}, count = length - i;", index_type(), outer,
       inner, kUnit);
  line(3, "if (count <= 0) break;");
  write_loads(elements, 3);
  write_elements(elements, 3);
  for (const std::size_t r : elements.reduced) line(3, "t{0}.push(u, a{0}); a{0} = Op{0}::none();", r);
  line(2, "}");
  for (const std::size_t r : elements.reduced) {
    const std::string part = fmt::format("t{}.joined(u)", r);
    line(2, outer > 1 ? fmt::format("w{0}.push(o, giro::Widen<typename Op{0}::Whole, typename Op{0}::Part>::of({1}));",
                                    r, part)
                      : fmt::format("a{} = {};", r, part));
  }
  line(1, "}");
  for (const std::size_t r : elements.reduced) {
    line(1, "const auto j{0} = giro::over_columns<Op{0}, {1}, {2}, {3}>({4}, {5});", r, share.rows, share.lanes, units,
         outer > 1 ? fmt::format("w{}.joined(o)", r) : fmt::format("a{}", r),
         share.lanes > 1 ? fmt::format("shared{}", r) : "nullptr");
  }
}

void ExpressionWriter::write_result(std::size_t r) {
  const DType dtype = expression_.code[r].dtype;
  define_row_value(r, rounded(dtype, fmt::format("giro::result_of<{}>(j{}{})", value_type(dtype), r,
                                                 plan_.is_by_columns ? "[e]" : "")));
}

void ExpressionWriter::write_outputs_of_row(const std::string& condition) {
  for (std::size_t w = 0; w < plan_.writes.size(); ++w) {
    if (writes_elements(w)) continue;
    const std::string_view type = storage_type(plan_.writes[w].dtype);
    const std::string stored = fmt::format("giro::Store<{}>::of({})", type, value(expression_.writes[w].value));
    if (plan_.is_by_columns) {
      line(1, "if ({}) {{", condition);
      line(2, "giro::Pack<{}, {}> s{};", type, row_pack_, w);
      for_each_row(2, fmt::format("s{}.element[e] = {};", w, stored));
      line(2, "giro::store_rows(y{0}, s{0}, true);", w);
      line(1, "}");
    } else {
      line(1, "if ({}) *y{} = {};", condition, w, stored);
    }
  }
}

bool ExpressionWriter::has_element_writes_in(int pass) const {
  for (std::size_t w = 0; w < plan_.writes.size(); ++w) {
    if (writes_elements_in(pass, w)) return true;
  }
  return false;
}

// Whether values stay in registers from one pass to the next. They do if each thread has a single unit and the values
// are few.
bool ExpressionWriter::keeps_values(const Share& share) const {
  if (share.is_by_columns || share.units > share.lanes || plan_.levels == 0) return false;
  std::vector<int> passes(expression_.code.size());  // in which each instruction runs
  for (int pass = 0; pass <= plan_.levels; ++pass) {
    const std::vector<bool> run = run_in(pass);
    for (std::size_t i = 0; i < run.size(); ++i) passes[i] += run[i];
  }
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < passes.size(); ++i) {
    if (passes[i] > 1) bytes += kUnit * std::max<std::size_t>(size_of(expression_.code[i].dtype), 4);
  }
  return bytes <= (share.lanes == kMaxLanes ? 128 : 384);
}

// The per-element instructions that a pass needs and whose values no array keeps.
std::vector<bool> ExpressionWriter::run_in(int pass) const {
  std::vector<bool> run(expression_.code.size(), false);
  for (const std::size_t r : plan_.reduced_in(pass)) run[expression_.code[r].operands[0]] = true;
  for (std::size_t w = 0; w < plan_.writes.size(); ++w) {
    if (writes_elements_in(pass, w)) run[expression_.writes[w].value] = true;
  }
  for (std::size_t i = run.size(); i-- > 0;) {
    const Instruction& instruction = expression_.code[i];
    run[i] = run[i] && plan_.is_of_element[i] && !is_kept_[i];
    if (!run[i]) continue;
    for (const std::uint16_t operand : expr::operands_of(instruction)) run[operand] = true;
  }
  return run;
}

// The type that elements are converted to before they are combined.
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
      return value_type(plan_.inputs_dtype(instruction));
  }
}

std::string ExpressionWriter::operation(std::size_t r) const {
  constexpr const char* kOperations[] = {"Sum<{}>",           "Product<{}>",
                                         "Extreme<{}, true>", "Extreme<{}, false>",
                                         "Extreme<{}, true>", "Extreme<{}, false>",
                                         "ArgBest<{}, true>", "ArgBest<{}, false>"};  // any and all are of 0 and 1
  static_assert(std::size(kOperations) == static_cast<std::size_t>(Combiner::argmin) + 1);
  const char* const operation = kOperations[static_cast<std::size_t>(expression_.code[r].combiner)];
  return "giro::" + fmt::format(fmt::runtime(operation), taken_type(r));
}

}  // namespace giro::cuda
