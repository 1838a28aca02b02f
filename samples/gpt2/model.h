#pragma once

// GPT-2 (Radford et al., "Language models are unsupervised multitask learners", 2019), of any size.

#include <giro/giro.h>

#include <cmath>

struct Gpt2 {
  // 124M parameters by default.
  std::int64_t vocabulary = 50'257, context = 1'024, layers = 12, heads = 12, width = 768;
  double dropout = 0;
  bool remat = false;
  bool generates = false;  // whether it has a cache of earlier tokens, for Mode::decode

  // Ids (B, T) -> logits of the token after each (B, T, vocabulary).
  giro::nn::Var operator()(giro::nn::Scope& s, const giro::nn::Var& tokens) const {
    namespace nn = giro::nn;
    // The last product of each residual branch is initialized smaller, so that the sum of all branches does not grow.
    const nn::Layer block =
        nn::transformer_block({.attention = {.heads = heads,
                                   .is_causal = true,
                                   .dropout = dropout,
                                   .cache = generates ? context : 0,
                                   .kernel_init = nn::normal(0.02),
                                   .out_init = nn::normal(0.02 / std::sqrt(2.0 * static_cast<double>(layers)))},
            .dropout = dropout});
    const nn::Var table = s.param("embedding", {vocabulary, width}, nn::normal(0.02));
    nn::Var x = nn::position_embedding(context, {.cache = generates})(s, embedding(tokens, table));
    x = nn::dropout(dropout)(s, x);
    for (std::int64_t i = 0; i < layers; ++i) x = (remat ? nn::remat(block) : block)(s, x);
    return matmul(nn::layer_norm()(s, x), table, {.transpose_b = true});
  }
};
