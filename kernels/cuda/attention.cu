#include "kernels/functors/attention.h"

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/best_plan.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/tiled_product.cuh"
#include "kernels/functors/storage.h"
#include "kernels/internal/ops.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/stream.h"

// In tiles of 64 queries and 64 keys, in true f32. A thread has 4 rows of a tile, and 4 or 8 columns: quads of
// neighbours. Both operands of a product are in shared memory, term after term.
namespace giro::cuda {
namespace {

using functors::Attending;

constexpr int kTile = 64, kQuadsOfTile = kTile / 4;
constexpr int kDepth = 32;          // terms of scores that are in shared memory at a time
constexpr int kStride = kTile + 4;  // keeps quads aligned, and lets two quads of 16 rows fall into different banks
constexpr unsigned int kAllLanes = 0xffffffffu;

// How the threads of a block share a tile, for heads of up to kWidth numbers.
template <int kWidth>
struct Layout {
  static constexpr int kAcross = kWidth <= 64 ? 8 : 16;  // threads that share 4 rows: neighbours in a warp
  static constexpr int kThreads = kTile / 4 * kAcross;
  static constexpr int kColumns = kTile / kAcross;
  static constexpr int kParts = kWidth / kTile;  // tiles of a head's numbers

  using Sums = float[4][kColumns];

  __device__ static int row() { return static_cast<int>(threadIdx.x) / kAcross * 4; }
  __device__ static int column(int j) {
    return static_cast<int>(threadIdx.x) % kAcross * 4 + j / 4 * kAcross * 4 + j % 4;
  }
};

union alignas(16) Operands {
  struct {
    float left[kDepth][kStride], right[kDepth][kStride];
  } scores;
  float rows[kTile][kStride];
};
struct Shared {
  Operands operands;
  float weights[kTile][kStride];  // of a tile: [column][row]
};

// Rows of one head.
struct Rows {
  const void* data;
  DType dtype;
  bool in_quads;
  int count, stride, width;
};

// One of the op's arrays, (B, rows, heads, width).
struct Array {
  void* data;
  DType dtype;
  bool in_quads;
  int rows, heads, width;

  explicit Array(const Tensor& tensor)
      : data(tensor ? tensor.raw() : nullptr),
        dtype(tensor.dtype()),
        in_quads(tensor && cuda::in_quads(tensor, tensor.shape()[3])),
        rows(tensor ? static_cast<int>(tensor.shape()[1]) : 0),
        heads(tensor ? static_cast<int>(tensor.shape()[2]) : 0),
        width(tensor ? static_cast<int>(tensor.shape()[3]) : 0) {}

