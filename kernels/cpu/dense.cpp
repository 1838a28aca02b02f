#include <giro/kernels/elementwise.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "kernels/cpu/narrow_dense.h"
#include "kernels/cpu/one_dnn.h"
#include "kernels/internal/ops.h"

namespace giro::cpu {
namespace {

using dnnl::memory;

// Whether an operand is stored as is or as its transpose.
enum class Order { row_major, transposed };
using enum Order;

memory::dims strides(const Tensor& matrix, Order order) {
  const memory::dim row = matrix.shape()[1];
  return order == row_major ? memory::dims{row, 1} : memory::dims{1, row};
}

// The part of the tensor that starts at `row` and `column`.
memory part(const Tensor& tensor, const memory::desc& desc, const memory::dims& strides, memory::dim row,
            memory::dim column) {
  const auto offset = static_cast<std::size_t>(row * strides[0] + column * strides[1]);
  return memory(desc, one_dnn::engine(), static_cast<char*>(tensor.raw()) + offset * size_of(tensor.dtype()));
}

// out (m, n) = a (m, k) b (k, n) + bias (1, n). All are parts of larger matrices, which set the strides.
struct Matmul : one_dnn::Kernel<dnnl::matmul> {
  struct Key {
    memory::dim m, n, k;
    DType a, b, out;
    std::optional<DType> bias;
    memory::dims a_strides, b_strides, out_strides;
    bool operator==(const Key&) const = default;
  };
  explicit Matmul(const Key& key)
      : Kernel(one_dnn::describe<dnnl::matmul>(
            memory::desc({key.m, key.k}, one_dnn::data_type(key.a), key.a_strides),
            memory::desc({key.k, key.n}, one_dnn::data_type(key.b), key.b_strides),
            key.bias ? memory::desc({1, key.n}, one_dnn::data_type(*key.bias), memory::format_tag::ab) : memory::desc(),
            memory::desc({key.m, key.n}, one_dnn::data_type(key.out), key.out_strides))) {}
};

// A product without terms: out[r, :] = bias.
void fill_rows(const Tensor& out, const Tensor& bias, const Stream& stream) {
  for (std::int64_t r = 0; r < out.shape()[0]; ++r) {
    giro::cast(out.rows(r, r + 1), bias.reshape({1, bias.count()}), stream);
  }
}

// out (M, N) = a (M, K) b (K, N) + bias (N).
void matmul(const Tensor& out, const Tensor& a, Order a_order, const Tensor& b, Order b_order, const Tensor& bias,
            const Stream& stream) {
  if (out.count() == 0) return;
  const memory::dim m = out.shape()[0], n = out.shape()[1];
  const memory::dim k = a.shape()[a_order == row_major ? 1 : 0];
  if (k == 0) {
    return bias ? fill_rows(out, bias, stream) : giro::fill(out, 0, stream);
  }
  Matmul::Key key{m,
                  n,
                  k,
                  a.dtype(),
                  b.dtype(),
                  out.dtype(),
                  one_dnn::dtype_of(bias),
                  strides(a, a_order),
                  strides(b, b_order),
                  strides(out, row_major)};
  constexpr memory::dim kVector = 16;
  const memory::dim rows = m > n ? one_dnn::part_size(m, m * n * k, 64, kVector) : m;
  const memory::dim columns = m > n ? n : one_dnn::part_size(n, m * n * k, 64, kVector);
  one_dnn::checked("matmul", [&] {
    one_dnn::Parts parts;
    for (memory::dim row = 0; row < m; row += rows) {
      for (memory::dim column = 0; column < n; column += columns) {
        key.m = std::min(rows, m - row);
        key.n = std::min(columns, n - column);
        const auto product = one_dnn::kernel_of<Matmul>(key);
        one_dnn::Arguments arguments{
            {DNNL_ARG_SRC, part(a, product->desc.src_desc(), key.a_strides, row, 0)},
            {DNNL_ARG_WEIGHTS, part(b, product->desc.weights_desc(), key.b_strides, 0, column)},
            {DNNL_ARG_DST, part(out, product->desc.dst_desc(), key.out_strides, row, column)}};
        if (bias) arguments.emplace(DNNL_ARG_BIAS, part(bias, product->desc.bias_desc(), {0, 1}, 0, column));
        parts.add(*product, std::move(arguments));
      }
    }
    std::move(parts).submit(stream, "matmul");
  });
}

// Whether narrow_dense.h, which is for f32, computes a layer with these outputs or output gradients.
bool runs_narrow(const Tensor& outputs) { return outputs.dtype() == DType::f32 && narrow::can_run(outputs.shape()[1]); }

// x is f32, or bytes that each stand for factor times their value.
narrow::Input input_of(const Tensor& x, double factor) {
  narrow::Input input{nullptr, nullptr, static_cast<float>(factor), x.shape()[0], x.shape()[1]};
  if (x.dtype() == DType::u8) {
    input.bytes = x.data<std::uint8_t>();
  } else {
    input.floats = x.data<float>();
  }
  return input;
}

void narrow_dense(const Tensor& y, const narrow::Input& x, const Tensor& w, const Tensor& b, const Stream& stream) {
  const std::int64_t outputs = w.shape()[1];
  const Buffer workspace = stream.allocate(narrow::workspace(x.rows, x.inputs, outputs) * sizeof(float));
  submit(stream, [x, outputs, y = y.data<float>(), w = w.data<float>(), b = b ? b.data<float>() : nullptr,
                  space = static_cast<float*>(workspace.data())] { narrow::dense(y, x, w, b, outputs, space); });
}

void narrow_gradient(const Tensor& dw, const Tensor& dz, const narrow::Input& x, const Stream& stream) {
  const std::int64_t outputs = dw.shape()[1];
  const Buffer workspace = stream.allocate(narrow::workspace(x.rows, x.inputs, outputs) * sizeof(float));
  submit(stream,
         [x, outputs, dw = dw.data<float>(), dz = dz.data<float>(), space = static_cast<float*>(workspace.data())] {
           narrow::weight_gradient(dw, dz, x, outputs, space);
         });
}

// x as floats, for products that cannot read bytes.
std::pair<Buffer, Tensor> scaled(const Tensor& x, double factor, const Stream& stream) {
  Buffer memory = stream.allocate(static_cast<std::size_t>(x.count()) * sizeof(float));
  const Tensor floats(memory.data(), DType::f32, x.shape(), x.device());
  giro::scale(floats, x, factor, stream);
  return {std::move(memory), floats};
}

}  // namespace

void run(const ops::Dense& op, const Stream& stream) {
  if (runs_narrow(op.y)) {
    narrow_dense(op.y, input_of(op.x, 1), op.w, op.b, stream);
  } else {
    matmul(op.y, op.x, row_major, op.w, row_major, op.b, stream);
  }
}

void run(const ops::DenseBackward& op, const Stream& stream) {
  if (op.dx) matmul(op.dx, op.dz, row_major, op.w, transposed, Tensor(), stream);
  if (op.dw && runs_narrow(op.dz)) {
    narrow_gradient(op.dw, op.dz, input_of(op.x, 1), stream);
  } else if (op.dw) {
    matmul(op.dw, op.x, transposed, op.dz, row_major, Tensor(), stream);
  }
  if (op.db) cpu::run(ops::SumRows{op.db, op.dz}, stream);
}

void run(const ops::DenseBackwardAdd& op, const Stream& stream) {
  const Buffer memory = stream.allocate(op.dw.bytes());
  const Tensor term(memory.data(), DType::f32, op.dw.shape(), op.dw.device());
  cpu::run(ops::DenseBackward{.dw = term, .db = op.db, .dz = op.dz, .x = op.x, .math = op.math}, stream);
  giro::add(op.dw, op.dw, term, stream);
}

void run(const ops::DenseOfBytes& op, const Stream& stream) {
  if (!narrow::can_run(op.y.shape()[1])) {
    const auto [memory, floats] = scaled(op.x, op.factor, stream);
    return cpu::run(ops::Dense{op.y, floats, op.w, op.b}, stream);
  }
  narrow_dense(op.y, input_of(op.x, op.factor), op.w, op.b, stream);
}

void run(const ops::DenseOfBytesBackward& op, const Stream& stream) {
  if (op.dw && narrow::can_run(op.dz.shape()[1])) {
    narrow_gradient(op.dw, op.dz, input_of(op.x, op.factor), stream);
  } else if (op.dw) {
    const auto [memory, floats] = scaled(op.x, op.factor, stream);
    matmul(op.dw, floats, transposed, op.dz, row_major, Tensor(), stream);
  }
  if (op.db) cpu::run(ops::SumRows{op.db, op.dz}, stream);
}

}  // namespace giro::cpu
