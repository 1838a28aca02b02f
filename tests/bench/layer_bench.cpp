// The cost of attention and of layers in f32 on the CPU, forward and backward, on OMP_NUM_THREADS threads or one, and
// the peak of the processor's fma instructions. layer_peers.py times the same in PyTorch and JAX.

#include <benchmark/benchmark.h>
#include <omp.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/layers.h>
#include <giro/kernels/nn/normalization.h>
#include <giro/kernels/nn/recurrent.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/loop/data/dataset.h>
#include <giro/loop/step/step.h>
#include <giro/runtime/buffer.h>
#include <giro/runtime/program/graph.h>
#include <giro/runtime/stream.h>

#include "kernels/cpu/tile_product.h"
#include "kernels/ops.h"

namespace giro::test {
namespace {

void use_one_thread_or_as_told() {
  if (std::getenv("OMP_NUM_THREADS") == nullptr) omp_set_num_threads(1);
}

// The arguments are B, T, H, D and whether it is causal.
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

// A loss, mean(y^2), and its gradients with respect to all parameters.
void gradients(benchmark::State& benchmark, const nn::Layer& layer, const Shape& shape) {
  use_one_thread_or_as_told();
  std::vector<float> x(static_cast<std::size_t>(shape.count()));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 37 % 1000) / 250 - 2;
  const auto data = Dataset({{"x", HostArray(std::move(x), shape)}}).batch(shape[0]);
  TrainState state = TrainState::create(layer, optim::sgd(0.1), {.inputs = data.spec(), .context = Device::cpu()});
  const auto step = jit([layer](TrainState& s, const Batch& batch) {
    const nn::Var loss =
        s.value_and_grad([&](const nn::Params& params) { return mean(square(layer(params, batch["x"]))); });
    return logs().add_metric("loss", loss);
  });
  const Batch batch = *data.to(Device::cpu()).begin();
  for (auto _ : benchmark) benchmark::DoNotOptimize(step(state, batch));
}
void lstm(benchmark::State& benchmark) {
  gradients(benchmark, nn::lstm(benchmark.range(2)), {benchmark.range(0), benchmark.range(1), benchmark.range(2)});
}
BENCHMARK(lstm)->Args({32, 64, 256})->Unit(benchmark::kMicrosecond);

// x + MLP(layer_norm(x)), with a hidden layer of four times the width and gelu.
void mlp_block(benchmark::State& benchmark) {
  const std::int64_t width = benchmark.range(1);
  const nn::Layer block = nn::residual(
      nn::sequential(nn::layer_norm(), nn::dense(4 * width, {.activation = Activation::gelu}), nn::dense(width)));
  gradients(benchmark, block, {benchmark.range(0), width});
}
BENCHMARK(mlp_block)->Args({1024, 768})->Unit(benchmark::kMicrosecond);

// Products of tiles that stay in the L1 cache: this machine's peak.
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
