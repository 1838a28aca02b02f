#include "kernels/cuda/attention_tile.cuh"

namespace giro::cuda {
namespace attention {
namespace {

struct Backward : Common, host_device::AttentionGradients<Array> {
  float* delta;  // (B, H, T): the sums of dout * out

  Backward(const ops::AttentionBackward& op, float* delta) : Common(op), AttentionGradients(op), delta(delta) {}

  // Returns a score's weight after dropout. `gradient` is with respect to that weight on entry, to the score on return.
  __device__ float differentiate(float& gradient, float score, bool is_attended, bool is_kept, float row_logsumexp,
                                 float row_delta) const {
    const float weight = is_attended ? expf(scale * score - row_logsumexp) : 0.0f;
    float result = weight;
    if (pattern.has_dropout) {
      gradient = is_kept ? gradient * pattern.keep_scale : 0.0f;
      result *= is_kept ? pattern.keep_scale : 0.0f;
    }
    gradient = weight * (gradient - row_delta);
    return result;
  }
};

// One warp per row.
__global__ void attention_delta_kernel(const Backward op, std::int64_t rows) {
  const std::int64_t row = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (row >= rows) return;  // the same for a whole warp
  const int h = static_cast<int>(row % op.out.heads), t = static_cast<int>(row / op.out.heads % op.out.rows);
  const int b = static_cast<int>(row / op.out.heads / op.out.rows);
  const Rows outs = op.out.tile(b, t, t + 1, h), douts = op.dout.tile(b, t, t + 1, h);
  const auto element = [](const Rows& of, int d) {
    return of.dtype == DType::f32 ? static_cast<const float*>(of.data)[d]
                                  : as_float(static_cast<const std::uint16_t*>(of.data)[d], of.dtype);
  };
  float sum = 0;
  for (int d = lane; d < op.out.width; d += 32) sum += element(outs, d) * element(douts, d);
  sum = reduce_lanes<32>(sum, [](float x, float y) { return x + y; });
  if (lane == 0) op.delta[(std::int64_t{b} * op.out.heads + h) * op.out.rows + t] = sum;
}

// Each block computes the gradients of 64 queries.
template <int kWidth>
__global__ void __launch_bounds__(Layout<kWidth>::kThreads, 1) attention_dquery_kernel(const Backward op) {
  using L = Layout<kWidth>;
  __shared__ Shared shared;
  Block<kWidth> block(shared);
  const QueryTile tile(op);
  const int b = tile.b, h = tile.head, t = tile.begin + L::row();
  const Rows queries = op.query.tile(b, tile.begin, op.query.rows, h);
  const Rows douts = op.dout.tile(b, tile.begin, op.query.rows, h);
  float logsumexp[4] = {}, delta[4] = {};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::int64_t at = (std::int64_t{b} * op.query.heads + h) * op.query.rows + t + i;
    if (t + i < op.query.rows) {
      logsumexp[i] = op.logsumexp[at];
      delta[i] = op.delta[at];
    }
  }
  typename L::Sums sums[L::kParts] = {};
#pragma unroll 1
  for (int first = 0; first < tile.last; first += kTile) {
    typename L::Sums scores, gradients;
    const Rows keys = op.key.tile(b, first, tile.last, h / op.group);
    block.scores(scores, queries, keys);
    block.scores(gradients, douts, op.value.tile(b, first, tile.last, h / op.group));
    const auto attended = tile.attended<kWidth>(op, first);
    const auto kept = op.pattern.has_dropout ? tile.kept<kWidth>(op, first) : Bits<kWidth>();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < L::kColumns; ++j) {
        op.differentiate(gradients[i][j], scores[i][j], attended.at(i, j), kept.at(i, j), logsumexp[i], delta[i]);
      }
    }
    block.set_weights(gradients);
    block.add_products(sums, keys);
  }
  block.store(op.dquery, sums, b, tile.begin, h, [&](int, float sum) { return op.scale * sum; });
}

