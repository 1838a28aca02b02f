#pragma once

#include <string>
#include <string_view>

#include <giro/kernels/math_mode.h>
#include <giro/runtime/device.h>
#include <giro/runtime/dtype.h>

namespace giro {

// The precision that a model is computed in. Parameters, gradients, the optimizer's moments and sums of products are
// f32 in each of them.
//   f32   everything is f32.
//   tf32  factors of products keep 10 bits of their mantissa (GPUs, from compute capability 8.0).
//   bf16  parameters as the model sees them, activations and their gradients are bfloat16 (GPUs from compute
//         capability 8.0, CPUs with AVX512_BF16 or AMX).
//   f16   the same are IEEE binary16, and losses are scaled so that small gradients do not vanish (GPUs from compute
//         capability 7.0; CPUs with AVX512_FP16, with oneDNN 3 or later).
enum class Precision { f32, tf32, bf16, f16 };

constexpr std::string_view name_of(Precision precision) {
  constexpr std::string_view kNames[] = {"f32", "tf32", "bf16", "f16"};
  return kNames[static_cast<int>(precision)];
}

// The precision of that name. Error(invalid_argument).
Precision parse_precision(const std::string& name);

// The dtype of parameters, as the model sees them, and of activations.
constexpr DType compute_dtype(Precision precision) {
  return precision == Precision::bf16 ? DType::bf16 : precision == Precision::f16 ? DType::f16 : DType::f32;
}
constexpr MathMode math_mode_of(Precision precision) {
  return precision == Precision::tf32 ? MathMode::tf32 : MathMode::f32;
}

// Error(unsupported), naming what is needed, if the device does not compute in that precision. Error(device).
void expect_supported(Precision precision, Device device);

}  // namespace giro
