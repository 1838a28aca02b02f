#include "kernels/cuda/bias.h"

#include "kernels/elementwise.h"

namespace giro::cuda {

void add_bias(const Tensor& y, const Tensor& b, const Stream& stream, bool relu) {
  if ((!b && !relu) || y.count() == 0) return;
  const std::int64_t columns = y.shape()[-1];
  ops::write_each("add_bias", y, {y.count() / columns, columns}, stream, [&](const auto& read) {
    expr::Term value = read(y);
    if (b) {
      const expr::Term bias = read(b, Shape{columns});
      value = (value.cast(DType::f32) + bias.cast(DType::f32)).cast(y.dtype());
    }
    return relu ? expr::relu(value) : value;
  });
}

}  // namespace giro::cuda
