// Writes the parameters after ten steps of each of giro's optimizers and learning rates with given gradients, one line
// of JSON each: write_optimizers DEVICE. optimizers_test.py reads them.

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <giro/kernels/optim/optimizer.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/runtime/program/graph.h>

#include "kernels/rules/record.h"
#include "tests/kernels/written.h"

namespace giro::optim {
namespace {

constexpr int kSteps = 10;

using Cases = std::vector<std::pair<std::string, Optimizer>>;

bool is_kernel(const std::string& path) { return path.ends_with("kernel"); }

Cases optimizers() {
  const LearningRate rate = warmup_cosine(0.05, 3, 6, 0.01, 0.002);
  return {
      {"sgd", sgd(rate)},
      {"sgd, momentum", sgd(rate, {.momentum = 0.9})},
      {"sgd, nesterov, weight decay",
       sgd(rate, {.momentum = 0.75, .nesterov = true, .weight_decay = 0.1, .decay_mask = is_kernel})},
      {"adam", adam(rate, {.b1 = 0.8, .b2 = 0.99, .eps = 1e-3})},
      {"adamw", adamw(rate, {.weight_decay = 0.1, .decay_mask = is_kernel})},
      {"lion", lion(rate, {.weight_decay = 0.1, .decay_mask = is_kernel})},
      {"rmsprop", rmsprop(rate, {.initial_scale = 0.5})},
      {"rmsprop, centered, nesterov",
       rmsprop(rate, {.decay = 0.8, .eps = 1e-2, .centered = true, .momentum = 0.5, .nesterov = true})},
      {"adagrad", adagrad(rate)},
      {"adafactor", adafactor(rate)},
      {"adafactor, factored, momentum, weight decay",
       adafactor(rate, {.min_dim_size_to_factor = 4, .momentum = 0.5, .weight_decay = 0.01, .decay_mask = is_kernel})},
      {"adafactor without scales",
       adafactor(rate, {.min_dim_size_to_factor = 4, .multiply_by_parameter_scale = false, .clipping_threshold = 0.5})},
      {"muon", muon(rate)},
      {"muon, weight decay",
       muon(rate, {.ns_steps = 3, .nesterov = false, .weight_decay = 0.1, .decay_mask = is_kernel})},
      {"clip_by_global_norm", clip_by_global_norm(2, adamw(rate))},
      {"clip_by_value", clip_by_value(0.25, sgd(rate, {.momentum = 0.9}))},
      {"lookahead", lookahead(adam(rate), 3, 0.25)},
      {"accumulate", accumulate(2, clip_by_global_norm(2, adam(rate)))},
      {"by_path", by_path({{"a/kernel", frozen()}, {"**/bias", sgd(rate)}, {"**", adamw(rate)}})},
  };
}

Cases learning_rates() {
  return {
      {"constant", sgd(0.1)},
      {"warmup", sgd(warmup(0.1, 4, 0.02))},
      {"cosine", sgd(cosine(0.1, 7, 0.01))},
      {"linear", sgd(linear(0.1, 0.01, 6))},
      {"polynomial", sgd(polynomial(0.1, 0.01, 2.5, 7))},
      {"exponential_decay", sgd(exponential_decay(0.1, 3, 0.5, {.end = 0.02}))},
      {"exponential_decay, staircase", sgd(exponential_decay(0.1, 3, 0.5, {.staircase = true}))},
      {"inverse_sqrt", sgd(inverse_sqrt(0.1, 4))},
      {"piecewise_constant", sgd(piecewise_constant(0.1, {{3, 0.5}, {6, 0.25}}))},
      {"join", sgd(join({linear(0.01, 0.1, 3), constant(0.1), cosine(0.1, 3)}, {3, 6}))},
  };
}

std::string written(const State& state, const std::string& collection) {
  std::vector<std::string> members;
  for (const Leaf& leaf : state.collection(collection).leaves()) {
    members.push_back(test::member(leaf.path.substr(collection.size() + 1), test::written(leaf.value, state.stream())));
  }
  return fmt::format("{{{}}}", fmt::join(members, ", "));
}

void set_gradients(const State& state, int step, test::Random& random) {
  const double most = step % 4 == 0 ? 2 : 0.5;
  for (const Leaf& leaf : state.collection("grads").leaves()) {
    const test::Array drawn = random.uniform(leaf.value.shape(), -most, most);
    from_host(leaf.value, std::vector<float>(drawn.values.begin(), drawn.values.end()), state.stream());
  }
}

void write(const std::string& name, const Optimizer& optimizer, Device device) {
  const nn::Layer model("model", [](nn::Scope& s, const nn::Var& x) {
    s.param("a/kernel", {7, 5}, nn::normal(0.5));
    s.param("a/bias", {5}, nn::normal(0.5));
    s.param("b/kernel", {4, 9}, nn::normal(0.5));
    s.param("c", {3, 4, 6}, nn::normal(0.5));
    return x;
  });
  TrainState state = TrainState::create(model, optimizer, {.inputs = {{"x", DType::f32, {1}}}, .context = device});
  const std::string initial = written(state, "params");
  const Graph graph = rules::record(state.stream(), [&] { state.apply_gradients(); });
  test::Random random;
  std::vector<std::string> gradients, params;
  for (int step = 0; step < kSteps; ++step) {
    set_gradients(state, step, random);
    gradients.push_back(written(state, "grads"));
    graph.replay(state.stream());
    params.push_back(written(state, "params"));
  }
  fmt::print(R"({{"name": "{}", "initial": {}, "gradients": [{}], "params": [{}]}})"
             "\n",
             name, initial, fmt::join(gradients, ", "), fmt::join(params, ", "));
}

}  // namespace
}  // namespace giro::optim

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const giro::Device device = giro::parse_device(argv[1], giro::discover_devices());
  for (const auto& cases : {giro::optim::optimizers(), giro::optim::learning_rates()}) {
    for (const auto& [name, optimizer] : cases) giro::optim::write(name, optimizer, device);
  }
}