  __device__ std::int64_t at(int b, int row, int head) const {
    return ((std::int64_t{b} * rows + row) * heads + head) * width;
  }
  // Rows from number `first` on, `end` at most.
  __device__ Rows tile(int b, int first, int end, int head) const {
    const std::int64_t offset = at(b, first, head) * (dtype == DType::f32 ? 4 : 2);
    return {static_cast<const char*>(data) + offset, dtype, in_quads, end - first, heads * width, width};
  }
  __device__ void store(std::int64_t at, float value) const {
    if (dtype == DType::bf16) {
      static_cast<BFloat16*>(data)[at] = BFloat16(value);
    } else if (dtype == DType::f16) {
      static_cast<Float16*>(data)[at] = Float16(value);
    } else {
      static_cast<float*>(data)[at] = value;
    }
  }
};

__device__ float as_float(float x, DType) { return x; }
__device__ float as_float(std::uint16_t bits, DType dtype) {
  if (dtype == DType::bf16) return __uint_as_float(static_cast<std::uint32_t>(bits) << 16);
  Float16 x;
  x.bits = bits;
  return x;
}

// Calls store(number, quad) for kLoads quads of elements, of which place(number) tells row and column. Elements that do
// not exist are 0.
template <int kLoads, class T, class Place, class Store>
__device__ void load_as(const Rows& rows, const Place& place, const Store& store) {
  Quad<T> loaded[kLoads];
#pragma unroll
  for (int load = 0; load < kLoads; ++load) {
    const auto [row, column] = place(load);
    const T* const from = static_cast<const T*>(rows.data) + row * rows.stride + column;
    loaded[load] = {};
    if (rows.in_quads) {
      if (row < rows.count && column < rows.width) loaded[load] = *reinterpret_cast<const Quad<T>*>(from);
    } else {
      for (int i = 0; i < 4; ++i) {
        if (row < rows.count && column + i < rows.width) loaded[load].element[i] = from[i];
      }
    }
  }
#pragma unroll
  for (int load = 0; load < kLoads; ++load) {
    Quad<float> quad;
#pragma unroll
    for (int i = 0; i < 4; ++i) quad.element[i] = as_float(loaded[load].element[i], rows.dtype);
    store(load, quad);
  }
}
template <int kLoads, class Place, class Store>
__device__ void load(const Rows& rows, const Place& place, const Store& store) {
  if (rows.dtype == DType::f32) {
    load_as<kLoads, float>(rows, place, store);
  } else {
    load_as<kLoads, std::uint16_t>(rows, place, store);
  }
}

struct Place {
  int row, column;
};

__device__ Quad<float>& quad_at(float& element) { return reinterpret_cast<Quad<float>&>(element); }

// sums += the product of kTerms terms.
template <int kTerms, int kColumns>
__device__ void multiply(float (&sums)[4][kColumns], float (*left)[kStride], float (*right)[kStride], int row,
                         const int (&columns)[kColumns / 4]) {
#pragma unroll 8
  for (int term = 0; term < kTerms; ++term) {
    const Quad<float> down = quad_at(left[term][row]);
#pragma unroll
    for (int quad = 0; quad < kColumns / 4; ++quad) {
      const Quad<float> across = quad_at(right[term][columns[quad]]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) sums[i][quad * 4 + j] += down.element[i] * across.element[j];
      }
    }
  }
}

template <int kWidth>
class Block : public Layout<kWidth> {
 public:
  using L = Layout<kWidth>;
  using typename L::Sums;

  __device__ explicit Block(Shared& shared) : shared_(shared) {
#pragma unroll
    for (int quad = 0; quad < L::kColumns / 4; ++quad) columns_[quad] = L::column(4 * quad);
  }

  // scores[i][j] = the product of row i of `left` and row j of `right`.
  __device__ void scores(Sums& sums, const Rows& left, const Rows& right) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < L::kColumns; ++j) sums[i][j] = 0;
    }
#pragma unroll 1
    for (int from = 0; from < left.width; from += kDepth) {
      __syncthreads();  // the operands before have been used
      load_terms(shared_.operands.scores.left, left, from);
      load_terms(shared_.operands.scores.right, right, from);
      __syncthreads();
      multiply<kDepth>(sums, shared_.operands.scores.left, shared_.operands.scores.right, L::row(), columns_);
    }
  }

  // Puts a tile where add_products finds it.
  __device__ void set_weights(const Sums& tile) {
#pragma unroll
    for (int j = 0; j < L::kColumns; ++j) {
      quad_at(shared_.weights[L::column(j)][L::row()]) = {tile[0][j], tile[1][j], tile[2][j], tile[3][j]};
    }
  }

  // sums += the tile times rows as they are.
  __device__ void add_products(Sums (&sums)[L::kParts], const Rows& rows) {
#pragma unroll
    for (int part = 0; part < L::kParts; ++part) {
      if (part * kTile >= rows.width) break;
      __syncthreads();  // the operands before have been used
      constexpr int kLoads = 4;
#pragma unroll 1
      for (int first = 0; first < kTile * kQuadsOfTile; first += kLoads * L::kThreads) {
        const auto place = [&](int load) {
          const int i = first + static_cast<int>(threadIdx.x) + load * L::kThreads;
          return Place{i / kQuadsOfTile, part * kTile + i % kQuadsOfTile * 4};
        };
        load<kLoads>(rows, place, [&](int load, const Quad<float>& quad) {
          const Place to = place(load);
          quad_at(shared_.operands.rows[to.row][to.column - part * kTile]) = quad;
        });
      }
      __syncthreads();
      multiply<kTile>(sums[part], shared_.weights, shared_.operands.rows, L::row(), columns_);
    }
  }

  // Stores factor(i) times row i of the sums as rows from number `first` on of a head.
  template <class Factor>
  __device__ void store(const Array& to, const Sums (&sums)[L::kParts], int b, int first, int head,
                        const Factor& factor) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = first + L::row() + i;
      if (row >= to.rows) break;
      const std::int64_t at = to.at(b, row, head);
