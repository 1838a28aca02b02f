#pragma once

#include <optional>

#include <giro/runtime/dtype.h>
#include <giro/runtime/tensor.h>

// Values of one floating dtype stored as another. All tensors are on the host.
namespace giro::detail {

constexpr bool can_convert(DType from, DType to) { return is_floating(from) && is_floating(to); }

// `to` must have as many elements as `from`. Rounds to nearest even, f64 to f32 first; NaN stays NaN.
void convert(const Tensor& to, const Tensor& from);
// The first finite value that `dtype` would make infinite.
std::optional<double> out_of_range(const Tensor& values, DType dtype);

}  // namespace giro::detail
