#include "kernels/cuda/bias.h"

#include <utility>

#include "kernels/expr/term.h"

namespace giro::cuda {

void add_bias(const Tensor& y, const Tensor& b, const Stream& stream, bool relu) {
  if ((!b && !relu) || y.count() == 0) return;
  using namespace expr;
  const std::int64_t columns = y.shape()[-1];
  Builder code({y.count() / columns, columns});
  const Layout whole{.strides = {columns, 1}};
  Term value = code.read(y, whole);
  if (b) {
    const Term bias = code.read(b, Layout{.strides = {0, 1}});
    value = (value.cast(DType::f32) + bias.cast(DType::f32)).cast(y.dtype());
  }
  if (relu) value = expr::relu(value);
  value.write(y, whole);
  queue("add_bias", std::move(code).take(), stream);
}

}  // namespace giro::cuda