#pragma unroll
      for (int part = 0; part < L::kParts; ++part) {
#pragma unroll
        for (int j = 0; j < L::kColumns; ++j) {
          const int column = part * kTile + L::column(j);
          if (column < to.width) to.store(at + column, factor(i, sums[part][i][j]));
        }
      }
    }
  }

 private:
  __device__ void load_terms(float (&terms)[kDepth][kStride], const Rows& rows, int from) {
    const auto place = [&](int load) {
      const int i = static_cast<int>(threadIdx.x) + load * L::kThreads;
      return Place{i / 2 % kTile, from + (i / (2 * kTile) * 2 + i % 2) * 4};
    };
    load<kTile * kDepth / 4 / L::kThreads>(rows, place, [&](int load, const Quad<float>& quad) {
      const Place to = place(load);
#pragma unroll
      for (int i = 0; i < 4; ++i) terms[to.column - from + i][to.row] = quad.element[i];
    });
  }

  Shared& shared_;
  int columns_[L::kColumns / 4];
};

// Over the threads that share rows.
template <int kAcross, class Join>
__device__ float joined(float value, const Join& join) {
#pragma unroll
  for (int offset = kAcross / 2; offset > 0; offset /= 2) {
    value = join(value, __shfl_xor_sync(kAllLanes, value, offset));
  }
  return value;
}

struct Common {
  Array query, key, value;
  Attending attending;
  float scale;
  int group;  // query heads for each head of keys

  template <class Op>
  explicit Common(const Op& op)
      : query(op.query),
        key(op.key),
        value(op.value),
        attending(op.query.shape(), op.key.shape()[1], op.options),
        scale(static_cast<float>(op.options.scale)),
        group(static_cast<int>(op.query.shape()[2] / op.key.shape()[2])) {}

  // Whether all of the tile's queries, from t on, attend to all of its keys, from s on.
  __device__ bool attends_to_all(int t, int s, int length) const {
    return attending.mask == nullptr && s + kTile <= length && s + kTile <= attending.end(t, length);
  }
  __device__ bool attends(int b, int h, int t, int s, int length) const {
    return t < query.rows && s < length && s < attending.end(t, length) &&
           (attending.mask == nullptr || attending.mask_row(b, h, t)[s * attending.mask_of_s]);
  }
  // One past the last key of queries [t, t + kTile).
  __device__ int last_end(int t, int length) const {
    return static_cast<int>(min(std::int64_t{length}, attending.end(min(t + kTile, query.rows) - 1, length)));
  }
  // Whether dropout keeps a weight.
  __device__ bool keeps(int b, int h, int t, int s) const {
    const auto place = static_cast<std::uint64_t>(attending.place(b, h, t) + s);
    const Rng rng{static_cast<std::uint64_t>(attending.key_of_dropout()), RngPurpose::draw};
    const PhiloxBlock block = rng.block(place / 4);
    const std::uint32_t low = place % 2 == 0 ? block.word[0] : block.word[1];
    const std::uint32_t high = place % 2 == 0 ? block.word[2] : block.word[3];
    const float uniform = static_cast<float>((place % 4 < 2 ? low : high) >> 8) * 0x1p-24f;
    return uniform < attending.kept_below;
  }
};