// Each block computes the gradients of 64 keys and their values.
template <int kWidth>
__global__ void __launch_bounds__(Layout<kWidth>::kThreads, 1) attention_dkey_kernel(const Backward op) {
  using L = Layout<kWidth>;
  __shared__ Shared shared;
  Block<kWidth> block(shared);
  const Site site(tiles_of(op.key.rows), op.key.heads);
  const int b = site.b, first = site.tile * kTile;
  const int length = static_cast<int>(op.pattern.length(b));

  const Rows keys = op.key.tile(b, first, length, site.head), values = op.value.tile(b, first, length, site.head);
  typename L::Sums dkeys[L::kParts] = {}, dvalues[L::kParts] = {};
#pragma unroll 1
  for (int h = site.head * op.group; h < (site.head + 1) * op.group; ++h) {
#pragma unroll 1
    for (int t = 0; t < op.query.rows; t += kTile) {
      if (op.last_end(t, length) <= first) continue;
      typename L::Sums scores, gradients;
      const Rows queries = op.query.tile(b, t, op.query.rows, h), douts = op.dout.tile(b, t, op.query.rows, h);
      block.scores(scores, keys, queries);
      block.scores(gradients, values, douts);
      Bits<kWidth> attended, kept;
      if (!op.attends_to_all(t, first, length)) {
        attended = Bits<kWidth>([&](int row, int column) { return op.attends(b, h, t + column, first + row, length); });
      }
      if (op.pattern.has_dropout) {
        kept = Bits<kWidth>([&](int row, int column) { return op.keeps(b, h, t + column, first + row); });
      }
#pragma unroll
      for (int j = 0; j < L::kColumns; ++j) {
        const int query = t + L::column(j);
        const std::int64_t at = (std::int64_t{b} * op.query.heads + h) * op.query.rows + query;
        const bool exists = query < op.query.rows;
        const float logsumexp = exists ? op.logsumexp[at] : 0.0f, delta = exists ? op.delta[at] : 0.0f;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          scores[i][j] =
              op.differentiate(gradients[i][j], scores[i][j], attended.at(i, j), kept.at(i, j), logsumexp, delta);
        }
      }
      block.set_weights(scores);
      block.add_products(dvalues, douts);
      __syncthreads();  // all threads have read the weights
      block.set_weights(gradients);
      block.add_products(dkeys, queries);
    }
  }
  block.store(op.dkey, dkeys, b, first, site.head, [&](int, float sum) { return op.scale * sum; });
  block.store(op.dvalue, dvalues, b, first, site.head, [](int, float sum) { return sum; });
}

}  // namespace
}  // namespace attention

void run(const ops::AttentionBackward& op, const Stream& stream) {
  using namespace attention;
  const ops::AttentionHeads heads = op.heads(), gradients = op.gradients();
  if (gradients.query && gradients.key) {
    const GraphArrays arrays{{GraphArray::out, op.out.raw()},          {GraphArray::logsumexp, op.logsumexp.raw()},
                             {GraphArray::dout, op.dout.raw()},        {GraphArray::dquery, gradients.query.data()},
                             {GraphArray::dkey, gradients.key.data()}, {GraphArray::dvalue, gradients.value.data()}};
    if (run_with_cudnn(op, AttentionGraph::Result::gradients, arrays, stream)) return;
  }
  const std::int64_t rows = op.logsumexp.count();
  const Temporary delta(DType::f32, {rows}, stream);
  const Backward backward(op, delta.data<float>());
  constexpr int kRowsOfBlock = 4;
  attention_delta_kernel<<<blocks_for(rows, kRowsOfBlock), 32 * kRowsOfBlock, 0, handle(stream)>>>(backward, rows);
  check_launch("attention_delta_kernel");
  with_width(op.out.shape()[3], [&]<int kWidth>(std::integral_constant<int, kWidth>) {
    constexpr int kThreads = Layout<kWidth>::kThreads;
    if (gradients.query) {
      attention_dquery_kernel<kWidth><<<blocks_of(heads.query), kThreads, 0, handle(stream)>>>(backward);
      check_launch("attention_dquery_kernel");
    }
    if (gradients.key) {
      attention_dkey_kernel<kWidth><<<blocks_of(heads.key), kThreads, 0, handle(stream)>>>(backward);
      check_launch("attention_dkey_kernel");
    }
  });
}

}  // namespace giro::cuda
