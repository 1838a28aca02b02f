#include <giro/kernels/matmul.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/matmul_op.h"
#include "runtime/throw_error.h"

namespace giro {
namespace {

// The size of an axis counted from the last one; 1 if the shape has no such axis.
std::int64_t size_at(const Shape& shape, std::size_t from_the_end) {
  return from_the_end < shape.rank() ? shape[-1 - static_cast<int>(from_the_end)] : 1;
}

// A vector as a matrix: (1, K) for a, (K, 1) for b.
Shape as_matrices(const Shape& shape, bool is_a) {
  if (shape.rank() != 1) return shape;
  return is_a ? Shape{1, shape[0]} : Shape{shape[0], 1};
}

}  // namespace

Shape matmul_shape(const Shape& a, const Shape& b, const MatmulOptions& options) {
  const auto fail = [&](const std::string& what) {
    const auto text = [](const Shape& shape, bool transposed) {
      return to_string(shape) + (transposed && shape.rank() > 1 ? " transposed" : "");
    };
    throw_shape("matmul: a is {}, b is {}; {}", text(a, options.transpose_a), text(b, options.transpose_b), what);
  };
  if (a.rank() == 0 || b.rank() == 0) fail("expected at least one axis each");
  const Shape left = as_matrices(a, true), right = as_matrices(b, false);
  const bool transpose_a = options.transpose_a && a.rank() > 1, transpose_b = options.transpose_b && b.rank() > 1;
  const std::int64_t terms = left[transpose_a ? -2 : -1], others = right[transpose_b ? -1 : -2];
  if (terms != others) fail(fmt::format("expected (..., M, K) and (..., K, N), found {} and {} for K", terms, others));
  std::vector<std::int64_t> sizes;
  for (std::size_t i = std::max(left.rank(), right.rank()); i-- > 2;) {
    const std::int64_t of_a = size_at(left, i), of_b = size_at(right, i);
    if (of_a != of_b && of_a != 1 && of_b != 1) {
      fail(fmt::format("axis {} from the end is {} and {}, expected equal sizes or 1", i + 1, of_a, of_b));
    }
    sizes.push_back(of_a == 1 ? of_b : of_a);
  }
  if (a.rank() > 1) sizes.push_back(left[transpose_a ? -1 : -2]);
  if (b.rank() > 1) sizes.push_back(right[transpose_b ? -2 : -1]);
  return Shape(sizes);
}

std::vector<ops::StridedBatch> ops::strided_batches(const Matmul& op) {
  const Shape out = op.out.shape(), a = op.a.shape(), b = op.b.shape();
  // The innermost axes along which each operand either always advances or always broadcasts form one strided axis. The
  // others are looped over.
  std::int64_t inner = 1;
  bool a_moves = false, b_moves = false;
  std::size_t axis = 2;  // from the end
  for (; axis < out.rank(); ++axis) {
    const std::int64_t count = size_at(out, axis);
    if (count == 1) continue;
    const bool moves[] = {size_at(a, axis) != 1, size_at(b, axis) != 1};
    if (inner > 1 && (a_moves != moves[0] || b_moves != moves[1])) break;
    a_moves = moves[0], b_moves = moves[1];
    inner *= count;
  }
  const auto matrices = [](const Tensor& tensor) {
    const Shape leading(std::span(tensor.shape().begin(), tensor.shape().end() - 2));
    return tensor.reshape({leading.count(), tensor.shape()[-2], tensor.shape()[-1]});
  };
  const Tensor all_out = matrices(op.out), all_a = matrices(op.a), all_b = matrices(op.b);
  const std::int64_t a_inner = a_moves ? inner : 1, b_inner = b_moves ? inner : 1;
  std::vector<StridedBatch> batches;
  if (all_out.shape()[0] == 0) return batches;
  for (std::int64_t i = 0; i < all_out.shape()[0] / inner; ++i) {
    std::int64_t rest = i, in_a = 0, in_b = 0, a_step = a_inner, b_step = b_inner;
    for (std::size_t at = axis; at < out.rank(); ++at) {
      const std::int64_t count = size_at(out, at), place = rest % count;
      rest /= count;
      if (size_at(a, at) != 1) in_a += place * std::exchange(a_step, a_step * count);
      if (size_at(b, at) != 1) in_b += place * std::exchange(b_step, b_step * count);
    }
    batches.push_back(
        {all_out.rows(i * inner, (i + 1) * inner), all_a.rows(in_a, in_a + a_inner), all_b.rows(in_b, in_b + b_inner)});
  }
  return batches;
}

}  // namespace giro