// One bit for each element of a thread's tile: is(row, column). A loop that is not unrolled has few registers.
template <int kWidth>
class Bits {
 public:
  __device__ Bits() : bits_(0xffffffffu) {}
  template <class Is>
  __device__ explicit Bits(const Is& is) : bits_(0) {
#pragma unroll 1
    for (int n = 0; n < 4 * kColumns; ++n) {
      if (is(Layout<kWidth>::row() + n / kColumns, Layout<kWidth>::column(n % kColumns))) bits_ |= 1u << n;
    }
  }
  __device__ bool at(int i, int j) const { return (bits_ >> (i * kColumns + j) & 1u) != 0; }

 private:
  static constexpr int kColumns = Layout<kWidth>::kColumns;
  unsigned int bits_;
};

struct Forward : Common {
  Array out;
  float* logsumexp;  // or null
  explicit Forward(const ops::Attention& op)
      : Common(op), out(op.out), logsumexp(op.logsumexp ? op.logsumexp.data<float>() : nullptr) {}
};

// Where a block works, for `tiles` of a head. The last queries, which have the most keys if causal, come first.
struct Site {
  int tile, head, b;
  __device__ Site(int tiles, int heads)
      : tile(tiles - 1 - static_cast<int>(blockIdx.x) % tiles),
        head(static_cast<int>(blockIdx.x) / tiles % heads),
        b(static_cast<int>(blockIdx.x) / tiles / heads) {}
};

__device__ int tiles_of(int rows) { return (rows + kTile - 1) / kTile; }

// A block has 64 queries.
template <int kWidth>
__global__ void __launch_bounds__(Layout<kWidth>::kThreads, 1) attention_kernel(const Forward op) {
  using L = Layout<kWidth>;
  __shared__ Shared shared;
  Block<kWidth> block(shared);
  const Site site(tiles_of(op.query.rows), op.query.heads);
  const int b = site.b, h = site.head, t = site.tile * kTile + L::row();
  const int length = static_cast<int>(op.attending.length(b)), last = op.last_end(site.tile * kTile, length);

  const Rows queries = op.query.tile(b, site.tile * kTile, op.query.rows, h);
  typename L::Sums sums[L::kParts] = {};
  float largest[4], totals[4] = {};
  for (float& m : largest) m = -INFINITY;
#pragma unroll 1
  for (int first = 0; first < last; first += kTile) {
    typename L::Sums scores;
    block.scores(scores, queries, op.key.tile(b, first, last, h / op.group));
    Bits<kWidth> attended;
    if (!op.attends_to_all(site.tile * kTile, first, length)) {
      attended = Bits<kWidth>(
          [&](int row, int column) { return op.attends(b, h, site.tile * kTile + row, first + column, length); });
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float m = largest[i];
#pragma unroll
      for (int j = 0; j < L::kColumns; ++j) {
        float& score = scores[i][j];
        score = attended.at(i, j) ? op.scale * score : -INFINITY;
        m = fmaxf(m, score);  // ignores NaN, but the sum does not
      }
      m = joined<L::kAcross>(m, [](float x, float y) { return fmaxf(x, y); });
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
    if (op.attending.has_dropout) {
      const Bits<kWidth> kept(
          [&](int row, int column) { return op.keeps(b, h, site.tile * kTile + row, first + column); });
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < L::kColumns; ++j) scores[i][j] *= kept.at(i, j) ? op.attending.kept_factor : 0.0f;
      }
    }
    block.set_weights(scores);
    block.add_products(sums, op.value.tile(b, first, last, h / op.group));
  }

  bool has_key[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    totals[i] = joined<L::kAcross>(totals[i], [](float x, float y) { return x + y; });
    has_key[i] =
        totals[i] != 0 || (t + i < op.query.rows && op.attending.has_key(b, h, t + i, op.attending.end(t + i, length)));
    if (op.logsumexp != nullptr && threadIdx.x % L::kAcross == 0 && t + i < op.query.rows) {
      op.logsumexp[(std::int64_t{b} * op.query.heads + h) * op.query.rows + t + i] =
          has_key[i] ? largest[i] + logf(totals[i]) : INFINITY;
    }
  }
  block.store(op.out, sums, b, site.tile * kTile, h,
              [&](int i, float sum) { return has_key[i] ? sum / totals[i] : 0.0f; });
}

