#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/chain.h"
#include "kernels/cpu/for_each.h"
#include "kernels/expr/math.h"

namespace giro::cpu {
namespace attention {
namespace {

// Replaces a row's scores with its weights, and the gradient with respect to the weights with the gradient with respect
// to the scores. With dropout, `kept` is 0 for weights that are dropped.
template <bool kHasDropout>
struct ScoreGradient {
  GIRO_LOOP_INLINE static void run(float* p, float* dp, [[maybe_unused]] const float* kept, std::int64_t n,
                                   float logsumexp, float delta) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
      const float weight = expr::math::exp(p[i] - logsumexp);
      if constexpr (kHasDropout) {
        p[i] = weight * kept[i];
        dp[i] = weight * ((kept[i] != 0.0f ? dp[i] * kept[i] : 0.0f) - delta);
      } else {
        p[i] = weight;
        dp[i] = weight * (dp[i] - delta);
      }
    }
  }
};

struct Dot {
  GIRO_LOOP_INLINE static void run(const float* x, const float* y, std::int64_t n, float* result) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < n; ++i) sum += x[i] * y[i];
    *result = sum;
  }
};

struct Backward : Common, host_device::AttentionGradients<Array> {
  static constexpr std::int64_t kUnits = 64;  // so that many threads share the work of a few heads

  // A head of keys has items() chunks of queries. If `splits` threads share them, each stores its sums in `partial` (2,
  // B, K, splits, S, D).
  std::int64_t splits;
  float* partial;

  explicit Backward(const ops::AttentionBackward& op)
      : Common(op),
        AttentionGradients(op),
        splits(std::clamp<std::int64_t>(kUnits / (batch * key.heads), 1, items())),
        partial(nullptr) {}

  std::int64_t items() const { return group * chunks(); }
  bool has_keys() const { return static_cast<bool>(dkey); }
  std::int64_t partial_size() const { return splits > 1 && has_keys() ? splits * half_of_partial() : 0; }
  std::int64_t half_of_partial() const { return batch * key.heads * pattern.keys * width; }

  struct Arrays {
    float *query_rows, *query, *dout_rows, *dout, *dquery, *logsumexp, *delta;
    float *keys_transposed, *keys, *values_transposed, *weights, *dscores, *kept, *scratch, *dkey, *dvalue;

    Arrays(Floats& f, std::int64_t number_of_keys, std::int64_t width, const TileProducts& products)
        : query_rows(f.take(kChunk * width)),
          query(f.take(kChunk * products.padded(width))),
          dout_rows(f.take(kChunk * width)),
          dout(f.take(kChunk * products.padded(width))),
          dquery(f.take(kChunk * products.padded(width))),
          logsumexp(f.take(kChunk)),
          delta(f.take(kChunk)),
          keys_transposed(f.take(kKeys * width)),
          keys(f.take(kKeys * products.padded(width))),
          values_transposed(f.take(kKeys * width)),
          weights(f.take(kQueries * kScoreRow)),
          dscores(f.take(kQueries * kScoreRow)),
          kept(f.take(kKeys)),
          scratch(f.take(std::max(kKeys, kChunk) * width)),
          dkey(f.take(number_of_keys * products.padded(width))),
          dvalue(f.take(number_of_keys * products.padded(width))) {}
  };

