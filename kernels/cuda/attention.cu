#include "kernels/cuda/attention_tile.cuh"

namespace giro::cuda {
namespace attention {
namespace {

struct Forward : Common {
  Array out;
  float* logsumexp;  // or null
  explicit Forward(const ops::Attention& op) : Common(op), out(op.out), logsumexp(op.logsumexp.data<float>()) {}
};

// Each block handles 64 queries.
template <int kWidth>
__global__ void __launch_bounds__(Layout<kWidth>::kThreads, 1) attention_kernel(const Forward op) {
  using L = Layout<kWidth>;
  __shared__ Shared shared;
  Block<kWidth> block(shared);
  const QueryTile tile(op);
  const int b = tile.b, h = tile.head, t = tile.begin + L::row();
  const Rows queries = op.query.tile(b, tile.begin, op.query.rows, h);
  typename L::Sums sums[L::kParts] = {};
  float largest[4], totals[4] = {};
  for (float& m : largest) m = -INFINITY;
#pragma unroll 1
  for (int first = 0; first < tile.last; first += kTile) {
    typename L::Sums scores;
    block.scores(scores, queries, op.key.tile(b, first, tile.last, h / op.group));
    const auto attended = tile.attended<kWidth>(op, first);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float m = largest[i];
#pragma unroll
      for (int j = 0; j < L::kColumns; ++j) {
        float& score = scores[i][j];
        score = attended.at(i, j) ? op.scale * score : -INFINITY;
        m = fmaxf(m, score);  // ignores NaN, but the sum does not
      }
      m = reduce_lanes<L::kAcross>(m, [](float x, float y) { return fmaxf(x, y); });
      const float shift = m == -INFINITY ? 0.0f : m, factor = expf(largest[i] - shift);
      largest[i] = m;
      float total = 0;
#pragma unroll
      for (int j = 0; j < L::kColumns; ++j) {
        scores[i][j] = expf(scores[i][j] - shift);
        total += scores[i][j];
      }
      totals[i] = totals[i] * factor + total;
#pragma unroll
      for (auto& part : sums) {
#pragma unroll
        for (int j = 0; j < L::kColumns; ++j) part[i][j] *= factor;
      }
    }
    if (op.pattern.has_dropout) {
      const auto kept = tile.kept<kWidth>(op, first);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < L::kColumns; ++j) scores[i][j] *= kept.at(i, j) ? op.pattern.keep_scale : 0.0f;
      }
    }
    block.set_weights(scores);
    block.add_products(sums, op.value.tile(b, first, tile.last, h / op.group));
  }

  bool has_key[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    totals[i] = reduce_lanes<L::kAcross>(totals[i], [](float x, float y) { return x + y; });
    has_key[i] = totals[i] != 0 ||
                 (t + i < op.query.rows && op.pattern.has_key(b, h, t + i, op.pattern.end(t + i, tile.length)));
    if (op.logsumexp != nullptr && threadIdx.x % L::kAcross == 0 && t + i < op.query.rows) {
      op.logsumexp[(std::int64_t{b} * op.query.heads + h) * op.query.rows + t + i] =
          has_key[i] ? largest[i] + logf(totals[i]) : INFINITY;
    }
  }
  block.store(op.out, sums, b, tile.begin, h, [&](int i, float sum) { return has_key[i] ? sum / totals[i] : 0.0f; });
}

}  // namespace
}  // namespace attention

void run(const ops::Attention& op, const Stream& stream) {
  using namespace attention;
  if (op.out.count() == 0) return;
  using Result = AttentionGraph::Result;
  const Result result = op.logsumexp ? Result::out_and_logsumexp : Result::out;
  const GraphArrays arrays{{GraphArray::out, op.out.raw()}, {GraphArray::logsumexp, op.logsumexp.raw()}};
  if (run_with_cudnn(op, result, arrays, stream)) return;
  with_width(op.out.shape()[3], [&]<int kWidth>(std::integral_constant<int, kWidth>) {
    attention_kernel<kWidth><<<blocks_of(op.out), Layout<kWidth>::kThreads, 0, handle(stream)>>>(Forward(op));
    check_launch("attention_kernel");
  });
}

}  // namespace giro::cuda
