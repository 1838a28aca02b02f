#include "kernels/functors/attention.h"

#include <algorithm>
#include <limits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kernels/cpu/chain.h"
#include "kernels/cpu/for_each.h"
#include "kernels/cpu/thread_memory.h"
#include "kernels/cpu/tile_loops.h"
#include "kernels/cpu/tile_product.h"
#include "kernels/internal/ops.h"
#include "kernels/pointwise/math.h"
#include "kernels/pointwise/random.h"

namespace giro::cpu {
namespace {

using functors::Attending;
using pointwise::Compiled;

// A tile has the scores of kQueries queries and kKeys keys. Keys are packed once for kChunk queries.
constexpr std::int64_t kQueries = 64, kKeys = 256, kChunk = 256;
static_assert(kChunk % kQueries == 0);
constexpr std::int64_t kScoreRow = kKeys + 16;  // so that rows fall into different sets of the cache
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The next step of the softmax of a row: x becomes e^(x - m), m the largest so far, and what was summed before shrinks
// by `factor`. A row of -inf alone has no shift, so that it sums to 0.
struct OnlineSoftmax {
  GIRO_LOOP_INLINE static void run(float* x, std::int64_t n, float* largest, float* total, float* factor) {
    const float before = *largest;
    float m = before, sum = 0;
#pragma omp simd reduction(max : m)
    for (std::int64_t i = 0; i < n; ++i) m = x[i] > m ? x[i] : m;
    const float shift = m == -kInfinity ? 0.0f : m;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < n; ++i) {
      x[i] = pointwise::math::exp(x[i] - shift);
      sum += x[i];
    }
    *factor = pointwise::math::exp(before - shift);
    *largest = m;
    *total = *total * *factor + sum;
  }
};

// A row's weights from its scores, and the gradient with respect to the scores from the one with respect to the
// weights.
struct ScoreGradient {
  GIRO_LOOP_INLINE static void run(float* p, float* dp, std::int64_t n, float logsumexp, float delta) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
      p[i] = pointwise::math::exp(p[i] - logsumexp);
      dp[i] = p[i] * (dp[i] - delta);
    }
  }
};
// The same with dropout, where `kept` is 0 for weights that are dropped.
struct ScoreGradientWithDropout {
  GIRO_LOOP_INLINE static void run(float* p, float* dp, const float* kept, std::int64_t n, float logsumexp,
                                   float delta) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
      const float weight = pointwise::math::exp(p[i] - logsumexp);
      p[i] = weight * kept[i];
      dp[i] = weight * ((kept[i] != 0.0f ? dp[i] * kept[i] : 0.0f) - delta);
    }
  }
};

struct Kept {
  GIRO_LOOP_INLINE static void run(float* kept, std::int64_t n, std::int64_t key, std::int64_t place, float below,
                                   float factor) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
      kept[i] = pointwise::math::uniform_by_key(key, place + i) < below ? factor : 0.0f;
    }
  }
};

struct Scaled {
  GIRO_LOOP_INLINE static void run(float* y, const float* x, std::int64_t n, float factor) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] * factor;
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

// Rows of f32, `row` apart.
struct Rows {
  const float* data;
  std::int64_t row;
};

// One of the op's arrays, (B, rows, heads, width), which may be omitted.
struct Array {
  char* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t rows = 0, heads = 0, width = 0;
  TileLoop read = nullptr, write = nullptr;  // null for f32