struct Backward : Common {
  Array dout, out, dquery, dkey, dvalue;
  const float* logsumexp;
  float* delta;  // (B, H, T): the sums of dout * out

  Backward(const ops::AttentionBackward& op, float* delta)
      : Common(op),
        dout(op.dout),
        out(op.out),
        dquery(op.dquery),
        dkey(op.dkey),
        dvalue(op.dvalue),
        logsumexp(op.logsumexp.data<float>()),
        delta(delta) {}

  // Turns a score into its weight, and the gradient with respect to the weight into the one with respect to the score.
  // Returns the weight after dropout.
  __device__ float differentiate(float& gradient, float score, bool is_attended, bool is_kept, float row_logsumexp,
                                 float row_delta) const {
    const float weight = is_attended ? expf(scale * score - row_logsumexp) : 0.0f;
    float result = weight;
    if (attending.has_dropout) {
      gradient = is_kept ? gradient * attending.kept_factor : 0.0f;
      result *= is_kept ? attending.kept_factor : 0.0f;
    }
    gradient = weight * (gradient - row_delta);
    return result;
  }
};

// A warp has a row.
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
  sum = joined<32>(sum, [](float x, float y) { return x + y; });
  if (lane == 0) op.delta[(std::int64_t{b} * op.out.heads + h) * op.out.rows + t] = sum;
}

// A block has the gradients of 64 queries.
template <int kWidth>
__global__ void __launch_bounds__(Layout<kWidth>::kThreads, 1) attention_dquery_kernel(const Backward op) {
  using L = Layout<kWidth>;
  __shared__ Shared shared;
  Block<kWidth> block(shared);
  const Site site(tiles_of(op.query.rows), op.query.heads);
  const int b = site.b, h = site.head, t = site.tile * kTile + L::row();
  const int length = static_cast<int>(op.attending.length(b)), last = op.last_end(site.tile * kTile, length);

  const Rows queries = op.query.tile(b, site.tile * kTile, op.query.rows, h);
  const Rows douts = op.dout.tile(b, site.tile * kTile, op.query.rows, h);
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
  for (int first = 0; first < last; first += kTile) {
    typename L::Sums scores, gradients;
    const Rows keys = op.key.tile(b, first, last, h / op.group);
    block.scores(scores, queries, keys);
    block.scores(gradients, douts, op.value.tile(b, first, last, h / op.group));
    Bits<kWidth> attended, kept;
    if (!op.attends_to_all(site.tile * kTile, first, length)) {
      attended = Bits<kWidth>(
          [&](int row, int column) { return op.attends(b, h, site.tile * kTile + row, first + column, length); });
    }
    if (op.attending.has_dropout) {
      kept = Bits<kWidth>([&](int row, int column) { return op.keeps(b, h, site.tile * kTile + row, first + column); });
    }
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
  block.store(op.dquery, sums, b, site.tile * kTile, h, [&](int, float sum) { return op.scale * sum; });
}

// A block has the gradients of 64 keys and their values.
template <int kWidth>
__global__ void __launch_bounds__(Layout<kWidth>::kThreads, 1) attention_dkey_kernel(const Backward op) {
  using L = Layout<kWidth>;
  __shared__ Shared shared;
  Block<kWidth> block(shared);
  const Site site(tiles_of(op.key.rows), op.key.heads);
  const int b = site.b, first = site.tile * kTile;
  const int length = static_cast<int>(op.attending.length(b));

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
      if (op.attending.has_dropout) {
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
      __syncthreads();  // the weights have been used
      block.set_weights(gradients);
      block.add_products(dkeys, queries);
    }
  }
  block.store(op.dkey, dkeys, b, first, site.head, [&](int, float sum) { return op.scale * sum; });
  block.store(op.dvalue, dvalues, b, first, site.head, [](int, float sum) { return sum; });
}

template <class F>
void with_width(std::int64_t width, F&& f) {
  width <= 64    ? f(std::integral_constant<int, 64>{})
  : width <= 128 ? f(std::integral_constant<int, 128>{})
                 : f(std::integral_constant<int, 256>{});
}

