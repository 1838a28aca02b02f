#pragma once

#include <cstdint>

#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

// Matrix products of a dense layer with few outputs. oneDNN vectorizes along the outputs: with 10 outputs, 6 of 16
// lanes idle. This code vectorizes along the inputs, so all lanes work and bytes can be read directly.
namespace giro::cpu::narrow {

constexpr std::int64_t kMaxOutputs = 16;

// Whether this processor has AVX-512 and the layer has at most kMaxOutputs outputs.
bool can_run(std::int64_t outputs);

// Queues y (rows, outputs) = x w + b, in f32: w (inputs, outputs), b (outputs) or empty. x (rows, inputs) is f32, or
// bytes to be multiplied by `factor`.
void dense(const Tensor& y, const Tensor& x, double factor, const Tensor& w, const Tensor& b, const Stream& stream);

// Queues dw (inputs, outputs) = x^T dz; dz (rows, outputs).
void weight_gradient(const Tensor& dw, const Tensor& dz, const Tensor& x, double factor, const Stream& stream);

}  // namespace giro::cpu::narrow
