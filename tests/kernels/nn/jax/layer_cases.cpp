#include <giro/kernels/nn/layers.h>
#include <giro/kernels/nn/normalization.h>
#include <giro/kernels/nn/recurrent.h>
#include <giro/kernels/nn/transformer.h>

#include "tests/kernels/nn/jax/cases.h"

namespace giro::nn {

std::vector<Case> layer_cases() {
  const auto of_x = [](std::string name, const Shape& x, Layer layer) {
    return Case{std::move(name), {{"x", x, -1.5, 1.5}}, std::move(layer)};
  };
  const Layer attention_to("attention", [attention = MultiHeadAttention{{.heads = 2}}](
                                            Scope& s, const Var& x, const Var& context, const Var& mask) {
    return attention(s, x, context, mask);
  });
  return {
      of_x("layer_norm", {3, 2, 7}, layer_norm()),
      of_x("layer_norm without an affine map", {5, 4}, layer_norm({.use_scale = false, .use_bias = false})),
      of_x("rms_norm", {3, 2, 7}, rms_norm()),
      of_x("group_norm", {2, 3, 2, 6}, group_norm(2)),
      of_x("batch_norm", {4, 3, 5}, batch_norm({.momentum = 0.75})),
      of_x("batch_norm by moving averages", {7, 3}, batch_norm({.use_moving_averages = true})),
      of_x("lstm", {2, 4, 5}, lstm(3)),
      of_x("lstm, reverse, carry, without biases", {3, 3, 2},
           lstm(2, {.reverse = true, .carry = true, .use_bias = false})),
      of_x("gru", {2, 4, 5}, gru(3)),
      of_x("gru, reverse, without biases", {3, 3, 2}, gru(2, {.reverse = true, .use_bias = false})),
      of_x("swiglu", {3, 4}, swiglu(6)),
      of_x("dense layers, residual, dropout", {3, 4},
           residual(sequential(dense(6, {.activation = Activation::tanh}), dropout(0), dense(4)))),
      of_x("conv layer", {2, 5, 4, 3}, conv(4, {3, 2}, {.strides = {2, 1}})),
      {"embedding layer, positions",
       {{"ids", {2, 5}, 0, 6, DType::i32}},
       sequential(embedding(7, 4), position_embedding(6))},
      of_x("multi_head_attention", {2, 5, 6}, multi_head_attention({.heads = 3})),
      of_x(
          "multi_head_attention, rotary, causal, grouped queries", {2, 5, 6},
          multi_head_attention(
              {.heads = 4, .kv_heads = 2, .head_features = 4, .is_causal = true, .rope_base = 100, .use_bias = false})),
      {"multi_head_attention to a context",
       {{"x", {2, 3, 4}, -1.5, 1.5}, {"context", {2, 5, 6}, -1.5, 1.5}, {"mask", {2, 1, 1, 5}, 0, 1, DType::boolean}},
       attention_to},
      of_x("transformer_block", {2, 3, 4}, transformer_block({.attention = {.heads = 2, .is_causal = true}})),
  };
}

}  // namespace giro::nn
