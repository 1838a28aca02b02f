// Random steps of two states with remat, stop_gradient and several losses give the same bits recorded, eager and
// without rules.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/layers.h>
#include <giro/kernels/nn/remat.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/loop/step/step.h>

#include "tests/kernels/op_test.h"
#include "tests/support/environment_setting.h"
#include "tests/support/sanitized.h"
#include "tests/support/saved_bytes.h"

namespace giro {
namespace {

constexpr std::int64_t kBatch = 3, kWidth = 4;
constexpr unsigned kLayers = 3;

using nn::Var, nn::Params;

class Draws {
 public:
  explicit Draws(unsigned seed) : engine_(seed) {}
  unsigned operator()() { return static_cast<unsigned>(engine_()); }

 private:
  std::mt19937 engine_;
};

// The step of one seed. Functions that run again, for example in remat, draw the same numbers again.
class RandomStep {
 public:
  RandomStep(unsigned seed, TrainState& other) : seed_(seed), other_(other) {}

  Logs operator()(TrainState& state, const Batch& batch) const {
    Draws random(seed_);
    Logs result;
    const int updates = 1 + static_cast<int>(random() % 3);
    for (int i = 0; i < updates; ++i) {
      TrainState& one = random() % 3 == 0 ? other_ : state;
      TrainState& fixed = &one == &state ? other_ : state;
      const unsigned seed = random();
      const auto loss = [&, seed](const auto& params_of, int part) {
        return loss_of(seed + static_cast<unsigned>(part), batch, params_of, fixed);
      };
      Var value;
      switch (random() % 3) {
        case 0:
          value = one.value_and_grad(
              [&](const Params& params) { return loss([&]() -> const Params& { return params; }, 0); });
          break;
        case 1:
          value = one.value_and_grad([&](TrainState& s) { return loss([&] { return s.params(); }, 0); });
          break;
        default:
          value = mean(one.value_and_grad(2, [&](const Params& params, int part) {
            return loss([&]() -> const Params& { return params; }, part);
          }));
      }
      if (random() % 4 != 0) one.apply_gradients();
      result.add_metric("loss" + std::to_string(i), value);
    }
    return result;
  }

 private:
  // The sum of several losses of one computation; each depends on a parameter.
  template <class F>
  Var loss_of(unsigned seed, const Batch& batch, const F& params_of, const TrainState& fixed) const {
    Draws random(seed);
    Var h = apply(random(), 6, batch["x"], params_of, fixed);
    std::vector<Var> losses;
    const unsigned count = 1 + random() % 3;
    for (unsigned i = 0; i < count; ++i) {
      const Var y = layer(random, params_of(), h);
      losses.push_back(random() % 2 == 0 ? mean(square(y)) : mean(softmax_cross_entropy(y, batch["label"])));
      if (random() % 2 == 0) h = stop_gradient(y);
    }
    Var sum = losses.front() * 0.5;
    for (std::size_t i = 1; i < losses.size(); ++i) sum = sum + losses[i];
    return sum;
  }

  template <class F>
  Var apply(unsigned seed, int ops, const Var& x, const F& params_of, const TrainState& fixed) const {
    Draws random(seed);
    std::vector<Var> values{x};
    const auto any = [&] { return values[random() % values.size()]; };
    for (int i = 0; i < ops; ++i) {
      const unsigned op = random() % 10;
      const Var h = any(), other = any();
      const unsigned again = random();
      const auto part = [this, again, params_of, &fixed, other](const Var& in) {
        return apply(again, 2, in + other, params_of, fixed);
      };
      switch (op) {
        case 0:
          values.push_back(h + other);
          break;
        case 1:
          values.push_back(tanh(h * other));
          break;
        case 2:
          values.push_back(h - other * 0.5);
          break;
        case 3:
          values.push_back(stop_gradient(h));
          break;
        case 4:
          values.push_back(layer(random, fixed.params(), h));
          break;
        case 5:
        case 6:
          values.push_back(ops > 2 ? nn::remat(part, h) : gelu(h));
          break;
        default:
          values.push_back(layer(random, params_of(), h));
      }
    }
    return values.back();
  }

