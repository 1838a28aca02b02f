#include <giro/kernels/nn/transformer.h>

#include <cmath>
#include <limits>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

#include <giro/kernels/nn/attention.h>
#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/indexing.h>
#include <giro/kernels/nn/layers.h>
#include <giro/kernels/nn/normalization.h>

#include "kernels/nn/apply.h"
#include "kernels/nn/builtin.h"
#include "runtime/call_site.h"
#include "runtime/program/op_signature.h"
#include "runtime/throw_error.h"

namespace giro::nn {
namespace {

void expect_sequence(const char* layer, const Var& x) { detail::expect_fit(layer, "the input: *(btc)", {&x.value()}); }

const Initializer& out_init(const AttentionLayerOptions& options) {
  return options.out_init ? options.out_init : options.kernel_init;
}

Var dense_in(const Scope& s, const char* name, const Var& x, std::int64_t features,
             const AttentionLayerOptions& options, const Initializer& kernel_init) {
  Scope part = s.child(name);
  return dense(features, {.use_bias = options.use_bias, .kernel_init = kernel_init, .bias_init = options.bias_init})
      .apply(part, {x}, std::source_location())
      .front();
}

// What an error calls a token that has no place in a cache.
constexpr const char* kBeyondCache = "the cache is full (state.reset(\"cache\") starts over): token";

// The number of tokens that a cache holds.
Variable tokens_in(const Scope& s) { return s.variable("cache", "tokens", {}, zeros(), DType::i32); }

// The keys and values of earlier tokens.
struct Cache {
  Variable tokens, keys, values;

  Cache(const Scope& s, const Var& key, std::int64_t room)
      : tokens(tokens_in(s)), keys(of(s, "key", key, room)), values(of(s, "value", key, room)) {}

  // Adds the next tokens.
  void add(const Var& key, const Var& value) const {
    const std::int64_t room = keys.value().shape()[1], added = key.shape()[1];
    const Var row = arange(room, key.stream(), DType::i32) - tokens.value();
    const Var is_new = logical_and(row >= 0, row < added).reshape({room, 1, 1});
    const Var from = clamp(row, 0, added - 1);
    keys.set(where(is_new, take(key, from, 1), keys.value()));
    values.set(where(is_new, take(value, from, 1), values.value()));
    tokens.set(tokens.value() + added);
  }

  // The value, or NaN if there was no room for the tokens added last, which is also an error.
  Var if_fits(const Var& value) const {
    const Var places = arange(keys.value().shape()[1], value.stream(), DType::f32);
    const Var last = take_checked("attention: " + std::string(kBeyondCache), places, tokens.value() - 1);
    return where(last >= 0, value, std::numeric_limits<float>::quiet_NaN());
  }

