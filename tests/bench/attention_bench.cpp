// The cost of attention on the CPU, forward and backward, of f32, on one thread or as many as OMP_NUM_THREADS says, and
// what the processor's fma instructions can do at most. attention_peers.py times the same in PyTorch and JAX.

#include <benchmark/benchmark.h>
#include <omp.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <vector>

#include <giro/runtime/buffer.h>
#include <giro/runtime/graph.h>
#include <giro/runtime/stream.h>

#include "kernels/cpu/tile_product.h"
#include "kernels/internal/ops.h"

namespace giro::test {
namespace {

void use_one_thread_or_as_told() {
  if (std::getenv("OMP_NUM_THREADS") == nullptr) omp_set_num_threads(1);
}

// B, T, H, D, whether causal.
void attention(benchmark::State& state) {
  use_one_thread_or_as_told();
  const Shape shape{state.range(0), state.range(1), state.range(2), state.range(3)};
  std::vector<Buffer> memory;
  const auto numbers = [&](const Shape& of) {
    memory.push_back(Buffer::allocate(Device::cpu(), static_cast<std::size_t>(of.count()) * sizeof(float)));
    const Tensor made(memory.back().data(), DType::f32, of, Device::cpu());
    for (std::int64_t i = 0; i < of.count(); ++i) made.data<float>()[i] = static_cast<float>(i * 37 % 1000) / 250 - 2;
    return made;
  };
  const Tensor query = numbers(shape), key = numbers(shape), value = numbers(shape), dout = numbers(shape);
  const Tensor out = numbers(shape), logsumexp = numbers({shape[0], shape[2], shape[1]});
  const Tensor dquery = numbers(shape), dkey = numbers(shape), dvalue = numbers(shape);
  ops::AttentionOptions options{.scale = 1 / std::sqrt(static_cast<double>(shape[3]))};
  options.is_causal = state.range(4) != 0;
  const Stream stream(Device::cpu());
  const Graph graph = Graph::record(stream, [&] {
    queue(ops::Attention{out, logsumexp, query, key, value, options}, stream);
    queue(ops::AttentionBackward{dquery, dkey, dvalue, dout, out, logsumexp, query, key, value, options}, stream);
  });
  for (auto _ : state) graph.replay(stream);
  const double products = 7 * 2 * static_cast<double>(shape.count() * shape[1]) * (options.is_causal ? 0.5 : 1);
  state.counters["FLOP/s"] = benchmark::Counter(products, benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(attention)
    ->Args({4, 256, 12, 64, 0})
    ->Args({4, 256, 12, 64, 1})
    ->Args({1, 1024, 12, 64, 1})
    ->Args({2, 512, 8, 128, 0})
    ->Unit(benchmark::kMicrosecond);

// Products of tiles that stay in the first cache: what this machine reaches at most.
void tile_product(benchmark::State& state) {
  constexpr std::int64_t kSize = 64;
  std::vector<float> out(kSize * kSize), left(kSize * kSize, 0.5f), right(kSize * kSize, 0.25f);
  const cpu::TileProduct product{out.data(), kSize, left.data(), kSize, 1,    right.data(),
                                 kSize,      kSize, kSize,       kSize, false};
  for (auto _ : state) {
    cpu::tile_products().multiply(product);
    benchmark::ClobberMemory();
  }
  state.counters["FLOP/s"] =
      benchmark::Counter(2.0 * kSize * kSize * kSize, benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(tile_product);

}  // namespace
}  // namespace giro::test