  explicit Array(const Tensor& tensor) {
    if (!tensor) return;
    data = static_cast<char*>(tensor.raw());
    dtype = tensor.dtype();
    rows = tensor.shape()[1];
    heads = tensor.shape()[2];
    width = tensor.shape()[3];
    if (dtype == DType::f32) return;
    read = conversion(dtype, DType::f32);
    write = conversion(DType::f32, dtype);
  }
  explicit operator bool() const { return data != nullptr; }
  char* at(std::int64_t b, std::int64_t row, std::int64_t head) const {
    return data + ((b * rows + row) * heads + head) * width * static_cast<std::int64_t>(size_of(dtype));
  }
  // `count` rows of a head. 16-bit ones are converted into `scratch`.
  Rows get(std::int64_t b, std::int64_t row, std::int64_t head, std::int64_t count, float* scratch) const {
    if (read == nullptr) return {reinterpret_cast<const float*>(at(b, row, head)), heads * width};
    for (std::int64_t i = 0; i < count; ++i) read(at(b, row + i, head), scratch + i * width, width);
    return {scratch, width};
  }
  // Stores `factor` times a row, which this overwrites. f32 goes past the caches: its rows lie apart, and whoever reads
  // them comes later. end_of_streams() follows.
  void set(std::int64_t b, std::int64_t row, std::int64_t head, float* values, float factor) const {
    if (write != nullptr) {
      Compiled<Scaled>::all.get()(values, values, width, factor);
      return write(values, at(b, row, head), width);
    }
    float* const to = reinterpret_cast<float*>(at(b, row, head));
#if defined(__x86_64__)
    if (width % 16 == 0 && reinterpret_cast<std::uintptr_t>(to) % 64 == 0) {
      const __m128 factors = _mm_set1_ps(factor);
      for (std::int64_t d = 0; d < width; d += 4) _mm_stream_ps(to + d, _mm_mul_ps(_mm_loadu_ps(values + d), factors));
      return;
    }
#endif
    Compiled<Scaled>::all.get()(to, values, width, factor);
  }
};

// A thread's memory as arrays of floats, each aligned to 64 bytes. Counts them first, without memory.
class Floats {
 public:
  explicit Floats(float* memory = nullptr) : memory_(memory) {}
  float* take(std::int64_t count) {
    float* const taken = memory_ == nullptr ? nullptr : memory_ + used_;
    used_ += (count + 15) / 16 * 16;
    return taken;
  }
  std::size_t bytes() const { return static_cast<std::size_t>(used_) * sizeof(float); }

 private:
  float* memory_;
  std::int64_t used_ = 0;
};

// The arrays in this thread's memory.
template <class Arrays>
Arrays of_thread(std::int64_t keys, std::int64_t width, const TileProducts& products) {
  Floats count;
  Arrays(count, keys, width, products);
  Floats floats(reinterpret_cast<float*>(memory_of_thread(count.bytes())));
  return Arrays(floats, keys, width, products);
}

struct Common {
  Array query, key, value;
  Attending attending;
  float scale;
  std::int64_t batch, width, group;  // group: query heads for each head of keys
  const TileProducts& products = tile_products();

  template <class Op>
  explicit Common(const Op& op)
      : query(op.query),
        key(op.key),
        value(op.value),
        attending(op.query.shape(), op.key.shape()[1], op.options),
        scale(static_cast<float>(op.options.scale)),
        batch(op.query.shape()[0]),
        width(op.query.shape()[3]),
        group(op.query.shape()[2] / op.key.shape()[2]) {}

  std::int64_t chunks() const { return (attending.queries + kChunk - 1) / kChunk; }
  std::int64_t padded_width() const { return products.padded(width); }
  // Work in elements, for for_each_part: a vector of products costs about as much as one of them.
  std::int64_t work() const { return batch * attending.heads * attending.queries * attending.keys * width / 16; }

  // out (count, kScoreRow) = rows times the first `wanted` of the packed keys or values, and the rest of their
  // panel.
  void multiply_keys(float* out, const float* rows, const float* keys, std::int64_t count, std::int64_t packed,
                     std::int64_t wanted) const {
    // Whole panels, as they are packed.
    const std::int64_t columns = std::min(packed, (wanted + products.width - 1) / products.width * products.width);
    products.multiply({out, kScoreRow, rows, width, 1, keys, width, count, columns, width, false});
  }

