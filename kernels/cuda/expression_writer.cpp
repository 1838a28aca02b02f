#include "kernels/cuda/expression_writer.h"

#include <algorithm>
#include <limits>

#include <giro/runtime/error.h>

#include "kernels/cuda/expression_prelude.h"
#include "kernels/cuda/row_tail.h"
#include "kernels/cuda/scalar_source.h"
#include "runtime/checksum.h"

namespace giro::cuda {

using expr::Combiner;
using expr::Expression;
using Kind = expr::Instruction::Kind;

namespace {

constexpr std::size_t kMaxPackedElements = 64;  // elements per thread, over all arrays
constexpr int kThreads = 256;                   // per block of a pointwise kernel
constexpr std::string_view kName = "@kernel@";

std::string_view name_of(Combiner combiner) {
  constexpr std::string_view kNames[] = {"sum", "product", "max", "min", "any", "all", "argmax", "argmin"};
  return kNames[static_cast<std::size_t>(combiner)];
}

}  // namespace

ExpressionWriter::ExpressionWriter(const Expression& expression, const ops::Publish* tail)
    : expression_(expression), tail_(tail), plan_(expression), is_kept_(expression.code.size()) {
  source_.count = plan_.rows;
  source_.has_wide_count = plan_.rows > std::numeric_limits<std::int32_t>::max() - (1 << 16);
}

ExpressionSource ExpressionWriter::write() {
  if (tail_ != nullptr && !plan_.is_pointwise) {
    throw Error(ErrorCode::unsupported, "cannot publish a row after expressions that reduce nothing");
  }
  if (plan_.is_pointwise) {
    write_pointwise();
  } else {
    row_pack_ = row_pack();
    const Share all = share();
    if (all.groups > 1) {
      write_groups(all);
    } else {
      write_passes(all);
    }
  }
  std::string text(expression_prelude());
  if (!plan_.is_pointwise) text += reduction_prelude();
  for (std::size_t i = 0; i < expression_.code.size(); ++i) {
    const Instruction& instruction = expression_.code[i];
    if (instruction.kind != Kind::apply || !plan_.is_needed[i]) continue;
    const std::string definition = function_definition(*instruction.function, plan_.inputs_dtype(instruction));
    if (text.find(definition) == std::string::npos) text += definition;
  }
  const std::string name = fmt::format("giro_{}_{}", title(), detail::digits_of({text, body_}));
  for (std::size_t at = 0; (at = body_.find(kName, at)) != std::string::npos;) body_.replace(at, kName.size(), name);
  for (ExpressionSource::Kernel& kernel : source_.kernels) kernel.name.replace(0, kName.size(), name);
  source_.text = text + body_;
  return std::move(source_);
}

// The part of the kernel's name that describes it, for profilers: "add_tanh_sum".
std::string ExpressionWriter::title() const {
  std::string title = tail_ != nullptr ? "publish" : "";
  for (std::size_t i = 0; i < expression_.code.size() && title.size() < 40; ++i) {
    const Instruction& instruction = expression_.code[i];
    if (!plan_.is_needed[i]) continue;
    std::string_view word;
    if (instruction.kind == Kind::apply) word = instruction.function->name;
    if (instruction.kind == Kind::reduce) word = name_of(instruction.combiner);
    if (!word.empty()) title += fmt::format("{}{}", title.empty() ? "" : "_", word);
  }
  return title.empty() ? "copy" : title;
}

void ExpressionWriter::line(int indent, const std::string& text) {
  body_.append(static_cast<std::size_t>(2 * indent), ' ').append(text).append("\n");
}

void ExpressionWriter::begin_kernel(const std::string& suffix, int threads, std::int64_t blocks) {
  const std::string name = std::string(kName) + suffix;
  source_.kernels.push_back(
      {name, static_cast<unsigned int>(threads), static_cast<unsigned int>(std::max<std::int64_t>(blocks, 1))});
  std::string parameters;
  for (std::size_t i = 0; i < plan_.reads.size(); ++i) {
    parameters += fmt::format("const {}* r{}, ", storage_type(plan_.reads[i].dtype), i);
  }
  for (std::size_t i = 0; i < plan_.writes.size(); ++i) {
    parameters += fmt::format("{}* w{}, ", storage_type(plan_.writes[i].dtype), i);
  }
  if (source_.workspace_bytes > 0) parameters += "char* workspace, giro::u32* arrivals, ";
  if (tail_ != nullptr) parameters += tail_parameters(*tail_);
  line(0, "extern \"C\" __global__ void __launch_bounds__({}) {}({}{} n) {{", threads, name, parameters, count_type());
  std::fill(is_kept_.begin(), is_kept_.end(), false);
}

void ExpressionWriter::end_kernel() { line(0, "}"); }

// The elements in a 16-byte access of the narrowest array. At most 32 bytes of the widest, at most 8 elements unless
// all arrays are of bytes, and few enough that the elements of all arrays fit in registers.
int ExpressionWriter::pointwise_pack() const {
  std::size_t narrowest = 16, widest = 1;
  for (const auto* arrays : {&plan_.reads, &plan_.writes}) {
    for (const ExpressionPlan::Array& array : *arrays) {
      if (plan_.stride_of(array) != 1) continue;
      narrowest = std::min(narrowest, array.size);
      widest = std::max(widest, array.size);
    }
  }
  auto pack = static_cast<int>(std::min({16 / narrowest, 32 / widest, widest > 1 ? std::size_t{kUnit} : 16}));
  const std::size_t arrays = plan_.reads.size() + plan_.writes.size();
  while (pack > 1 && arrays * static_cast<std::size_t>(pack) > kMaxPackedElements) pack /= 2;
  while (is_per_element(pack)) pack /= 2;
  return pack;
}

void ExpressionWriter::write_pointwise() {
  const int pack = pointwise_pack();
  begin_kernel("", kThreads, (plan_.rows + std::int64_t{kThreads} * pack - 1) / (std::int64_t{kThreads} * pack));
  line(1, "const {0} i = ({0}(blockIdx.x) * {1} + threadIdx.x) * {2};", count_type(), kThreads, pack);
  line(1, "if (i < n) {");
  line(1, "const {} count = n - i;", count_type());
  for (std::size_t i = 0; i < plan_.reads.size(); ++i) line(1, "const auto* const x{0} = r{0};", i);
  for (std::size_t i = 0; i < plan_.writes.size(); ++i) line(1, "auto* const y{0} = w{0};", i);
  for (std::size_t i = 0; i < plan_.places.size(); ++i) {
    line(1, "const giro::i64 b{} = {};", i, plan_.places[i].offset);
  }
  line(1, "const bool live = true;");
  const Elements elements{.pack = pack, .is_whole = plan_.sizes.size() > 1, .run = run_in(0)};
  // While the loads of elements are in flight, each thread computes the values that all elements share.
  write_loads(elements, 1);
  write_row_values(0);
  write_elements(elements, 1);
  write_outputs_of_row("i == 0");
  line(1, "}");
  if (tail_ != nullptr) body_ += tail_source(*tail_);
  end_kernel();
}

ExpressionSource source_of(const expr::Expression& expression, const ops::Publish* tail) {
  return ExpressionWriter(expression, tail).write();
}

}  // namespace giro::cuda
