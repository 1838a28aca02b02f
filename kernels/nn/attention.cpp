#include <giro/kernels/nn/attention.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include <giro/kernels/nn/functional.h>

#include "kernels/elementwise.h"
#include "kernels/expr/term.h"
#include "kernels/nn/arguments.h"
#include "kernels/nn/gradients.h"
#include "kernels/ops.h"
#include "runtime/call_site.h"
#include "runtime/throw_error.h"

namespace giro::nn {
namespace {

constexpr const char* kName = "dot_product_attention";
constexpr std::int64_t kMaxWidth = 256;

// q: (B, T, H, D), k: (B, S, K, D).
void check(const Shape& q, const Shape& k, const AttentionOptions& options) {
  if (k[2] == 0 ? q[2] != 0 : q[2] % k[2] != 0) {
    throw_shape("{}: query has {} heads, key has {}; expected query's to be a multiple of key's", kName, q[2], k[2]);
  }
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  if (q[3] > kMaxWidth || std::max(q[1], k[1]) > kMax / 2 || std::max(q[2], k[2]) > kMax / 256 / kMaxWidth) {
    throw_error(ErrorCode::unsupported, "{}: query is {}, key is {}, expected heads of size at most {}", kName,
                to_string(q), to_string(k), kMaxWidth);
  }
  const Tensor& mask = options.mask.value();
  if (mask) expect_broadcasts("dot_product_attention's mask", mask.shape(), {q[0], q[2], q[1], k[1]});
  if (!(options.dropout >= 0 && options.dropout < 1)) {
    throw_invalid("{}: a dropout of {}, expected one in [0, 1)", kName, options.dropout);
  }
  expect_key(kName, options.key.base);
}

enum Input : std::size_t { kQuery, kKey, kValue, kMask, kLengths, kDropoutKey };

// The options, with the tensors of `in`.
ops::AttentionOptions with_tensors(ops::AttentionOptions options, const std::vector<Var>& in) {
  options.mask = in[kMask].value();
  options.key_lengths = in[kLengths].value();
  options.key = in[kDropoutKey].value();
  return options;
}

ops::AttentionOptions options_of(const Shape& query, const Shape& key, const AttentionOptions& given) {
  ops::AttentionOptions options;
  if (!given.mask.is_empty()) {
    const auto layout = expr::broadcast_layout(given.mask.shape(), {query[0], query[2], query[1], key[1]});
    std::copy_n(layout.strides.begin(), 4, options.mask_strides.begin());
  }
  options.scale = given.scale.value_or(1 / std::sqrt(static_cast<double>(query[3])));
  options.is_causal = given.is_causal;
  options.dropout = given.dropout;
  const Key& drawn_from = given.key;
  options.dropout_key = drawn_from.base.is_number ? drawn_from.base.integer + drawn_from.node : drawn_from.node;
  options.first_row = drawn_from.first_row;
  return options;
}

// q: (B, T, H, D), k: (B, S, K, D). If queries, keys and values are packed, `query` holds all of them.
Var attend(const Shape& q, const Shape& k, const Var& query, const Var& key, const Var& value,
           const AttentionOptions& given) {
  check(q, k, given);
  ops::AttentionOptions options = options_of(q, k, given);
  if (key.is_empty()) options.packed_queries = q[2];
  const std::vector<Var> in{query,
                            key,
                            value,
                            given.mask,
                            given.key_lengths,
                            given.dropout > 0 && !given.key.base.is_number ? given.key.base.var : Var()};
  Var logsumexp;
  if (std::any_of(in.begin(), in.begin() + kMask, [](const Var& x) { return x.requires_grad(); })) {
    std::vector<Var> constants;
    for (const Var& x : in) constants.push_back(stop_gradient(x));
    logsumexp = Var::computed(DType::f32, {q[0], q[2], q[1]}, constants, nullptr);
  }
  const auto gradient = [options, logsumexp, is_empty = q.count() == 0 || k.count() == 0](
                            const Var& out, const Var& dout, const std::vector<Var>& in) {
    std::vector<Var> terms(in.size());
    const bool has_keys = in[kKey].requires_grad() || in[kValue].requires_grad();
    for (const std::size_t i : {kQuery, kKey, kValue}) {
      if (i == kQuery ? !in[i].requires_grad() : !has_keys) continue;
      terms[i] = gradient_like(kName, in[i], in[i].dtype(), {dout, in[kQuery], in[kKey], in[kValue]});
    }
    if (is_empty) {
      for (const Var& term : terms) {
        if (!term.is_empty()) ops::fill(term.value(), 0, dout.stream());
      }
      return Gradients(std::move(terms));
    }
    queue(ops::AttentionBackward{terms[kQuery].value(), terms[kKey].value(), terms[kValue].value(), dout.value(),
                                 out.value(), logsumexp.value(), in[kQuery].value(), in[kKey].value(),
                                 in[kValue].value(), with_tensors(options, in)},
          dout.stream());
    return Gradients(std::move(terms));
  };
  const Var out = Var::computed(query.dtype(), q, in, gradient);
  queue(ops::Attention{out.value(), logsumexp.value(), query.value(), key.value(), value.value(),
                       with_tensors(options, in)},
        out.stream());
  return out;
}

}  // namespace

Var dot_product_attention(const Var& query, const Var& key, const Var& value, const AttentionOptions& options,
                          Where where) {
  const detail::CallSite site(where);
  giro::detail::expect_fit(kName, "query: s(bthd), key: s(bskd), value: s(bskd)",
                           {&query.value(), &key.value(), &value.value()});
  return attend(query.shape(), key.shape(), query, key, value, options);
}

Var dot_product_attention(const Var& qkv, std::int64_t heads, const AttentionOptions& options, Where where) {
  const detail::CallSite site(where);
  giro::detail::expect_fit(kName, "qkv: s(bthd)", {&qkv.value()});
  const Shape& all = qkv.shape();
  const std::int64_t keys = (all[2] - heads) / 2;
  if (heads < 1 || keys < 1 || heads + 2 * keys != all[2]) {
    throw_shape("{}: qkv is {}, expected (B, T, H + 2 K, D) with {} query heads", kName, to_string(qkv.value()), heads);
  }
  return attend({all[0], all[1], heads, all[3]}, {all[0], all[1], keys, all[3]}, qkv, Var(), Var(), options);
}

}  // namespace giro::nn
