#pragma once

#include <cstdint>

#include <giro/kernels/activation.h>
#include <giro/kernels/nn/initializers.h>
#include <giro/kernels/nn/layer.h>

namespace giro::nn {

// Transformer layers. Sequences are (B, T, ...).
//
// To generate token by token, a model's layers have a cache for earlier tokens: variables of the collection "cache",
// with room for `cache` tokens. When the model is called with Mode::decode, its inputs are the next tokens of the
// cached sequences and are added to the cache. Tokens for which it has no room give NaN, and are an Error
// (invalid_argument) when the host next waits for the device or reads the step's logs. The cache holds as many
// sequences as the batch that the state is created with; TrainState::reset("cache") starts them over.

// Integer ids of any shape (...) -> (..., features). Parameter: embedding (ids, features). Ids out of range give NaN.
Layer embedding(std::int64_t ids, std::int64_t features, const Initializer& init = normal(0.02));

// x (B, T, C) plus the first T rows of a table. Parameter: embedding (length, C). Error(invalid_argument) for a longer
// sequence.
struct PositionOptions {
  Initializer init = normal(0.02);
  bool cache = false;
};
Layer position_embedding(std::int64_t length, const PositionOptions& options = {});

// x (B, T, H, D) with each pair (x[d], x[d + D/2]) rotated by positions (T) times base^(-2d/D), so that the product of
// two vectors depends on their distance. Su et al.: "RoFormer", 2021, with the halves as in GPT-NeoX and Llama.
// Error(shape_mismatch) for an odd D.
Var rotary_embedding(const Var& x, const Var& positions, double base = 10'000, Where where = Where::current());

struct AttentionLayerOptions {
  std::int64_t heads = 1;
  std::int64_t kv_heads = 0;       // heads of keys and values, each shared by heads / kv_heads; 0: as many as heads
  std::int64_t head_features = 0;  // 0: the input's features / heads
  bool is_causal = false;
  double dropout = 0;    // of the weights
  double rope_base = 0;  // of rotary embeddings of queries and keys; 0: none
  std::int64_t cache = 0;
  bool use_bias = true;
  Initializer kernel_init = lecun_normal();
  Initializer out_init = {};  // of the last product's kernel; empty: kernel_init
  Initializer bias_init = zeros();
};

// (B, T, C) -> (B, T, C). Vaswani et al.: "Attention is all you need", 2017; grouped queries as Ainslie et al., 2023.
// Leaves: qkv/kernel (C, (heads + 2 kv_heads) head_features), out/kernel (heads head_features, C), and their biases.
// With a context instead (B, S, C'): query, kv and out. Errors: invalid_argument for heads that do not divide the
// features, or kv_heads that do not divide the heads.
struct MultiHeadAttention {
  AttentionLayerOptions options;

  std::string name() const { return "attention"; }
  // mask: boolean, broadcast to (B, heads, T, S), true where a query may attend; empty: everywhere.
  Var operator()(Scope& s, const Var& x, const Var& mask = {}) const;
  Var operator()(Scope& s, const Var& x, const Var& context, const Var& mask) const;
};
Layer multi_head_attention(const AttentionLayerOptions& options);

struct TransformerBlockOptions {
  AttentionLayerOptions attention;  // its initializers also apply to the other two products
  std::int64_t hidden = 0;          // 0: four times the input's features
  Activation activation = Activation::gelu;
  double dropout = 0;
  double epsilon = 1e-5;
};
// h = x + dropout(attention(layer_norm(x))), then h + dropout(dense(activation(dense(layer_norm(h))))), as in GPT-2.
Layer transformer_block(const TransformerBlockOptions& options);

}  // namespace giro::nn
