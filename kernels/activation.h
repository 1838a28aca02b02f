#pragma once

#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro {

// gelu is the tanh approximation, 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), Flax's default.
enum class Activation { none, relu, gelu, tanh, sigmoid };

// y = f(x), elementwise, computed in f32; all of one dtype, f32, bf16 or f16. y may be x. Errors: shape_mismatch,
// dtype_mismatch, device_mismatch.
void activation(const Tensor& y, const Tensor& x, Activation f, const Stream& stream);

// dx = dy f'(x). `x_or_y` is the output y of the forward pass, except for gelu, which needs its input x: see
// needs_input. dx may be dy. The slope of relu at 0 is 0.
void activation_backward(const Tensor& dx, const Tensor& dy, const Tensor& x_or_y, Activation f, const Stream& stream);

constexpr bool needs_input(Activation f) { return f == Activation::gelu; }

}  // namespace giro