unsigned int blocks_of(const Tensor& rows) {
  const Shape& shape = rows.shape();
  return blocks_for(shape[0] * shape[2] * ((shape[1] + kTile - 1) / kTile), 1);
}

// Whether cuDNN may be asked for it. It has masks and dropout of its own, with other numbers.
template <class Op>
bool may_be_by_cudnn(const Op& op) {
  const ops::AttentionOptions& options = op.options;
  return is_16_bit(op.query.dtype()) && op.key.count() > 0 && options.dropout == 0 && !options.mask &&
         !options.key_lengths;
}

template <class Op>
AttentionGraph graph_of(const Op& op, AttentionGraph::Result result) {
  return {result, op.query.shape(), op.key.shape(), op.query.dtype(), op.options.scale, op.options.is_causal};
}

}  // namespace

void run(const ops::Attention& op, const Stream& stream) {
  if (op.out.count() == 0) return;
  if (may_be_by_cudnn(op)) {
    using Result = AttentionGraph::Result;
    GraphArrays arrays{{GraphArray::query, op.query.raw()},
                       {GraphArray::key, op.key.raw()},
                       {GraphArray::value, op.value.raw()},
                       {GraphArray::out, op.out.raw()}};
    if (op.logsumexp) arrays.emplace_back(GraphArray::logsumexp, op.logsumexp.raw());
    if (!run_best_plan(graph_of(op, op.logsumexp ? Result::out_and_logsumexp : Result::out), arrays, stream)) return;
  }
  with_width(op.query.shape()[3], [&]<int kWidth>(std::integral_constant<int, kWidth>) {
    attention_kernel<kWidth><<<blocks_of(op.query), Layout<kWidth>::kThreads, 0, handle(stream)>>>(Forward(op));
    check_launch("attention_kernel");
  });
}

void run(const ops::AttentionBackward& op, const Stream& stream) {
  if (op.query.count() == 0 || op.key.count() == 0) {
    for (const Tensor& zeros : {Tensor(op.dquery), Tensor(op.dkey), Tensor(op.dvalue)}) {
      if (zeros) stream.fill(zeros.raw(), 0, zeros.bytes());
    }
    return;
  }
  if (may_be_by_cudnn(op) && op.dquery && op.dkey) {
    const GraphArrays arrays{{GraphArray::query, op.query.raw()},         {GraphArray::key, op.key.raw()},
                             {GraphArray::value, op.value.raw()},         {GraphArray::out, op.out.raw()},
                             {GraphArray::logsumexp, op.logsumexp.raw()}, {GraphArray::dout, op.dout.raw()},
                             {GraphArray::dquery, op.dquery.raw()},       {GraphArray::dkey, op.dkey.raw()},
                             {GraphArray::dvalue, op.dvalue.raw()}};
    if (!run_best_plan(graph_of(op, AttentionGraph::Result::gradients), arrays, stream)) return;
  }
  const std::int64_t rows = op.logsumexp.count();
  const Buffer delta = stream.allocate(static_cast<std::size_t>(rows) * sizeof(float));
  const Backward backward(op, static_cast<float*>(delta.data()));
  constexpr int kRowsOfBlock = 4;
  attention_delta_kernel<<<blocks_for(rows, kRowsOfBlock), 32 * kRowsOfBlock, 0, handle(stream)>>>(backward, rows);
  check_launch("attention_delta_kernel");
  with_width(op.query.shape()[3], [&]<int kWidth>(std::integral_constant<int, kWidth>) {
    constexpr int kThreads = Layout<kWidth>::kThreads;
    if (op.dquery) {
      attention_dquery_kernel<kWidth><<<blocks_of(op.query), kThreads, 0, handle(stream)>>>(backward);
      check_launch("attention_dquery_kernel");
    }
    if (op.dkey) {
      attention_dkey_kernel<kWidth><<<blocks_of(op.key), kThreads, 0, handle(stream)>>>(backward);
      check_launch("attention_dkey_kernel");
    }
  });
}

}  // namespace giro::cuda
