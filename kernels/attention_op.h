#pragma once

#include <array>
#include <cstdint>

#include "kernels/op_cost.h"

namespace giro::ops {

// As in kernels/nn/attention.h, with all defaults filled in.
struct AttentionOptions {
  In mask{}, key_lengths{}, key{};
  std::array<std::int64_t, 4> mask_strides{};  // along (B, H, T, S)
  double scale = 1;
  bool is_causal = false;
  double dropout = 0;
  std::int64_t dropout_key = 0;  // added to `key`, if there is one
  std::int64_t first_row = 0;
  // If not 0, queries, keys and values are heads of one array (B, T, H + 2 K, D), and this is H. The array is the op's
  // `query`, and its gradient is dquery; the others are empty.
  std::int64_t packed_queries = 0;
};

// Heads [first, first + count) of an array (B, T, heads, D), which may be empty.
struct Heads {
  Tensor array{};
  std::int64_t first = 0, count = 0;

  Heads(const Tensor& all) : array(all), count(all ? all.shape()[2] : 0) {}
  Heads(const Tensor& array, std::int64_t first, std::int64_t count) : array(array), first(first), count(count) {}

  explicit operator bool() const { return static_cast<bool>(array); }
  Shape shape() const { return {array.shape()[0], array.shape()[1], count, array.shape()[3]}; }
  // The address of the first head; null if there is no array.
  void* data() const {
    if (!array) return nullptr;
    const std::int64_t before = first * array.shape()[3];  // elements
    return static_cast<char*>(array.raw()) + before * static_cast<std::int64_t>(size_of(array.dtype()));
  }
};

// The queries, keys and values of an attention, or their gradients.
struct AttentionHeads {
  Heads query, key, value;

  AttentionHeads(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionOptions& options)
      : query(query), key(key), value(value) {
    const std::int64_t queries = options.packed_queries;
    if (queries == 0) return;
    const std::int64_t keys = (query.shape()[2] - queries) / 2;
    this->query = {query, 0, queries};
    this->key = {query, queries, keys};
    this->value = {query, queries + keys, keys};
  }
};

// logsumexp (B, H, T) f32, may be empty: the logarithm of the sum of a query's exponentials; infinity for a query that
// may attend to no key.
struct Attention {
  static constexpr const char* kName = "dot_product_attention";
  Out out{}, logsumexp{};
  In query{}, key{}, value{};
  AttentionOptions options{};

  const detail::OpSignature& arguments() const {
    static const detail::OpSignature of_three(
        "query: s(bt(kg)[d]), key: s(b[s]k[d]), value: s(b[s]k[d]), mask?: bool, key_lengths?: i32(b), "
        "dropout_key?: i64() -> out: s(bt(kg)[d]), logsumexp?: f32(b(kg)t)");
    // Of packed heads h, only that they lie side by side.
    static const detail::OpSignature of_packed(
        "query: s(b[t][h][d]), key?: s, value?: s, mask?: bool, key_lengths?: i32(b), dropout_key?: i64() -> "
        "out: s(bt(kg)[d]), logsumexp?: f32(b(kg)t)");
    return options.packed_queries == 0 ? of_three : of_packed;
  }
  AttentionHeads heads() const { return {query, key, value, options}; }
  double flops() const { return 4 * elements(out) * static_cast<double>(heads().key.shape()[1]); }
};

// dkey and dvalue are both given, or neither is. Neither the queries nor the keys are empty.
struct AttentionBackward {
  static constexpr const char* kName = "dot_product_attention_backward";
  Out dquery{}, dkey{}, dvalue{};
  In dout{}, out{}, logsumexp{}, query{}, key{}, value{};
  AttentionOptions options{};

  const detail::OpSignature& arguments() const {
    static const detail::OpSignature of_three(
        "dout: s(bt(kg)[d]), out: s(bt(kg)[d]), logsumexp: f32(b(kg)t), query: s(bt(kg)[d]), key: s(b[s]k[d]), "
        "value: s(b[s]k[d]), mask?: bool, key_lengths?: i32(b), dropout_key?: i64() -> dquery?: s(bt(kg)[d]), "
        "dkey?: s(b[s]k[d]), dvalue?: s(b[s]k[d])");
    static const detail::OpSignature of_packed(
        "dout: s(bt(kg)[d]), out: s(bt(kg)[d]), logsumexp: f32(b(kg)t), query: s(b[t][h][d]), key?: s, value?: s, "
        "mask?: bool, key_lengths?: i32(b), dropout_key?: i64() -> dquery?: s(b[t][h][d]), dkey?: s, dvalue?: s");
    return options.packed_queries == 0 ? of_three : of_packed;
  }
  AttentionHeads heads() const { return {query, key, value, options}; }
  AttentionHeads gradients() const { return {dquery, dkey, dvalue, options}; }
  double flops() const {
    const AttentionHeads wanted = gradients();
    return (wanted.query && wanted.key ? 10
            : wanted.key               ? 8
                                       : 6) *
           elements(out) * static_cast<double>(heads().key.shape()[1]);
  }
};

}  // namespace giro::ops
