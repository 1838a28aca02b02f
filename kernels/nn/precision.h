#pragma once

#include <string>
#include <string_view>

#include <giro/kernels/math.h>
#include <giro/runtime/device.h>
#include <giro/runtime/dtype.h>

namespace giro {

// What a model is computed in. Parameters, gradients and the optimizer's moments are f32 in each, sums of products too.
//   f32   everything is.
//   tf32  factors of products keep 10 bits of their mantissa (GPUs, from compute capability 8.0).
//   bf16  parameters, as the model sees them, activations and their gradients are bfloat16 (GPUs from compute
//         capability 8.0, CPUs with AVX512_BF16 or AMX).
//   f16   they are IEEE binary16, and losses are scaled, so that small gradients do not vanish (GPUs from compute
//         capability 7.0; CPUs for which oneDNN computes it, from its version 3 on, with AVX512_FP16).
enum class Precision { f32, tf32, bf16, f16 };

constexpr std::string_view name_of(Precision precision) {
  constexpr std::string_view kNames[] = {"f32", "tf32", "bf16", "f16"};
  return kNames[static_cast<int>(precision)];
}

// The precision of that name. Error(invalid_argument).
Precision parse_precision(const std::string& name);

// What parameters and activations are stored as.
constexpr DType compute_dtype(Precision precision) {
  return precision == Precision::bf16 ? DType::bf16 : precision == Precision::f16 ? DType::f16 : DType::f32;
}
constexpr Math math_of(Precision precision) { return precision == Precision::tf32 ? Math::tf32 : Math::f32; }

// Error(unsupported), naming what is needed, for a device that does not compute in it. Error(device).
void expect_supported(Precision precision, Device device);

}  // namespace giro
