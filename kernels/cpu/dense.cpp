#include "kernels/cpu/one_dnn.h"
#include "kernels/internal/backends.h"

namespace giro::cpu {
namespace {

using dnnl::memory;
constexpr auto f32 = memory::data_type::f32;
constexpr auto row_major = memory::format_tag::ab;
constexpr auto transposed = memory::format_tag::ba;

// What is left of a product of no terms: out[r, :] += bias.
void add_to_rows(const Tensor& out, const Tensor& bias, const Stream& stream) {
  submit(stream, [out = out.data<float>(), bias = bias.data<float>(), rows = out.shape()[0], columns = out.shape()[1]] {
    for (std::int64_t i = 0; i < rows * columns; ++i) out[i] += bias[i % columns];
  });
}

// out (M, N) = a (M, K) b (K, N) + bias (N). A transposed operand's memory is that of its transpose.
void matmul(const Tensor& out, const Tensor& a, memory::format_tag a_order, const Tensor& b, memory::format_tag b_order,
            const Tensor& bias, const Stream& stream) {
  if (out.count() == 0) return;
  const memory::dim m = out.shape()[0], n = out.shape()[1];
  const memory::dim k = a.shape()[a_order == row_major ? 1 : 0];
  if (k == 0) {
    cpu::fill(out, 0, stream);
    if (bias) add_to_rows(out, bias, stream);
    return;
  }
  const std::int64_t work = m * n * k;
  one_dnn::checked("matmul", [&] {
    const one_dnn::ThreadLimit limit(work);
    const dnnl::engine engine = one_dnn::engine();
    const memory::desc a_desc({m, k}, f32, a_order), b_desc({k, n}, f32, b_order), out_desc({m, n}, f32, row_major);
    const memory::desc bias_desc = bias ? memory::desc({1, n}, f32, row_major) : memory::desc();
    const auto desc = one_dnn::describe<dnnl::matmul>(engine, a_desc, b_desc, bias_desc, out_desc);
    one_dnn::Arguments arguments{{DNNL_ARG_SRC, one_dnn::memory(a, a_desc, engine)},
                                 {DNNL_ARG_WEIGHTS, one_dnn::memory(b, b_desc, engine)},
                                 {DNNL_ARG_DST, one_dnn::memory(out, out_desc, engine)}};
    if (bias) arguments.emplace(DNNL_ARG_BIAS, one_dnn::memory(bias, bias_desc, engine));
    one_dnn::submit(stream, "matmul", work, engine, dnnl::matmul(desc), std::move(arguments));
  });
}

}  // namespace

void dense(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b, Activation f, const Stream& stream) {
  matmul(y, x, row_major, w, row_major, b, stream);
  // Not as oneDNN's post-op, whose relu turns a NaN into a zero.
  if (f != Activation::none) cpu::activation(y, y, f, stream);
}

void dense_backward(const Tensor& dx, const Tensor& dw, const Tensor& db, const Tensor& dz, const Tensor& x,
                    const Tensor& w, const Stream& stream) {
  if (dx) matmul(dx, dz, row_major, w, transposed, Tensor(), stream);
  if (dw) matmul(dw, x, transposed, dz, row_major, Tensor(), stream);
  if (db) cpu::sum_rows(db, dz, stream);
}

}  // namespace giro::cpu
