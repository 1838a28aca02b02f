// The host's cost of a step of the MNIST sample's models: recording it, and calling the recorded step. On the CPU a
// call also does the step's work, so there the batch is one image of 4 x 4, to leave little but the call. Transformers
// of 12 and 192 blocks show how the cost of recording grows with the model.
//
//   step_bench [--device=cuda]

#include <benchmark/benchmark.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/layers.h>
#include <giro/kernels/nn/normalization.h>
#include <giro/kernels/nn/transformer.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/loop/data/dataset.h>
#include <giro/loop/step/step.h>

namespace {

namespace nn = giro::nn;

nn::Layer make_model(bool cnn) {
  if (!cnn) return nn::sequential(nn::scale(1 / 255.f), nn::flatten(), nn::dense(10));
  const nn::ConvOptions relu{.activation = giro::Activation::relu};
  return nn::sequential(nn::scale(1 / 255.f), nn::conv(32, {3, 3}, relu), nn::avg_pool({2, 2}),
                        nn::conv(64, {3, 3}, relu), nn::avg_pool({2, 2}), nn::flatten(),
                        nn::dense(256, {.activation = giro::Activation::relu}), nn::dense(10));
}

struct Training {
  Training(bool cnn, std::int64_t batch, std::int64_t side, giro::Device device)
      : model(make_model(cnn)),
        data(giro::Dataset({{"image", giro::HostArray(
                                          std::vector<std::uint8_t>(static_cast<std::size_t>(4 * batch * side * side)),
                                          {4 * batch, side, side, 1})},
                            {"label", std::vector<std::uint8_t>(static_cast<std::size_t>(4 * batch))}})
                 .shuffle(0)
                 .repeat()
                 .batch(batch)
                 .to(device)),
        state(giro::TrainState::create(model, giro::optim::adamw(1e-3), {.inputs = data.spec(), .context = device})) {}

  auto make_step() {
    return giro::jit([this](giro::TrainState& s, const giro::Batch& batch) {
      nn::Var logits;
      const nn::Var loss = s.value_and_grad([&](const nn::Params& params) {
        logits = model(params, batch["image"]);
        return mean(softmax_cross_entropy(logits, batch["label"]));
      });
      s.apply_gradients();
      return giro::logs().add_metric("loss", loss).add_metric("accuracy", accuracy(logits, batch["label"]));
    });
  }

  const nn::Layer model;
  const giro::Dataset data;
  giro::TrainState state;
};

giro::Device device = giro::Device::cpu();

// One recording per iteration.
void record(benchmark::State& benchmark, bool cnn) {
  Training training(cnn, 32, 28, device);
  const giro::Batch batch = *training.data.begin();
  for (auto _ : benchmark) {
    const auto step = training.make_step();
    benchmark::DoNotOptimize(step.find(training.state, batch, {}, nullptr));
  }
}

// One call per iteration. Its logs are discarded.
void call(benchmark::State& benchmark, bool cnn) {
  Training training(cnn, device.is_cuda() ? 32 : 1, device.is_cuda() ? 28 : 4, device);
  const auto step = training.make_step();
  auto batch = training.data.begin();
  for (auto _ : benchmark) {
    benchmark::DoNotOptimize(step(training.state, *batch));
    ++batch;
  }
  training.state.stream().synchronize();
}

// Recording a transformer's step, whose cost does not depend on its width.
void record_transformer(benchmark::State& benchmark, int blocks) {
  constexpr std::int64_t kTokens = 16, kVocabulary = 64, kFeatures = 32;
  std::vector<nn::Layer> layers{nn::embedding(kVocabulary, kFeatures), nn::position_embedding(kTokens)};
  for (int i = 0; i < blocks; ++i) {
    layers.push_back(nn::transformer_block({.attention = {.heads = 2, .is_causal = true}}));
  }
  layers.push_back(nn::layer_norm());
  layers.push_back(nn::dense(kVocabulary));
  const nn::Layer model = nn::sequential(std::move(layers));
  const std::vector<std::int32_t> tokens(2 * kTokens);
  const giro::Dataset data =
      giro::Dataset({{"tokens", giro::HostArray(tokens, {2, kTokens})}}).repeat().batch(2).to(device);
  giro::TrainState state =
      giro::TrainState::create(model, giro::optim::adamw(1e-3), {.inputs = data.spec(), .context = device});
  const giro::Batch batch = *data.begin();
  for (auto _ : benchmark) {
    const auto step = giro::jit([&](giro::TrainState& s, const giro::Batch& windows) {
      const nn::Var loss = s.value_and_grad([&](const nn::Params& params) {
        return mean(softmax_cross_entropy(model(params, windows["tokens"]), windows["tokens"]));
      });
      s.apply_gradients();
      return giro::logs().add_metric("loss", loss);
    });
    benchmark::DoNotOptimize(step.find(state, batch, {}, nullptr));
  }
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (argc > 1 && std::string(argv[1]) == "--device=cuda") device = giro::Device::cuda();
  for (const bool cnn : {false, true}) {
    const std::string model = cnn ? "cnn" : "linear";
    benchmark::RegisterBenchmark(("record_" + model).c_str(), record, cnn)->Unit(benchmark::kMicrosecond);
    benchmark::RegisterBenchmark(("call_" + model).c_str(), call, cnn)->Unit(benchmark::kMicrosecond);
  }
  for (const int blocks : {12, 192}) {
    const std::string name = "record_transformer_" + std::to_string(blocks);
    benchmark::RegisterBenchmark(name.c_str(), record_transformer, blocks)->Unit(benchmark::kMillisecond);
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
