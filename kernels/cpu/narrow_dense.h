#pragma once

#include <cstddef>
#include <cstdint>

// Products of a dense layer with few outputs. oneDNN lays a vector along the outputs, of which 10 leave 6 of 16 lanes
// idle; here it lies along the inputs, so all lanes work, and bytes can be read as they are.
namespace giro::cpu::narrow {

constexpr std::int64_t kMostOutputs = 16;

// Whether this processor has what it takes (AVX-512), and this layer few outputs.
bool can_run(std::int64_t outputs);

// The layer's input: (rows, inputs) f32, or bytes that each stand for factor times their value.
struct Input {
  const float* floats = nullptr;
  const std::uint8_t* bytes = nullptr;
  float factor = 1;
  std::int64_t rows = 0, inputs = 0;
};

// How many floats the two functions below want to work with.
std::size_t workspace(std::int64_t rows, std::int64_t inputs, std::int64_t outputs);

// y (rows, outputs) = x w + b; w (inputs, outputs), b (outputs) or null.
void dense(float* y, const Input& x, const float* w, const float* b, std::int64_t outputs, float* workspace);

// dw (inputs, outputs) = x^T dz; dz (rows, outputs).
void weight_gradient(float* dw, const float* dz, const Input& x, std::int64_t outputs, float* workspace);

}  // namespace giro::cpu::narrow