  void run() const {
    for_each_part(batch * key.heads * splits, 1, 5 * work(), [&](std::int64_t unit, std::int64_t) {
      run(unit / splits / key.heads, unit / splits % key.heads, unit % splits);
    });
    if (partial_size() == 0) return;
    for_each_part(batch * key.heads * pattern.keys, 64, half_of_partial() * splits,
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t row = begin; row < end; ++row) add_partial(row);
                    end_of_streams();
                  });
  }

  void run(std::int64_t b, std::int64_t head, std::int64_t split) const {
    const Arrays a = of_thread<Arrays>(pattern.keys, width, products);
    const std::int64_t padded = padded_width();
    if (has_keys()) {
      std::fill_n(a.dkey, pattern.keys * padded, 0.0f);
      std::fill_n(a.dvalue, pattern.keys * padded, 0.0f);
    }
    for (std::int64_t item = split * items() / splits; item < (split + 1) * items() / splits; ++item) {
      add_chunk(a, b, head * group + item / chunks(), item % chunks() * kChunk);
    }
    for (const bool is_value : {false, true}) {
      if (!has_keys()) break;
      float* const sums = is_value ? a.dvalue : a.dkey;
      const Array& to = is_value ? dvalue : dkey;
      for (std::int64_t s = 0; s < pattern.keys; ++s) {
        if (splits == 1) {
          to.set(b, s, head, sums + s * padded, 1);
        } else {
          std::copy_n(sums + s * padded, width, partial_row(is_value, b * key.heads + head, split, s));
        }
      }
    }
    end_of_streams();
  }

  float* partial_row(bool is_value, std::int64_t b_and_head, std::int64_t split, std::int64_t s) const {
    return partial + (is_value ? partial_size() : 0) + ((b_and_head * splits + split) * pattern.keys + s) * width;
  }

  // Adds the splits' sums of a row, in order.
  void add_partial(std::int64_t row) const {
    const std::int64_t b_and_head = row / pattern.keys, s = row % pattern.keys;
    for (const bool is_value : {false, true}) {
      float* const sums = partial_row(is_value, b_and_head, 0, s);
      for (std::int64_t split = 1; split < splits; ++split) {
        const float* const others = partial_row(is_value, b_and_head, split, s);
        for (std::int64_t d = 0; d < width; ++d) sums[d] += others[d];
      }
      (is_value ? dvalue : dkey).set(b_and_head / key.heads, s, b_and_head % key.heads, sums, 1);
    }
  }

  // Adds the terms of kChunk queries to the gradients of all keys, and computes the gradients of these queries.
  void add_chunk(const Arrays& a, std::int64_t b, std::int64_t h, std::int64_t begin) const {
    const std::int64_t queries = std::min(kChunk, pattern.queries - begin), padded = padded_width();
    const Rows outs = out.get(b, begin, h, queries, a.scratch);
    const Rows douts = dout.get(b, begin, h, queries, a.dout_rows);
    for (std::int64_t t = 0; t < queries; ++t) {
      const float* const row = douts.data + t * douts.row;
      Compiled<Dot>::all.get()(row, outs.data + t * outs.row, width, a.delta + t);
      if (row != a.dout_rows + t * width) std::copy_n(row, width, a.dout_rows + t * width);
    }
    std::copy_n(logsumexp + (b * pattern.heads + h) * pattern.queries + begin, queries, a.logsumexp);
    scale_rows(a.query_rows, query.get(b, begin, h, queries, a.scratch), queries);
    for (std::int64_t t = 0; t < queries; t += kQueries) {
      const std::int64_t rows = std::min(kQueries, queries - t);
      products.pack(a.query + t * padded, a.query_rows + t * width, width, rows, width);
      products.pack(a.dout + t * padded, a.dout_rows + t * width, width, rows, width);
    }
    std::fill_n(a.dquery, queries * padded, 0.0f);
    const std::int64_t length = pattern.length(b), last = pattern.end(begin + queries - 1, length);
    for (std::int64_t first = 0; first < last; first += kKeys) {
      const std::int64_t count = std::min(kKeys, last - first);
      const Rows keys = key.get(b, first, h / group, count, a.scratch);
      products.pack_transposed(a.keys_transposed, keys.data, keys.row, count, width);
      products.pack(a.keys, keys.data, keys.row, count, width);
      const Rows values = value.get(b, first, h / group, count, a.scratch);
      products.pack_transposed(a.values_transposed, values.data, values.row, count, width);
      for (std::int64_t t = 0; t < queries; t += kQueries) {
        add_tile(a, b, h, begin + t, t, std::min(kQueries, queries - t), first, count, length);
      }
    }
    if (!dquery) return;
    for (std::int64_t t = 0; t < queries; ++t) dquery.set(b, begin + t, h, a.dquery + t * padded, scale);
  }

  void add_tile(const Arrays& a, std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t in_chunk,
                std::int64_t rows, std::int64_t first, std::int64_t packed, std::int64_t length) const {
    const std::int64_t wanted = std::min(packed, pattern.end(t + rows - 1, length) - first);
    if (wanted <= 0) return;
    multiply_keys(a.weights, a.query_rows + in_chunk * width, a.keys_transposed, rows, packed, wanted);
    multiply_keys(a.dscores, a.dout_rows + in_chunk * width, a.values_transposed, rows, packed, wanted);
    const std::int64_t padded = padded_width();
    for (std::int64_t i = 0; i < rows; ++i) {
      float *const weights = a.weights + i * kScoreRow, *const dscores = a.dscores + i * kScoreRow;
      const std::int64_t exist = std::clamp<std::int64_t>(pattern.end(t + i, length) - first, 0, wanted);
      std::fill(weights + exist, weights + wanted, 0.0f);
      std::fill(dscores + exist, dscores + wanted, 0.0f);
      if (exist == 0) continue;
      apply_mask(weights, b, h, t + i, first, exist);
      const float sum = a.logsumexp[in_chunk + i], delta = a.delta[in_chunk + i];
      if (pattern.has_dropout) {
        draw(a.kept, b, h, t + i, first, exist);
        Compiled<ScoreGradient<true>>::all.get()(weights, dscores, a.kept, exist, sum, delta);
      } else {
        Compiled<ScoreGradient<false>>::all.get()(weights, dscores, nullptr, exist, sum, delta);
      }
    }
    if (dquery) {
      products.multiply(
          {a.dquery + in_chunk * padded, padded, a.dscores, kScoreRow, 1, a.keys, packed, rows, width, wanted, true});
    }
    if (!has_keys()) return;
    products.multiply({a.dvalue + first * padded, padded, a.weights, 1, kScoreRow, a.dout + in_chunk * padded, rows,
                       wanted, width, rows, true});
    products.multiply({a.dkey + first * padded, padded, a.dscores, 1, kScoreRow, a.query + in_chunk * padded, rows,
                       wanted, width, rows, true});
  }
};

}  // namespace
}  // namespace attention

void run(const ops::AttentionBackward& op, const Stream& stream) {
  attention::Backward backward(op);
  const Temporary memory(DType::f32, {2, backward.partial_size()}, stream);
  backward.partial = memory.data<float>();
  submit(stream, [backward] { backward.run(); });
}

}  // namespace giro::cpu