  // Sets the scores that the mask excludes to -inf.
  void apply_mask(float* scores, std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t first,
                  std::int64_t count) const {
    if (attending.mask == nullptr) return;
    const std::int64_t step = attending.mask_of_s;
    const bool* const mask = attending.mask_row(b, h, t) + first * step;
    for (std::int64_t s = 0; s < count; ++s) scores[s] = mask[s * step] ? scores[s] : -kInfinity;
  }

  void draw(float* kept, std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t first, std::int64_t count) const {
    Compiled<Kept>::all.get()(kept, count, attending.key_of_dropout(), attending.place(b, h, t) + first,
                              attending.kept_below, attending.kept_factor);
  }

  void scale_rows(float* to, const Rows& rows, std::int64_t count) const {
    for (std::int64_t i = 0; i < count; ++i) {
      Compiled<Scaled>::all.get()(to + i * width, rows.data + i * rows.row, width, scale);
    }
  }
};

struct Forward : Common {
  Array out;
  float* logsumexp;  // or null

  explicit Forward(const ops::Attention& op)
      : Common(op), out(op.out), logsumexp(op.logsumexp ? op.logsumexp.data<float>() : nullptr) {}

  struct Arrays {
    float *query, *sums, *largest, *totals, *keys, *values, *scores, *kept, *scratch;

    Arrays(Floats& f, std::int64_t, std::int64_t width, const TileProducts& products)
        : query(f.take(kChunk * width)),
          sums(f.take(kChunk * products.padded(width))),
          largest(f.take(kChunk)),
          totals(f.take(kChunk)),
          keys(f.take(kKeys * width)),
          values(f.take(kKeys * products.padded(width))),
          scores(f.take(kQueries * kScoreRow)),
          kept(f.take(kKeys)),
          scratch(f.take(std::max(kKeys, kChunk) * width)) {}
  };

  void run() const {
    for_each_part(batch * attending.heads * chunks(), 1, 2 * work(), [&](std::int64_t unit, std::int64_t) {
      run(unit / chunks() / attending.heads, unit / chunks() % attending.heads, unit % chunks() * kChunk);
    });
  }

  void run(std::int64_t b, std::int64_t h, std::int64_t begin) const {
    const Arrays a = of_thread<Arrays>(attending.keys, width, products);
    const std::int64_t queries = std::min(kChunk, attending.queries - begin), padded = padded_width();
    scale_rows(a.query, query.get(b, begin, h, queries, a.scratch), queries);
    std::fill_n(a.sums, queries * padded, 0.0f);
    std::fill_n(a.largest, queries, -kInfinity);
    std::fill_n(a.totals, queries, 0.0f);
    const std::int64_t length = attending.length(b), last = attending.end(begin + queries - 1, length);
    for (std::int64_t first = 0; first < last; first += kKeys) {
      const std::int64_t count = std::min(kKeys, last - first);
      const Rows keys = key.get(b, first, h / group, count, a.scratch);
      products.pack_transposed(a.keys, keys.data, keys.row, count, width);
      const Rows values = value.get(b, first, h / group, count, a.scratch);
      products.pack(a.values, values.data, values.row, count, width);
      for (std::int64_t t = 0; t < queries; t += kQueries) {
        add_tile(a, b, h, begin + t, t, std::min(kQueries, queries - t), first, count, length);
      }
    }
    for (std::int64_t t = 0; t < queries; ++t) finish(a, b, h, begin + t, t, attending.end(begin + t, length));
    end_of_streams();
  }

