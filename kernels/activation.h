#pragma once

namespace giro {

// The function that a layer applies to its output. gelu is the tanh approximation, 0.5 x (1 + tanh(sqrt(2/pi) (x +
// 0.044715 x^3))), Flax's default.
enum class Activation { none, relu, gelu, tanh, sigmoid };

}  // namespace giro
