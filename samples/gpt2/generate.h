#pragma once

#include <giro/giro.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "model.h"

// Continues sequences with a trained model, token by token, with a cache of keys and values.
class Generator {
 public:
  // `model`: the trained one. `context`: the device on which to generate.
  Generator(Gpt2 model, const giro::DeviceContext& context, giro::Precision precision) : model_(model) {
    model_.generates = true;
    model_.remat = false;
    state_.emplace(giro::TrainState::create(model_, giro::optim::frozen(),
        {.inputs = {{"tokens", giro::DType::i32, {1, 1}}}, .context = context, .precision = precision}));
  }

  giro::TrainState& state() { return *state_; }
  void set_params(const giro::TrainState& trained) {
    trained.stream().synchronize();
    giro::load_into(*state_, trained.flatten("params"), {.only = {"params"}});
  }

  // `count` ids that follow the prompt, which must fit the model's context: the likeliest ones at a temperature of 0,
  // else sampled. Where the context ends, the window slides: the model goes on from the last half of what it has seen.
  std::vector<std::int32_t> operator()(
      std::vector<std::int32_t> prompt, std::int64_t count, double temperature, std::uint64_t seed) {
    state_->reset("cache");
    const giro::Rng rng{seed, giro::RngPurpose::application};
    std::vector<std::int32_t> made, window;  // window: the tokens in the cache
    for (std::int64_t i = 0; i < count; ++i) {
      window.insert(window.end(), prompt.begin(), prompt.end());
      if (static_cast<std::int64_t>(window.size()) > model_.context) {
        state_->reset("cache");
        window.erase(window.begin(), window.end() - (model_.context + 1) / 2);
        prompt = window;
      }
      const auto tokens = static_cast<std::int64_t>(prompt.size());
      const giro::nn::Var ids = giro::nn::constant(giro::HostArray(prompt, {1, tokens}), state_->stream());
      giro::nn::Scope s = state_->params(giro::nn::Mode::decode);
      const giro::nn::Var logits = model_(s, ids);
      const giro::nn::Var last = cast(slice(logits, {.axis = 1, .begin = tokens - 1}), giro::DType::f32);
      prompt = {choose(giro::to_host<float>(last.value(), state_->stream()), temperature,
          rng.uniform(static_cast<std::uint64_t>(i)))};
      made.push_back(prompt.front());
    }
    return made;
  }

 private:
  static std::int32_t choose(const std::vector<float>& logits, double temperature, double uniform) {
    const auto likeliest = std::max_element(logits.begin(), logits.end());
    if (temperature <= 0) return static_cast<std::int32_t>(likeliest - logits.begin());
    std::vector<double> sums(logits.size());
    double sum = 0;
    for (std::size_t i = 0; i < logits.size(); ++i) sums[i] = sum += std::exp((logits[i] - *likeliest) / temperature);
    const auto chosen = std::upper_bound(sums.begin(), sums.end() - 1, uniform * sum);
    return static_cast<std::int32_t>(chosen - sums.begin());
  }

  Gpt2 model_;
  std::optional<giro::TrainState> state_;
};
