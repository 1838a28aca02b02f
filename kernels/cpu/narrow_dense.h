#pragma once

#include <cstddef>
#include <cstdint>

// Matrix products of a dense layer with few outputs. oneDNN vectorizes along the outputs: with 10 outputs, 6 of 16
// lanes idle. This code vectorizes along the inputs, so all lanes work and bytes can be read directly.
namespace giro::cpu::narrow {

constexpr std::int64_t kMaxOutputs = 16;

// Whether this processor has AVX-512 and the layer has at most kMaxOutputs outputs.
bool can_run(std::int64_t outputs);

// The layer's input: (rows, inputs) f32, or bytes to be multiplied by `factor`.
struct Input {
  const float* floats = nullptr;
  const std::uint8_t* bytes = nullptr;
  float factor = 1;
  std::int64_t rows = 0, inputs = 0;
};

// Size in floats of the workspace for the two functions below.
std::size_t workspace(std::int64_t rows, std::int64_t inputs, std::int64_t outputs);

// y (rows, outputs) = x w + b; w (inputs, outputs), b (outputs) or null.
void dense(float* y, const Input& x, const float* w, const float* b, std::int64_t outputs, float* workspace);

// dw (inputs, outputs) = x^T dz; dz (rows, outputs).
void weight_gradient(float* dw, const float* dz, const Input& x, std::int64_t outputs, float* workspace);

}  // namespace giro::cpu::narrow
