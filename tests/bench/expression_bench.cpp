// The cost of expressions on the CPU, on OMP_NUM_THREADS threads or one: chains in cache and in memory, softmax,
// LayerNorm, sums, losses with their gradients, AdamW, and for comparison plain copies on one thread.
// expression_peers.py times the same in PyTorch and JAX.

#include <benchmark/benchmark.h>
#include <omp.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/kernels/optim/optimizer.h>
#include <giro/runtime/program/graph.h>
#include <giro/runtime/stream.h>

#include "kernels/expr/expression_op.h"
#include "kernels/rules/record.h"
#include "tests/kernels/expr/expressions.h"

namespace giro::test {
namespace {

std::shared_ptr<Memory> numbers(std::int64_t n, DType dtype = DType::f32) {
  auto memory = std::make_shared<Memory>(dtype, n);
  for (std::int64_t i = 0; i < n; ++i) memory->set(i, static_cast<double>(i * 37 % 1000) / 250 - 2);
  return memory;
}

void use_one_thread_or_as_told() {
  if (std::getenv("OMP_NUM_THREADS") == nullptr) omp_set_num_threads(1);
}

void replay(benchmark::State& state, const Builder& b, std::int64_t bytes) {
  use_one_thread_or_as_told();
  const Stream stream(Device::cpu());
  const Graph graph = Graph::record(stream, [&] { cpu::run(b.expression, stream); });
  for (auto _ : state) graph.replay(stream);
  state.SetBytesProcessed(state.iterations() * bytes);
}

// 20 functions of x and y.
Builder chain(std::int64_t n, DType dtype) {
  Builder b(Shape{n}, 0);
  const Layout flat = contiguous(Shape{n});
  std::uint16_t x = b.read(numbers(n, dtype), flat);
  const std::uint16_t y = b.read(numbers(n, dtype), flat);
  for (int k = 0; k < 5; ++k) {
    x = b.apply(test_multiply, x, b.constant(dtype, 0.9 + 0.01 * k));
    x = b.apply(test_add, x, y);
    x = b.apply(test_maximum, x, b.constant(dtype, -1.0 - 0.1 * k));
    x = b.apply(test_subtract, x, b.constant(dtype, 0.1 * k));
  }
  b.write(x);
  return b;
}
void chain_of_20(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  replay(state, chain(n, DType::f32), 12 * n);
}
BENCHMARK(chain_of_20)->Arg(1 << 16)->Arg(1 << 26)->Unit(benchmark::kMicrosecond);
void chain_of_20_bf16(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  replay(state, chain(n, DType::bf16), 6 * n);
}
BENCHMARK(chain_of_20_bf16)->Arg(1 << 16)->Unit(benchmark::kMicrosecond);

// x + y, limited only by memory.
void add(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  Builder b(Shape{n}, 0);
  const std::uint16_t x = b.read(numbers(n), contiguous(Shape{n})), y = b.read(numbers(n), contiguous(Shape{n}));
  b.write(b.apply(test_add, x, y));
  replay(state, b, 12 * n);
}
BENCHMARK(add)->Arg(1 << 26)->Unit(benchmark::kMicrosecond);

void gelu(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  Builder b(Shape{n}, 0);
  const std::uint16_t x = b.read(numbers(n), contiguous(Shape{n}));
  const std::uint16_t cube = b.apply(test_multiply, b.apply(test_multiply, x, x), x);
  const std::uint16_t inner = b.apply(test_add, x, b.apply(test_multiply, cube, b.constant(DType::f32, 0.044715)));
  const std::uint16_t t = b.apply(test_tanh, b.apply(test_multiply, inner, b.constant(DType::f32, 0.7978845608028654)));
  const std::uint16_t half = b.apply(test_multiply, x, b.constant(DType::f32, 0.5));
  b.write(b.apply(test_multiply, half, b.apply(test_add, t, b.constant(DType::f32, 1))));
  replay(state, b, 8 * n);
}
BENCHMARK(gelu)->Arg(1 << 16)->Arg(1 << 20)->Arg(1 << 26)->Unit(benchmark::kMicrosecond);

void softmax(benchmark::State& state) {
  const std::int64_t rows = state.range(0), n = state.range(1);
  const Shape shape{rows, n};
  Builder b(shape, 1);
  const std::uint16_t x = b.read(numbers(rows * n), contiguous(shape));
  const std::uint16_t e = b.apply(test_exp, b.apply(test_subtract, x, b.reduce(Combiner::max, x)));
  b.write(b.apply(test_multiply, e, b.apply(test_reciprocal, b.reduce(Combiner::sum, e))));
  replay(state, b, 8 * rows * n);
}
BENCHMARK(softmax)
    ->Args({64, 1024})
    ->Args({1024, 1024})
    ->Args({32, 10})
    ->Args({64, 32768})
    ->Args({16384, 1024})
    ->Unit(benchmark::kMicrosecond);

void layer_norm(benchmark::State& state) {
  const std::int64_t rows = state.range(0), n = state.range(1);
  const Shape shape{rows, n};
  Builder b(shape, 1);
  const std::uint16_t x = b.read(numbers(rows * n), contiguous(shape));
  const Layout of_columns = contiguous(shape, {true, false});
  const std::uint16_t scale = b.read(numbers(n), of_columns), offset = b.read(numbers(n), of_columns);
  const std::uint16_t factor = b.constant(DType::f32, 1.0 / static_cast<double>(n));
  const std::uint16_t mean = b.apply(test_multiply, b.reduce(Combiner::sum, x), factor);
  const std::uint16_t d = b.apply(test_subtract, x, mean);
  const std::uint16_t sum = b.reduce(Combiner::sum, b.apply(test_multiply, d, d));
  const std::uint16_t variance = b.apply(test_multiply, sum, factor);
  const std::uint16_t r = b.apply(test_rsqrt, b.apply(test_add, variance, b.constant(DType::f32, 1e-5)));
  b.write(b.apply(test_add, b.apply(test_multiply, b.apply(test_multiply, d, r), scale), offset));
  replay(state, b, 8 * rows * n);
}
BENCHMARK(layer_norm)->Args({128, 768})->Args({1024, 768})->Args({16384, 768})->Unit(benchmark::kMicrosecond);

// Computes the loss sum(f(inputs) dy) and its gradients with respect to the inputs. dy has the shape of the first
// input.
void with_gradients(benchmark::State& state, const std::vector<Shape>& shapes, std::int64_t bytes,
                    const std::function<nn::Var(const std::vector<nn::Var>&)>& f) {
  use_one_thread_or_as_told();
  const Stream stream(Device::cpu());
  std::vector<std::shared_ptr<Memory>> memory;
  const auto tensor = [&](const Shape& shape) {
    memory.push_back(numbers(shape.count()));
    return Tensor(memory.back()->tensor().raw(), DType::f32, shape, Device::cpu());
  };
  std::vector<nn::Var> inputs;
  for (const Shape& shape : shapes) inputs.push_back(nn::Var::parameter(tensor(shape), tensor(shape), stream));
  const nn::Var dy(tensor(shapes.front()), stream);
  const Graph graph = rules::record(stream, [&] { nn::backward(nn::sum(f(inputs) * dy)); });
  for (auto _ : state) graph.replay(stream);
  state.SetBytesProcessed(state.iterations() * bytes);
}
void gelu_gradient(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  with_gradients(state, {Shape{n}}, 12 * n, [](const std::vector<nn::Var>& in) { return nn::gelu(in[0]); });
}
BENCHMARK(gelu_gradient)->Arg(1 << 16)->Arg(1 << 20)->Unit(benchmark::kMicrosecond);
void layer_norm_gradient(benchmark::State& state) {
  const std::int64_t rows = state.range(0), n = state.range(1);
  with_gradients(state, {Shape{rows, n}, Shape{n}, Shape{n}}, 12 * rows * n, [](const std::vector<nn::Var>& in) {
    const nn::Var d = in[0] - nn::mean(in[0], {-1});
    return d * nn::rsqrt(nn::mean(nn::square(d), {-1}) + 1e-5) * in[1] + in[2];
  });
}
BENCHMARK(layer_norm_gradient)->Args({128, 768})->Args({1024, 768})->Args({16384, 768})->Unit(benchmark::kMicrosecond);

void sum_of(benchmark::State& state, const Shape& shape, const Layout& layout, std::size_t reduced) {
  Builder b(shape, reduced);
  b.write(b.reduce(Combiner::sum, b.read(numbers(shape.count()), layout)), true);
  replay(state, b, 4 * shape.count());
}
void sum_of_rows(benchmark::State& state) { sum_of(state, Shape{1024, 1024}, contiguous(Shape{1024, 1024}), 1); }
BENCHMARK(sum_of_rows)->Unit(benchmark::kMicrosecond);
void sum_of_columns(benchmark::State& state) {
  Layout transposed;
  transposed.strides = {1, 1024};
  sum_of(state, Shape{1024, 1024}, transposed, 1);
}
BENCHMARK(sum_of_columns)->Unit(benchmark::kMicrosecond);
void sum_of_all(benchmark::State& state) { sum_of(state, Shape{1 << 26}, contiguous(Shape{1 << 26}), 1); }
BENCHMARK(sum_of_all)->Unit(benchmark::kMicrosecond);

// relu(x + b) over a small batch, as is frequent in a step.
void small(benchmark::State& state) {
  const Shape shape{32, 10};
  Builder b(shape, 0);
  const std::uint16_t x = b.read(numbers(320), contiguous(shape));
  const std::uint16_t bias = b.read(numbers(10), contiguous(shape, {true, false}));
  b.write(b.apply(test_maximum, b.apply(test_add, x, bias), b.constant(DType::f32, 0)));
  replay(state, b, 8 * 320);
}
BENCHMARK(small);

// Leaves with and without weight decay, like a model's weights and biases.
void adamw(benchmark::State& state) {
  const std::int64_t granule = optim::UpdateTensors::kGranule, granules = (state.range(0) + granule - 1) / granule;
  const std::int64_t n = granules * granule;
  const auto params = numbers(n), grads = numbers(n), mu = numbers(n), nu = std::make_shared<Memory>(DType::f32, n);
  const auto decays = std::make_shared<Memory>(DType::u8, granules), step = std::make_shared<Memory>(DType::i64, 1),
             rate = std::make_shared<Memory>(DType::f32, 1);
  for (std::int64_t i = 0; i < n; ++i) nu->set(i, 0.001);
  for (std::int64_t i = 0; i < granules; ++i) decays->set(i, i % 50 != 0);
  step->set(0, 100);
  const Tensor scalar_step(step->tensor().raw(), DType::i64, Shape{}, Device::cpu());
  const Tensor scalar_rate(rate->tensor().raw(), DType::f32, Shape{}, Device::cpu());
  use_one_thread_or_as_told();
  const Stream stream(Device::cpu());
  const Graph graph = Graph::record(stream, [&] {
    optim::update(optim::adamw(1e-3, {.weight_decay = 0.01}),
                  {.params = params->tensor(),
                   .grads = grads->tensor(),
                   .moments = {{"mu", mu->tensor()}, {"nu", nu->tensor()}},
                   .decays = decays->tensor(),
                   .step = scalar_step,
                   .learning_rate = scalar_rate},
                  stream);
  });
  for (auto _ : state) graph.replay(stream);
  state.SetBytesProcessed(state.iterations() * 28 * n);
}
BENCHMARK(adamw)->Arg(16)->Arg(7850)->Arg(124'000'000)->Unit(benchmark::kMicrosecond);

void copy(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  const auto x = numbers(state.range(0)), y = numbers(state.range(0));
  for (auto _ : state) {
    std::memcpy(y->tensor().raw(), x->tensor().raw(), 4 * n);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * 8 * state.range(0));
}
BENCHMARK(copy)->Arg(1 << 16)->Arg(1 << 26)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace giro::test
