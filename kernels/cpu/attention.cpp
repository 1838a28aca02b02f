#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/chain.h"
#include "kernels/cpu/for_each.h"
#include "kernels/expr/math.h"

namespace giro::cpu {
namespace attention {
namespace {

// One step of the online softmax of a row: x becomes e^(x - m), where m is the largest so far, and earlier sums must be
// multiplied by `factor`. A row with only -inf is not shifted, so that it sums to 0.
struct OnlineSoftmax {
  GIRO_LOOP_INLINE static void run(float* x, std::int64_t n, float* largest, float* total, float* factor) {
    const float before = *largest;
    float m = before, sum = 0;
#pragma omp simd reduction(max : m)
    for (std::int64_t i = 0; i < n; ++i) m = x[i] > m ? x[i] : m;
    const float shift = m == -kInfinity ? 0.0f : m;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < n; ++i) {
      x[i] = expr::math::exp(x[i] - shift);
      sum += x[i];
    }
    *factor = expr::math::exp(before - shift);
    *largest = m;
    *total = *total * *factor + sum;
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
    for_each_part(batch * pattern.heads * chunks(), 1, 2 * work(), [&](std::int64_t unit, std::int64_t) {
      run(unit / chunks() / pattern.heads, unit / chunks() % pattern.heads, unit % chunks() * kChunk);
    });
  }

  void run(std::int64_t b, std::int64_t h, std::int64_t begin) const {
    const Arrays a = of_thread<Arrays>(pattern.keys, width, products);
    const std::int64_t queries = std::min(kChunk, pattern.queries - begin), padded = padded_width();
    scale_rows(a.query, query.get(b, begin, h, queries, a.scratch), queries);
    std::fill_n(a.sums, queries * padded, 0.0f);
    std::fill_n(a.largest, queries, -kInfinity);
    std::fill_n(a.totals, queries, 0.0f);
    const std::int64_t length = pattern.length(b), last = pattern.end(begin + queries - 1, length);
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
    for (std::int64_t t = 0; t < queries; ++t) finish(a, b, h, begin + t, t, pattern.end(begin + t, length));
    end_of_streams();
  }

  void add_tile(const Arrays& a, std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t in_chunk,
                std::int64_t rows, std::int64_t first, std::int64_t packed, std::int64_t length) const {
    const std::int64_t wanted = std::min(packed, pattern.end(t + rows - 1, length) - first);
    if (wanted <= 0) return;
    multiply_keys(a.scores, a.query + in_chunk * width, a.keys, rows, packed, wanted);
    const std::int64_t padded = padded_width();
    for (std::int64_t i = 0; i < rows; ++i) {
      float* const row = a.scores + i * kScoreRow;
      const std::int64_t exist = std::clamp<std::int64_t>(pattern.end(t + i, length) - first, 0, wanted);
      std::fill(row + exist, row + wanted, 0.0f);
      if (exist == 0) continue;
      apply_mask(row, b, h, t + i, first, exist);
      float factor;
      Compiled<OnlineSoftmax>::all.get()(row, exist, a.largest + in_chunk + i, a.totals + in_chunk + i, &factor);
      float* const sums = a.sums + (in_chunk + i) * padded;
      if (factor != 1) Compiled<Scaled>::all.get()(sums, sums, padded, factor);
      if (pattern.has_dropout) {
        draw(a.kept, b, h, t + i, first, exist);
        for (std::int64_t s = 0; s < exist; ++s) row[s] *= a.kept[s];
      }
    }
    products.multiply(
        {a.sums + in_chunk * padded, padded, a.scores, kScoreRow, 1, a.values, packed, rows, width, wanted, true});
  }

  void finish(const Arrays& a, std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t i, std::int64_t end) const {
    const float total = a.totals[i];
    const bool has_key = total != 0 || pattern.has_key(b, h, t, end);
    float* const sums = a.sums + i * padded_width();
    if (!has_key) std::fill_n(sums, width, 0.0f);
    out.set(b, t, h, sums, has_key ? 1 / total : 1);
    if (logsumexp == nullptr) return;
    logsumexp[(b * pattern.heads + h) * pattern.queries + t] =
        has_key ? a.largest[i] + expr::math::log(total) : kInfinity;
  }
};

}  // namespace
}  // namespace attention

void run(const ops::Attention& op, const Stream& stream) {
  if (op.out.count() == 0) return;
  submit(stream, [forward = attention::Forward(op)] { forward.run(); });
}

}  // namespace giro::cpu
