#pragma once

#include <giro/giro.h>

#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace giro::test {

inline constexpr std::int64_t kRows = 96, kFeatures = 24, kClasses = 5;

// With `nan_row`, that row has a NaN among its features.
inline Dataset random_rows(std::int64_t nan_row = -1) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> x(kRows * kFeatures);
  std::vector<std::int32_t> labels(kRows);
  for (float& value : x) value = normal(random);
  for (std::int32_t& label : labels) label = static_cast<std::int32_t>(random() % kClasses);
  if (nan_row >= 0) x[static_cast<std::size_t>(nan_row * kFeatures)] = std::numeric_limits<float>::quiet_NaN();
  return Dataset({{"x", HostArray(x, {kRows, kFeatures})}, {"label", labels}});
}

inline nn::Layer model() {
  return nn::sequential(nn::dense(16, {.activation = Activation::tanh}),
                        nn::dense(16, {.activation = Activation::gelu}), nn::dense(kClasses));
}

inline auto make_step(int parts = 1) {
  return jit([parts](TrainState& state, const Batch& batch) {
    std::vector<nn::Var> accuracies;
    auto losses = state.value_and_grad(parts, [&](auto& params, int part) {
      const Batch rows = batch.slice(part, parts);
      auto logits = state.model()(params, rows["x"]);
      accuracies.push_back(accuracy(logits, rows["label"]));
      return mean(softmax_cross_entropy(logits, rows["label"]));
    });
    state.apply_gradients();
    return logs().add_metric("loss", mean(losses)).add_metric("accuracy", mean(accuracies));
  });
}

}  // namespace giro::test
