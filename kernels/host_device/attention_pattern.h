#pragma once

#include <cstdint>

#include <giro/runtime/host_device.h>
#include <giro/runtime/rng.h>

#include "kernels/ops.h"

namespace giro::host_device {

// Which keys a query attends to, and which weights dropout keeps, in the form that kernels need.
struct AttentionPattern {
  std::int64_t heads, queries, keys;  // H, T, S
  bool is_causal, has_dropout;
  const bool* mask;                                                         // null if there is none
  std::int64_t mask_stride_b, mask_stride_h, mask_stride_t, mask_stride_s;  // its strides; 0 where it is broadcast
  const std::int32_t* key_lengths;                                          // null if there are none
  const std::int64_t* key;                                                  // dropout_key is added to it; may be null
  std::int64_t dropout_key, first_index;
  float keep_threshold, keep_scale;

  AttentionPattern(const Shape& query, std::int64_t keys, const ops::AttentionOptions& options)
      : heads(query[2]),
        queries(query[1]),
        keys(keys),
        is_causal(options.is_causal),
        has_dropout(options.dropout > 0),
        mask(options.mask ? options.mask.data<bool>() : nullptr),
        mask_stride_b(options.mask_strides[0]),
        mask_stride_h(options.mask_strides[1]),
        mask_stride_t(options.mask_strides[2]),
        mask_stride_s(options.mask_strides[3]),
        key_lengths(options.key_lengths ? options.key_lengths.data<std::int32_t>() : nullptr),
        key(options.key ? options.key.data<std::int64_t>() : nullptr),
        dropout_key(options.dropout_key),
        first_index(options.first_row * heads * queries * keys),
        keep_threshold(static_cast<float>(1 - options.dropout)),
        keep_scale(static_cast<float>(1 / (1 - options.dropout))) {}

  // The number of keys of sample b.
  GIRO_HOST_DEVICE std::int64_t length(std::int64_t b) const {
    if (key_lengths == nullptr) return keys;
    const std::int64_t length = key_lengths[b];
    return length < 0 ? 0 : length > keys ? keys : length;
  }
  // Query t of a sample with `length` keys attends only to keys below end().
  GIRO_HOST_DEVICE std::int64_t end(std::int64_t t, std::int64_t length) const {
    if (!is_causal) return length;
    const std::int64_t end = t + 1 + length - queries;
    return end < 0 ? 0 : end;
  }
  GIRO_HOST_DEVICE const bool* mask_row(std::int64_t b, std::int64_t h, std::int64_t t) const {
    return mask + b * mask_stride_b + h * mask_stride_h + t * mask_stride_t;
  }
  // Whether query t may attend to any key. `end`: its end().
  GIRO_HOST_DEVICE bool has_key(std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t end) const {
    if (mask == nullptr) return end > 0;
    const bool* const row = mask_row(b, h, t);
    for (std::int64_t s = 0; s < end; ++s) {
      if (row[s * mask_stride_s]) return true;
    }
    return false;
  }
  // The index of key 0 of query t among dropout's random numbers.
  GIRO_HOST_DEVICE std::int64_t dropout_index(std::int64_t b, std::int64_t h, std::int64_t t) const {
    return first_index + ((b * heads + h) * queries + t) * keys;
  }
  GIRO_HOST_DEVICE std::int64_t key_of_dropout() const {
    const auto added = static_cast<std::uint64_t>(dropout_key);
    return static_cast<std::int64_t>(key != nullptr ? static_cast<std::uint64_t>(*key) + added : added);
  }
};

// What both passes read. Array: heads of one of the op's arrays, in the form that a backend's kernels need.
template <class Array>
struct AttentionInputs {
  Array query, key, value;
  AttentionPattern pattern;
  float scale;
  decltype(Array::heads) group;  // query heads for each head of keys

  template <class Op>
  explicit AttentionInputs(const Op& op) : AttentionInputs(op.heads(), op.options) {}

 private:
  AttentionInputs(const ops::AttentionHeads& of, const ops::AttentionOptions& options)
      : query(of.query),
        key(of.key),
        value(of.value),
        pattern(of.query.shape(), key.rows, options),
        scale(static_cast<float>(options.scale)),
        group(query.heads / key.heads) {}
};

// What the backward pass has besides these.
template <class Array>
struct AttentionGradients {
  Array dout, out, dquery, dkey, dvalue;
  const float* logsumexp;

  explicit AttentionGradients(const ops::AttentionBackward& op)
      : dout(op.dout),
        out(op.out),
        dquery(op.gradients().query),
        dkey(op.gradients().key),
        dvalue(op.gradients().value),
        logsumexp(op.logsumexp.data<float>()) {}
};

}  // namespace giro::host_device
