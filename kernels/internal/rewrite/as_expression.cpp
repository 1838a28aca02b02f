#include <algorithm>
#include <array>
#include <optional>
#include <unordered_set>
#include <utility>

#include "kernels/internal/rewrite/rules.h"
#include "kernels/pointwise/build.h"
#include "kernels/pointwise/table.h"

namespace giro::rewrite {
namespace {

using pointwise::Builder;
namespace functions = pointwise::functions;

// Built over all elements of `out`.
class Elements {
 public:
  explicit Elements(const Tensor& out)
      : out_(out), builder_(out.shape()), layout_(pointwise::broadcast_layout(out.shape(), out.shape())) {}

  std::uint16_t read(const Tensor& memory, DType dtype) {
    return builder_.cast(builder_.read(memory, memory.count() == 1 ? pointwise::Layout{} : layout_), dtype);
  }
  std::uint16_t constant(DType dtype, double value) {
    return builder_.constant(dtype, value, is_floating(dtype) ? 0 : static_cast<std::int64_t>(value));
  }
  std::uint16_t apply(const pointwise::ScalarFunction& function, std::uint16_t a, std::uint16_t b) {
    return builder_.apply(function, builder_.dtype(a), std::array{a, b});
  }
  pointwise::Expression written(std::uint16_t value) && {
    builder_.write(builder_.cast(value, out_.dtype()), out_, layout_);
    return std::move(builder_).take();
  }

 private:
  Tensor out_;
  Builder builder_;
  pointwise::Layout layout_;
};

std::optional<pointwise::Expression> expression_of(const detail::HeldOp& op) {
  if (const auto* const add = GIRO_ARGUMENTS(op, add)) {
    const auto& [out, a, b] = *add;
    Elements elements(out);
    const std::uint16_t first = elements.read(a, out.dtype()), second = elements.read(b, out.dtype());
    return std::move(elements).written(elements.apply(functions::add, first, second));
  }
  if (const auto* const scale = GIRO_ARGUMENTS(op, scale)) {
    const auto& [out, a, factor] = *scale;
    const DType dtype = out.dtype() == DType::f64 || a.dtype() == DType::f64 ? DType::f64 : DType::f32;
    Elements elements(out);
    const std::uint16_t value = elements.read(a, dtype);
    return std::move(elements).written(elements.apply(functions::multiply, elements.constant(dtype, factor), value));
  }
  if (const auto* const broadcast = GIRO_ARGUMENTS(op, broadcast)) {
    const auto& [out, scalar, factor] = *broadcast;
    Elements elements(out);
    const std::uint16_t value = elements.read(scalar, DType::f32);
    return std::move(elements).written(
        elements.apply(functions::multiply, elements.constant(DType::f32, factor), value));
  }
  if (const auto* const cast = GIRO_ARGUMENTS(op, cast)) {
    const auto& [out, a] = *cast;
    // That kernel leaves open what becomes of numbers out of range, an expression does not.
    if (is_floating(a.dtype()) && !is_floating(out.dtype())) return std::nullopt;
    Elements elements(out);
    return std::move(elements).written(elements.read(a, out.dtype()));
  }
  if (const auto* const fill = GIRO_ARGUMENTS(op, fill)) {
    const auto& [out, value] = *fill;
    Elements elements(out);
    return std::move(elements).written(elements.constant(out.dtype(), value));
  }
  return std::nullopt;
}

}  // namespace

// Functions of elements that have a kernel of their own, beside expressions that they may be spliced with.
bool as_expression(OpList& ops, std::size_t i) {
  if (i > 0) return false;
  std::unordered_set<const void*> memory;  // that expressions read and write
  const auto add = [&](const Program::Node& node) {
    for (const Tensor& tensor : node.reads) memory.insert(tensor.raw());
    for (const Tensor& tensor : node.writes) memory.insert(tensor.raw());
  };
  const auto is_of_expression = [&](const Tensor& tensor) { return memory.contains(tensor.raw()); };
  for (std::size_t k = 0; k < ops.size(); ++k) {
    if (dynamic_cast<const pointwise::ExpressionCall*>(ops[k].call.get()) != nullptr) add(ops[k].node);
  }
  for (std::size_t k = 0; k < ops.size(); ++k) {
    const Program::Node& node = ops[k].node;
    const bool is_beside = std::any_of(node.reads.begin(), node.reads.end(), is_of_expression) ||
                           std::any_of(node.writes.begin(), node.writes.end(), is_of_expression);
    std::optional<pointwise::Expression> expression = is_beside ? expression_of(ops[k]) : std::nullopt;
    if (!expression) continue;
    add(node);
    pointwise::queue(node.op, *std::move(expression), ops[k].stream);
    ops.replace(k);
  }
  return false;
}

}  // namespace giro::rewrite