  static Var layer(Draws& random, const Params& params, const Var& h) {
    const std::string name = "dense" + std::to_string(random() % kLayers);
    constexpr Activation kActivations[] = {Activation::none, Activation::tanh, Activation::relu, Activation::gelu};
    return dense(h, params[name + "/kernel"], params[name + "/bias"], kActivations[random() % 4]);
  }

  const unsigned seed_;
  TrainState& other_;
};

class RandomStepTest : public test::OpTest {
 protected:
  enum class Mode { recorded, without_rules, eager };

  // The logs and the final states of a few calls.
  std::vector<std::vector<std::uint8_t>> run(unsigned seed, Mode mode) {
    // add_in_place is the only rule that may change last bits, since layers share weights here.
    const test::RewriteSetting rules(mode == Mode::without_rules ? "0" : "-add_in_place");
    TrainState state = create(1), other = create(2);
    const RandomStep body(seed, other);
    const auto function = [&body](TrainState& s, const Batch& batch) { return body(s, batch); };
    const auto step = mode == Mode::eager ? eager(function) : jit(function);
    std::vector<float> x;
    for (std::int64_t i = 0; i < kBatch * kWidth; ++i) x.push_back(static_cast<float>(i % 5) / 4 - 0.5f);
    std::vector<std::uint8_t> labels{2, 0, 3};
    const Batch batch({{"x", Tensor(x.data(), DType::f32, {kBatch, kWidth}, Device::cpu())},
                       {"label", Tensor(labels.data(), DType::u8, {kBatch}, Device::cpu())}});
    std::vector<std::vector<std::uint8_t>> bytes;
    for (int call = 0; call < 3; ++call) {
      const Logs logs = step(state, batch);
      for (std::size_t i = 0; i < logs.schema().size(); ++i) {
        const double value = logs.entry_value(logs.schema()[i].name);
        const auto* const begin = reinterpret_cast<const std::uint8_t*>(&value);
        bytes.emplace_back(begin, begin + sizeof(value));
      }
    }
    for (const TrainState* one : {&state, &other}) {
      for (auto& [path, of_leaf] : test::leaf_bytes(*one)) bytes.push_back(std::move(of_leaf));
    }
    return bytes;
  }

 private:
  TrainState create(std::uint64_t seed) {
    if (!context_) context_.emplace(device());
    const nn::Layer model = nn::sequential(nn::dense(kWidth), nn::dense(kWidth), nn::dense(kWidth));
    return TrainState::create(model, optim::adamw(1e-2),
                              {.inputs = {{"x", DType::f32, {kBatch, kWidth}}}, .seed = seed, .context = *context_});
  }
  std::optional<DeviceContext> context_;
};
INSTANTIATE_TEST_SUITE_P(Devices, RandomStepTest, test::kDevices, test::device_name);

// GIRO_RANDOM_STEPS sets the number of steps.
TEST_P(RandomStepTest, SameBitsRecordedEagerAndWithoutRules) {
  const char* const wanted = std::getenv("GIRO_RANDOM_STEPS");
  const int count = wanted != nullptr ? std::atoi(wanted) : test::cases(device().is_cuda() ? 10 : 200);
  for (int seed = 0; seed < count; ++seed) {
    SCOPED_TRACE(seed);
    const auto eager_bytes = run(static_cast<unsigned>(seed), Mode::eager);
    ASSERT_TRUE(run(static_cast<unsigned>(seed), Mode::recorded) == eager_bytes);
    ASSERT_TRUE(run(static_cast<unsigned>(seed), Mode::without_rules) == eager_bytes);
  }
}

}  // namespace
}  // namespace giro