  void add_tile(const Arrays& a, std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t in_chunk,
                std::int64_t rows, std::int64_t first, std::int64_t packed, std::int64_t length) const {
    const std::int64_t wanted = std::min(packed, attending.end(t + rows - 1, length) - first);
    if (wanted <= 0) return;
    multiply_keys(a.scores, a.query + in_chunk * width, a.keys, rows, packed, wanted);
    const std::int64_t padded = padded_width();
    for (std::int64_t i = 0; i < rows; ++i) {
      float* const row = a.scores + i * kScoreRow;
      const std::int64_t exist = std::clamp<std::int64_t>(attending.end(t + i, length) - first, 0, wanted);
      std::fill(row + exist, row + wanted, 0.0f);
      if (exist == 0) continue;
      apply_mask(row, b, h, t + i, first, exist);
      float factor;
      Compiled<OnlineSoftmax>::all.get()(row, exist, a.largest + in_chunk + i, a.totals + in_chunk + i, &factor);
      float* const sums = a.sums + (in_chunk + i) * padded;
      if (factor != 1) Compiled<Scaled>::all.get()(sums, sums, padded, factor);
      if (attending.has_dropout) {
        draw(a.kept, b, h, t + i, first, exist);
        for (std::int64_t s = 0; s < exist; ++s) row[s] *= a.kept[s];
      }
    }
    products.multiply(
        {a.sums + in_chunk * padded, padded, a.scores, kScoreRow, 1, a.values, packed, rows, width, wanted, true});
  }

  void finish(const Arrays& a, std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t i, std::int64_t end) const {
    const float total = a.totals[i];
    const bool has_key = total != 0 || attending.has_key(b, h, t, end);
    float* const sums = a.sums + i * padded_width();
    if (!has_key) std::fill_n(sums, width, 0.0f);
    out.set(b, t, h, sums, has_key ? 1 / total : 1);
    if (logsumexp == nullptr) return;
    logsumexp[(b * attending.heads + h) * attending.queries + t] =
        has_key ? a.largest[i] + pointwise::math::log(total) : kInfinity;
  }
};

struct Backward : Common {
  static constexpr std::int64_t kUnits = 64;  // so that many threads share the work of a few heads

  Array dout, out, dquery, dkey, dvalue;
  const float* logsumexp;
  // A head of keys has the queries of items() chunks. `splits` threads share them; each of them then stores its sums in
  // `partial` (2, B, K, splits, S, D).
  std::int64_t splits;
  float* partial;

  Backward(const ops::AttentionBackward& op)
      : Common(op),
        dout(op.dout),
        out(op.out),
        dquery(op.dquery),
        dkey(op.dkey),
        dvalue(op.dvalue),
        logsumexp(op.logsumexp.data<float>()),
        splits(std::clamp<std::int64_t>(kUnits / (batch * key.heads), 1, items())),
        partial(nullptr) {}

