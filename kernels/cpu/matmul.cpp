#include "kernels/cpu/matmul.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/one_dnn.h"
#include "kernels/elementwise.h"
#include "kernels/ops.h"

namespace giro::cpu {
namespace {

using dnnl::memory;

// The distances between matrices, rows and columns, in elements.
using MatrixStrides = std::array<memory::dim, 3>;

MatrixStrides strides_of(const Factor& factor) {
  const memory::dim rows = factor.matrix.shape()[-2], columns = factor.matrix.shape()[-1];
  return factor.is_transposed ? MatrixStrides{rows * columns, 1, columns} : MatrixStrides{rows * columns, columns, 1};
}

memory::dim batch_of(const Tensor& tensor) { return tensor.shape().rank() == 3 ? tensor.shape()[0] : 1; }

// `count` matrices of a larger tensor, which sets the strides. 0: one matrix, without an axis to count them.
memory::desc matrices(memory::dim count, memory::dim rows, memory::dim columns, DType dtype,
                      const MatrixStrides& strides) {
  if (count == 0) return {{rows, columns}, one_dnn::data_type(dtype), memory::dims{strides[1], strides[2]}};
  return {{count, rows, columns}, one_dnn::data_type(dtype), memory::dims(strides.begin(), strides.end())};
}

// The part of the tensor that starts at this matrix, row and column.
memory part(const Tensor& tensor, const memory::desc& desc, const MatrixStrides& strides, memory::dim matrix,
            memory::dim row, memory::dim column) {
  const auto offset = static_cast<std::size_t>(matrix * strides[0] + row * strides[1] + column * strides[2]);
  return memory(desc, one_dnn::engine(), static_cast<char*>(tensor.raw()) + offset * size_of(tensor.dtype()));
}

// out (m, n) = a (m, k) b (k, n) + bias (1, n), or a batch of them.
struct MatrixProduct : one_dnn::Kernel<dnnl::matmul> {
  struct Key {
    memory::desc a, b, bias, out;
    bool operator==(const Key&) const = default;
  };
  explicit MatrixProduct(const Key& key)
      : Kernel(one_dnn::describe<dnnl::matmul>(one_dnn::skips_none, key.a, key.b, key.bias, key.out)) {}
};

// The rows and columns in one part of an f32 product. They depend only on the shape, so the bits of the result do not
// depend on the number of threads.
std::array<memory::dim, 2> part_of(memory::dim m, memory::dim n, memory::dim k, bool a_is_transposed) {
  constexpr memory::dim kMinWork = 1 << 22, kMinSide = 256, kMaxParts = 64, kUnit = 16;
  constexpr memory::dim kLong = 1 << 30;  // more work than this is divided even if that costs speed
  // oneDNN copies the operands, which makes it faster, if 1 / m + 1 / n is at most this. Without the copies, it is a
  // third slower for a transposed `a`.
  constexpr double kCopied = 1.0 / 512;
  memory::dim rows = m, columns = n;
  for (memory::dim parts = 2; parts <= std::min(kMaxParts, m * n * k / kMinWork); parts *= 2) {
    memory::dim half_rows = rows, half_columns = columns;
    (rows > columns ? half_rows : half_columns) = std::max(rows, columns) / 2;
    const bool is_long = m * n * k / (parts / 2) > kLong;
    if (std::max(rows, columns) / 2 < (is_long ? kUnit : kMinSide)) break;
    const double copied = 1.0 / static_cast<double>(half_rows) + 1.0 / static_cast<double>(half_columns);
    if (a_is_transposed && parts > 2 && copied > kCopied && !is_long) break;
    rows = half_rows;
    columns = half_columns;
  }
  return {(rows + kUnit - 1) / kUnit * kUnit, (columns + kUnit - 1) / kUnit * kUnit};
}

// With up to this many terms a sum's workspace is on the stack, where oneDNN 2.6 to 3.8 has room for 84 or more. With
// more it may be in the heap, and the stack pointer points to it.
constexpr memory::dim kTermsOnStack = 64;

// Uses oneDNN's BLAS function, which is up to three times as fast as its primitive.
void multiply_f32(const Tensor& out, const Factor& a, const Factor& b, const Tensor& bias, const Stream& stream) {
  const memory::dim m = out.shape()[-2], n = out.shape()[-1], k = a.matrix.shape()[a.is_transposed ? -2 : -1];
  const auto [rows, columns] = part_of(m, n, k, a.is_transposed);
  const memory::dim across = (n + columns - 1) / columns, parts = (m + rows - 1) / rows * across;
  const auto a_strides = strides_of(a), b_strides = strides_of(b);
  submit(stream, [=, rows = rows, columns = columns, to = out.data<float>(), a_is_transposed = a.is_transposed,
                  b_is_transposed = b.is_transposed, from_a = a.matrix.data<float>(), from_b = b.matrix.data<float>(),
                  from_bias = bias ? bias.data<float>() : nullptr] {
    for_each_part(parts, 1, parts > 1 ? m * n * k / 16 : 0, [&](memory::dim part, memory::dim) {
      const memory::dim row = part / across * rows, column = part % across * columns;
      const memory::dim count = std::min(rows, m - row), width = std::min(columns, n - column);
      float* const first = to + row * n + column;
      if (from_bias != nullptr) {
        for (memory::dim r = 0; r < count; ++r) std::copy_n(from_bias + column, width, first + r * n);
      }
      one_dnn::compute("sgemm", k > kTermsOnStack, [&] {
        const dnnl_status_t status =
            dnnl_sgemm(a_is_transposed ? 'T' : 'N', b_is_transposed ? 'T' : 'N', count, width, k, 1,
                       from_a + row * a_strides[1], a_is_transposed ? m : k, from_b + column * b_strides[2],
                       b_is_transposed ? k : n, from_bias != nullptr ? 1 : 0, first, n);
        if (status != dnnl_success) throw dnnl::error(status, "the multiplication failed");
      });
    });
  });
}

}  // namespace

void matmul(const Tensor& out, const Factor& a, const Factor& b, const Tensor& bias, const Stream& stream) {
  if (out.count() == 0) return;
  const memory::dim batch = batch_of(out), m = out.shape()[-2], n = out.shape()[-1];
  const memory::dim k = a.matrix.shape()[a.is_transposed ? -2 : -1];
  if (k == 0) {  // no terms
    const auto bias_of = [&](const auto& read) { return read(bias, bias.shape()); };
    return bias ? ops::write_each("cast", out, out.shape(), stream, bias_of) : ops::fill(out, 0, stream);
  }
  const auto is_f32 = [](const Tensor& tensor) { return !tensor || tensor.dtype() == DType::f32; };
  if (batch_of(out) == 1 && is_f32(out) && is_f32(a.matrix) && is_f32(b.matrix) && is_f32(bias)) {
    return multiply_f32(out, a, b, bias, stream);
  }
  const memory::dim a_batch = batch_of(a.matrix), b_batch = batch_of(b.matrix);
  const MatrixStrides a_strides = strides_of(a), b_strides = strides_of(b), out_strides = strides_of({out});
  constexpr memory::dim kVector = 16, kMaxParts = 64;
  const memory::dim together = one_dnn::part_size(batch, batch * m * n * k, kMaxParts);
  const memory::dim work = together * m * n * k, most = std::max<memory::dim>(kMaxParts * together / batch, 1);
  const memory::dim rows = m > n ? one_dnn::part_size(m, work, most, kVector) : m;
  const memory::dim columns = m > n ? n : one_dnn::part_size(n, work, most, kVector);
  one_dnn::checked("matmul", [&] {
    one_dnn::Parts parts;
    for (memory::dim matrix = 0; matrix < batch; matrix += together) {
      for (memory::dim row = 0; row < m; row += rows) {
        for (memory::dim column = 0; column < n; column += columns) {
          const memory::dim count = std::min(together, batch - matrix);
          const memory::dim height = std::min(rows, m - row), width = std::min(columns, n - column);
          const auto counted = [&](memory::dim of) { return count == 1 ? 0 : of == 1 ? 1 : count; };
          const MatrixProduct::Key key{
              matrices(counted(a_batch), height, k, a.matrix.dtype(), a_strides),
              matrices(counted(b_batch), k, width, b.matrix.dtype(), b_strides),
              bias ? memory::desc({1, width}, one_dnn::data_type(bias.dtype()), memory::format_tag::ab)
                   : memory::desc(),
              matrices(counted(batch), height, width, out.dtype(), out_strides)};
          const auto product = one_dnn::kernel_of<MatrixProduct>(key);
          const memory::dim of_a = a_batch == 1 ? 0 : matrix, of_b = b_batch == 1 ? 0 : matrix;
          one_dnn::Arguments arguments{{DNNL_ARG_SRC, part(a.matrix, key.a, a_strides, of_a, row, 0)},
                                       {DNNL_ARG_WEIGHTS, part(b.matrix, key.b, b_strides, of_b, 0, column)},
                                       {DNNL_ARG_DST, part(out, key.out, out_strides, matrix, row, column)}};
          if (bias) arguments.emplace(DNNL_ARG_BIAS, part(bias, key.bias, {0, 0, 1}, 0, 0, column));
          parts.add(*product, std::move(arguments));
        }
      }
    }
    std::move(parts).submit(stream, "matmul");
  });
}

void run(const ops::Matmul& op, const Stream& stream) {
  for (const auto& [out, a, b] : strided_batches(op)) {
    matmul(out, {a, op.options.transpose_a}, {b, op.options.transpose_b}, Tensor(), stream);
  }
}

}  // namespace giro::cpu
