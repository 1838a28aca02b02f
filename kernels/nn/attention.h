#pragma once

#include <cstdint>
#include <optional>

#include <giro/kernels/nn/operand.h>
#include <giro/kernels/nn/random.h>

namespace giro::nn {

struct AttentionOptions {
  // Query t sees the keys s <= t + S - T: the last query sees all of them, as with a KV cache.
  bool is_causal = false;
  std::optional<double> scale = {};  // of the scores; 1 / sqrt(D) if not given
  // Boolean, broadcast to (B, H, T, S): true where a query may attend to a key.
  Var mask = {};
  // i32 (B): how many keys each sample has; the others are ignored. The last causal query then sees exactly these keys.
  // Clamped to [0, S].
  Var key_lengths = {};
  // The fraction of weights that are set to 0, in [0, 1); the others, where random_bernoulli(key, 1 - dropout, {B, H,
  // T, S}) is true, are multiplied by 1 / (1 - dropout). The backward pass draws them again.
  double dropout = 0;
  Key key = 0;
};

// softmax(scale * query key^T) value for each head, as in jax.nn.dot_product_attention: query (B, T, H, D), key and
// value (B, S, K, D), result (B, T, H, D), all f32, bf16 or f16. H is a multiple of K: query heads [h H/K, (h + 1) H/K)
// share key head h. D is at most 256. The result and the gradients of a query that may attend to no key are 0. Values
// that a query may not attend to have a weight of 0, so they must be finite.
//
// Computed in f32, with an online softmax in tiles, so that the scores are never stored: Rabe and Staats,
// "Self-attention does not need O(n^2) memory" (2021); Dao et al., "FlashAttention" (2022) and "FlashAttention-2"
// (2023). The backward pass recomputes the scores and cannot itself be differentiated. Errors: shape_mismatch,
// dtype_mismatch, device_mismatch; invalid_argument for a dropout outside of [0, 1); random.h's errors for the key;
// unsupported for a larger D.
Var dot_product_attention(const Var& query, const Var& key, const Var& value, const AttentionOptions& options = {},
                          Where where = Where::current());

// The same for qkv (B, T, H + 2 K, D), which has H = `heads` query heads, then K key heads and K value heads, such as
// the output of one dense layer. Nothing is copied, and the gradient is also one array.
Var dot_product_attention(const Var& qkv, std::int64_t heads, const AttentionOptions& options = {},
                          Where where = Where::current());

}  // namespace giro::nn