  std::int64_t items() const { return group * chunks(); }
  bool has_keys() const { return static_cast<bool>(dkey); }
  std::int64_t partial_size() const { return splits > 1 && has_keys() ? splits * half_of_partial() : 0; }
  std::int64_t half_of_partial() const { return batch * key.heads * attending.keys * width; }

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
    for_each_part(batch * key.heads * attending.keys, 64, half_of_partial() * splits,
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t row = begin; row < end; ++row) add_partial(row);
                    end_of_streams();
                  });
  }

  void run(std::int64_t b, std::int64_t head, std::int64_t split) const {
    const Arrays a = of_thread<Arrays>(attending.keys, width, products);
    const std::int64_t padded = padded_width();
    if (has_keys()) {
      std::fill_n(a.dkey, attending.keys * padded, 0.0f);
      std::fill_n(a.dvalue, attending.keys * padded, 0.0f);
    }
    for (std::int64_t item = split * items() / splits; item < (split + 1) * items() / splits; ++item) {
      add_chunk(a, b, head * group + item / chunks(), item % chunks() * kChunk);
    }
    for (const bool is_value : {false, true}) {
      if (!has_keys()) break;
      float* const sums = is_value ? a.dvalue : a.dkey;
      const Array& to = is_value ? dvalue : dkey;
      for (std::int64_t s = 0; s < attending.keys; ++s) {
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
    return partial + (is_value ? partial_size() : 0) + ((b_and_head * splits + split) * attending.keys + s) * width;
  }

  // Adds the splits' sums of a row, in their order.
  void add_partial(std::int64_t row) const {
    const std::int64_t b_and_head = row / attending.keys, s = row % attending.keys;
    for (const bool is_value : {false, true}) {
      float* const sums = partial_row(is_value, b_and_head, 0, s);
      for (std::int64_t split = 1; split < splits; ++split) {
        const float* const others = partial_row(is_value, b_and_head, split, s);
        for (std::int64_t d = 0; d < width; ++d) sums[d] += others[d];
      }
      (is_value ? dvalue : dkey).set(b_and_head / key.heads, s, b_and_head % key.heads, sums, 1);
    }
  }

  // What kChunk queries add to the gradients of all keys, and the gradients of these queries.
  void add_chunk(const Arrays& a, std::int64_t b, std::int64_t h, std::int64_t begin) const {
    const std::int64_t queries = std::min(kChunk, attending.queries - begin), padded = padded_width();
    const Rows outs = out.get(b, begin, h, queries, a.scratch);
    const Rows douts = dout.get(b, begin, h, queries, a.dout_rows);
    for (std::int64_t t = 0; t < queries; ++t) {
      const float* const row = douts.data + t * douts.row;
      Compiled<Dot>::all.get()(row, outs.data + t * outs.row, width, a.delta + t);
      if (row != a.dout_rows + t * width) std::copy_n(row, width, a.dout_rows + t * width);
    }
    std::copy_n(logsumexp + (b * attending.heads + h) * attending.queries + begin, queries, a.logsumexp);
    scale_rows(a.query_rows, query.get(b, begin, h, queries, a.scratch), queries);
    for (std::int64_t t = 0; t < queries; t += kQueries) {
      const std::int64_t rows = std::min(kQueries, queries - t);
      products.pack(a.query + t * padded, a.query_rows + t * width, width, rows, width);
      products.pack(a.dout + t * padded, a.dout_rows + t * width, width, rows, width);
    }
    std::fill_n(a.dquery, queries * padded, 0.0f);
    const std::int64_t length = attending.length(b), last = attending.end(begin + queries - 1, length);
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
    const std::int64_t wanted = std::min(packed, attending.end(t + rows - 1, length) - first);
    if (wanted <= 0) return;
    multiply_keys(a.weights, a.query_rows + in_chunk * width, a.keys_transposed, rows, packed, wanted);
    multiply_keys(a.dscores, a.dout_rows + in_chunk * width, a.values_transposed, rows, packed, wanted);
    const std::int64_t padded = padded_width();
    for (std::int64_t i = 0; i < rows; ++i) {
      float *const weights = a.weights + i * kScoreRow, *const dscores = a.dscores + i * kScoreRow;
      const std::int64_t exist = std::clamp<std::int64_t>(attending.end(t + i, length) - first, 0, wanted);
      std::fill(weights + exist, weights + wanted, 0.0f);
      std::fill(dscores + exist, dscores + wanted, 0.0f);
      if (exist == 0) continue;
      apply_mask(weights, b, h, t + i, first, exist);
      const float sum = a.logsumexp[in_chunk + i], delta = a.delta[in_chunk + i];
      if (attending.has_dropout) {
        draw(a.kept, b, h, t + i, first, exist);
        Compiled<ScoreGradientWithDropout>::all.get()(weights, dscores, a.kept, exist, sum, delta);
      } else {
        Compiled<ScoreGradient>::all.get()(weights, dscores, exist, sum, delta);
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

void run(const ops::Attention& op, const Stream& stream) {
  if (op.out.count() == 0) return;
  submit(stream, [forward = Forward(op)] { forward.run(); });
}

void run(const ops::AttentionBackward& op, const Stream& stream) {
  if (op.query.count() == 0 || op.key.count() == 0) {
    for (const Tensor& zeros : {Tensor(op.dquery), Tensor(op.dkey), Tensor(op.dvalue)}) {
      if (zeros) stream.fill(zeros.raw(), 0, zeros.bytes());
    }
    return;
  }
  Backward backward(op);
  const Buffer memory = stream.allocate(static_cast<std::size_t>(2 * backward.partial_size()) * sizeof(float));
  backward.partial = static_cast<float*>(memory.data());
  submit(stream, [backward] { backward.run(); });
}

}  // namespace giro::cpu