 private:
  static Variable of(const Scope& s, const char* name, const Var& like, std::int64_t room) {
    const Shape& shape = like.shape();
    return s.variable("cache", name, {shape[0], room, shape[2], shape[3]}, zeros(), like.dtype());
  }
};

}  // namespace

Layer embedding(std::int64_t ids, std::int64_t features, const Initializer& init) {
  if (ids < 1 || features < 1) throw_invalid("embedding: ({}, {}), expected at least 1 each", ids, features);
  return builtin("embedding", [=](Scope& s, const Var& x) {
    return embedding(x, s.param("embedding", {ids, features}, init));
  });
}

Layer position_embedding(std::int64_t length, const PositionOptions& options) {
  if (length < 1) throw_invalid("position_embedding: a length of {}, expected at least 1", length);
  return builtin("position_embedding", [=](Scope& s, const Var& x) {
    expect_sequence("position_embedding", x);
    const std::int64_t steps = x.shape()[1];
    if (steps > length) {
      throw_invalid("position_embedding: a sequence of {} for a table of {} positions", steps, length);
    }
    const Var table = s.param("embedding", {length, x.shape()[2]}, options.init);
    const Var from_first = slice(table, {.begin = 0, .end = steps});
    if (!options.cache) return x + from_first;
    const Variable tokens = tokens_in(s);
    if (s.mode() != Mode::decode) return x + from_first;
    const Var positions = tokens.value() + arange(steps, s.stream(), DType::i32);
    tokens.set(tokens.value() + steps);
    return x + take_checked("position_embedding: " + std::string(kBeyondCache), table, positions);
  });
}

Var rotary_embedding(const Var& x, const Var& positions, double base, Where where) {
  const detail::CallSite site(where);
  if (x.shape().rank() != 4 || x.shape()[3] % 2 != 0 || positions.shape() != Shape{x.shape()[1]}) {
    throw_shape("rotary_embedding: x is {}, positions is {}; expected (B, T, H, D) with an even D, and (T)",
                to_string(x.value()), to_string(positions.value()));
  }
  const std::int64_t pairs = x.shape()[3] / 2;
  const Var place = cast(arange(pairs, x.stream(), DType::i32), DType::f32);
  const Var frequency = exp(place * (-std::log(base) / static_cast<double>(pairs)));
  const Var angle = cast(positions, DType::f32).reshape({positions.shape()[0], 1, 1}) * frequency;
  const std::vector<Var> half = split(x, 2, -1);
  const Var turned_cos = cos(angle), turned_sin = sin(angle);
  return cast(
      concatenate({half[0] * turned_cos - half[1] * turned_sin, half[1] * turned_cos + half[0] * turned_sin}, -1),
      x.dtype());
}

Var MultiHeadAttention::operator()(Scope& s, const Var& x, const Var& mask) const { return (*this)(s, x, Var(), mask); }

Var MultiHeadAttention::operator()(Scope& s, const Var& x, const Var& context, const Var& mask) const {
  const detail::CallSite site{std::source_location()};
  expect_sequence("attention", x);
  const std::int64_t width = x.shape()[2], heads = options.heads;
  const std::int64_t kv_heads = options.kv_heads == 0 ? heads : options.kv_heads;
  if (heads < 1 || kv_heads < 1 || heads % kv_heads != 0) {
    throw_invalid("attention: {} query heads, expected a multiple of the {} key and value heads", heads, kv_heads);
  }
  if (options.head_features == 0 && width % heads != 0) {
    throw_invalid("attention: {} heads do not divide {} features", heads, width);
  }
  const std::int64_t features = options.head_features == 0 ? width / heads : options.head_features;
  const std::int64_t of_queries = heads * features, of_keys = kv_heads * features;
  const bool is_self = !context.has_stream();

  AttentionOptions how{.is_causal = options.is_causal, .mask = mask};
  if (s.training() && options.dropout > 0) {
    how.dropout = options.dropout;
    how.key = s.key("dropout");
  }
  const auto in_heads = [&](const Var& of, std::int64_t count) {
    return of.reshape({of.shape()[0], of.shape()[1], count, features});
  };
  const auto result = [&](const Var& y) {
    return dense_in(s, "out", y.reshape({x.shape()[0], x.shape()[1], of_queries}), width, options, out_init(options));
  };
  // Outside of decoding, the cache is only declared, so that other batches may be larger or smaller.
  const bool has_cache = is_self && options.cache > 0, decodes = has_cache && s.mode() == Mode::decode;
  const bool needs_cache = decodes || (has_cache && s.declares());
  std::vector<Var> parts;
  if (is_self) {
    const Var qkv =
        in_heads(dense_in(s, "qkv", x, of_queries + 2 * of_keys, options, options.kernel_init), heads + 2 * kv_heads);
    if (!needs_cache && options.rope_base <= 0) return result(dot_product_attention(qkv, heads, how));
    parts = split(qkv, std::vector<std::int64_t>{heads, kv_heads, kv_heads}, 2);
  } else {
    expect_sequence("attention", context);
    parts = split(in_heads(dense_in(s, "kv", context, 2 * of_keys, options, options.kernel_init), 2 * kv_heads), 2, 2);
    parts.insert(parts.begin(), in_heads(dense_in(s, "query", x, of_queries, options, options.kernel_init), heads));
  }
  Var query = parts[0], key = parts[1];
  const Var value = parts[2];
  std::optional<Cache> cache;
  if (needs_cache) cache.emplace(s, key, options.cache);
  if (options.rope_base > 0) {
    const auto turned = [&](const Var& of) {
      const Var first = arange(of.shape()[1], s.stream(), DType::i32);
      return rotary_embedding(of, decodes ? first + cache->tokens.value() : first, options.rope_base);
    };
    query = turned(query);
    key = turned(key);
  }
  if (!decodes) return result(dot_product_attention(query, key, value, how));
  cache->add(key, value);
  how.key_lengths = broadcast_to(cache->tokens.value(), {x.shape()[0]});
  const Var y = dot_product_attention(query, cache->keys.value(), cache->values.value(), how);
  return result(cache->if_fits(y));
}

Layer multi_head_attention(const AttentionLayerOptions& options) { return MultiHeadAttention{options}; }

Layer transformer_block(const TransformerBlockOptions& options) {
  return builtin("block", [options](Scope& s, const Var& x) {
    expect_sequence("transformer_block", x);
    const std::int64_t width = x.shape()[2], hidden = options.hidden == 0 ? 4 * width : options.hidden;
    const Layer norm = layer_norm({.epsilon = options.epsilon}), drop = dropout(options.dropout);
    const Var h = x + drop(s, multi_head_attention(options.attention)(s, norm(s, x)));
    const AttentionLayerOptions& init = options.attention;
    const Var inner =
        dense(hidden, {.activation = options.activation, .kernel_init = init.kernel_init, .bias_init = init.bias_init})(
            s, norm(s, h));
    return h + drop(s, dense(width, {.kernel_init = out_init(init), .bias_init = init.bias_init})(s, inner));
  });
}

}  // namespace giro::nn
