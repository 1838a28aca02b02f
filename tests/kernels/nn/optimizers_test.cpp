#include <giro/kernels/optim/optimizer.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/layers.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/runtime/files/load_into.h>
#include <giro/runtime/files/save_load.h>
#include <giro/runtime/program/graph.h>
#include <giro/runtime/program/program.h>

#include "kernels/rules/record.h"
#include "tests/kernels/op_test.h"
#include "tests/support/environment_setting.h"
#include "tests/support/fake_partitioner.h"
#include "tests/support/saved_bytes.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/tensor_ops.h"

namespace giro::optim {
namespace {

using test::kUnit, test::saved_bytes;
using Leaves = std::map<std::string, std::vector<float>>;

// One element of a parameter with its moments. A Formula applies update t with the gradient g.
struct Element {
  std::map<std::string, double> moments;
  double param = 0;
};
using Formula = std::function<void(Element& e, double g, int t, bool decays)>;

struct Rule {
  std::string name;
  Optimizer optimizer;
  Formula formula;
};

double sign_of(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }

Formula adamw_formula(double rate, double decay) {
  return [=](Element& e, double g, int t, bool decays) {
    double &mu = e.moments["mu"], &nu = e.moments["nu"];
    mu = 0.9 * mu + 0.1 * g;
    nu = 0.999 * nu + 0.001 * g * g;
    const double direction = mu / (1 - std::pow(0.9, t)) / (std::sqrt(nu / (1 - std::pow(0.999, t))) + 1e-8);
    e.param -= rate * (direction + (decays ? decay * e.param : 0));
  };
}

Formula sgd_formula(double rate, double momentum) {
  return [=](Element& e, double g, int, bool) {
    double& mu = e.moments["mu"];
    mu = momentum * mu + g;
    e.param -= rate * mu;
  };
}

bool is_kernel(const std::string& path) { return path.ends_with("kernel"); }

// A custom optimizer.
Optimizer own_lion(const LearningRate& rate, double b1, double b2) {
  return make("lion", [=](Update& u) {
    const auto m = u.moment("mu");
    u.set_param(u.param() - u.rate(rate) * sign(b1 * m + (1 - b1) * u.grad()));
    u.set_moment("mu", b2 * m + (1 - b2) * u.grad());
  });
}

std::vector<Rule> rules() {
  return {
      {"adamw", adamw(0.01, {.weight_decay = 0.1, .decay_mask = is_kernel}), adamw_formula(0.01, 0.1)},
      {"lion", lion(0.01, {.weight_decay = 0.1, .decay_mask = is_kernel}),
       [](Element& e, double g, int, bool decays) {
         double& mu = e.moments["mu"];
         e.param -= 0.01 * (sign_of(0.9 * mu + 0.1 * g) + (decays ? 0.1 * e.param : 0));
         mu = 0.99 * mu + 0.01 * g;
       }},
      {"rmsprop", rmsprop(0.01, {.initial_scale = 0.5}),
       [](Element& e, double g, int t, bool) {
         double& nu = e.moments["nu"];
         if (t == 1) nu = 0.5;
         nu = 0.9 * nu + 0.1 * g * g;
         e.param -= 0.01 * g / std::sqrt(nu + 1e-8);
       }},
      {"rmsprop, centered, nesterov",
       rmsprop(0.01, {.decay = 0.8, .eps = 1e-2, .centered = true, .momentum = 0.5, .nesterov = true}),
       [](Element& e, double g, int, bool) {
         double &nu = e.moments["nu"], &mu = e.moments["mu"], &trace = e.moments["trace"];
         nu = 0.8 * nu + 0.2 * g * g;
         mu = 0.8 * mu + 0.2 * g;
         const double change = 0.01 * g / std::sqrt(nu - mu * mu + 1e-2);
         trace = 0.5 * trace + change;
         e.param -= 0.5 * trace + change;
       }},
      {"adagrad", adagrad(0.1),
       [](Element& e, double g, int t, bool) {
         double& sum = e.moments["sum"];
         if (t == 1) sum = 0.1;
         sum += g * g;
         e.param -= 0.1 * g / std::sqrt(sum + 1e-7);
       }},
      {"lookahead", lookahead(sgd(0.1, {.momentum = 0.9}), 3, 0.25),
       [](Element& e, double g, int t, bool decays) {
         if (t == 1) e.moments["slow"] = e.param;
         sgd_formula(0.1, 0.9)(e, g, t, decays);
         if (t % 3 == 0) e.param = e.moments["slow"] += 0.25 * (e.param - e.moments["slow"]);
       }},
      {"ema", ema(0.75, sgd(0.1, {.momentum = 0.9})),
       [](Element& e, double g, int t, bool decays) {
         if (t == 1) e.moments["ema"] = e.param;
         sgd_formula(0.1, 0.9)(e, g, t, decays);
         e.moments["ema"] = 0.75 * e.moments["ema"] + 0.25 * e.param;
       }},
      {"clip_by_value", clip_by_value(0.2, sgd(0.1, {.momentum = 0.9})),
       [](Element& e, double g, int t, bool decays) { sgd_formula(0.1, 0.9)(e, std::clamp(g, -0.2, 0.2), t, decays); }},
      {"a user's own", own_lion(0.01, 0.9, 0.99),
       [](Element& e, double g, int, bool) {
         double& mu = e.moments["mu"];
         e.param -= 0.01 * sign_of(0.9 * mu + 0.1 * g);
         mu = 0.99 * mu + 0.01 * g;
       }},
  };
}

// Optimizers with every kind of memory.
std::vector<Optimizer> kinds() {
  std::vector<Optimizer> result;
  for (const Rule& rule : rules()) result.push_back(rule.optimizer);
  result.push_back(clip_by_global_norm(0.5, adamw(0.01)));
  result.push_back(accumulate(2, clip_by_global_norm(0.5, ema(0.5, adamw(warmup(0.01, 3))))));
  result.push_back(by_path({{"dense0", adamw(0.01)}, {"**/bias", frozen()}, {"**", sgd(0.1, {.momentum = 0.5})}}));
  result.push_back(ema(0.9, muon(0.02, {.weight_decay = 0.1})));
  result.push_back(adafactor(0.02, {.min_dim_size_to_factor = 4, .momentum = 0.5}));
  return result;
}

class OptimizersTest : public test::OpTest {
 protected:
  TrainState create(const Optimizer& optimizer, const TrainStateOptions& more = {.inputs = {}}) const {
    TrainStateOptions options = more;
    options.inputs = {{"x", DType::f32, {2, 7}}};
    options.seed = 3;
    options.context = device();
    return TrainState::create(nn::sequential(nn::dense(5), nn::dense(3)), optimizer, options);
  }
  static Leaves leaves(const State& state, const std::string& collection) {
    Leaves result;
    for (const Leaf& leaf : state.collection(collection).leaves()) {
      result[leaf.path.substr(collection.size() + 1)] = to_host<float>(leaf.value, state.stream());
    }
    return result;
  }
  // Gradients for a step, none of them close to zero.
  static void set_grads(const State& state, int step, double factor = 1) {
    int number = step;
    for (const Leaf& leaf : state.collection("grads").leaves()) {
      std::vector<float> values(static_cast<std::size_t>(leaf.value.count()));
      for (float& value : values) {
        number = (number * 37 + 11) % 101;
        value = static_cast<float>(factor * (number < 50 ? -0.1 - number / 100.0 : number / 100.0 - 0.3));
      }
      from_host(leaf.value, values, state.stream());
    }
  }
  static void steps(TrainState& state, int begin, int end) {
    for (int step = begin; step < end; ++step) {
      set_grads(state, step);
      state.apply_gradients();
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, OptimizersTest, test::kDevices, test::device_name);

TEST_P(OptimizersTest, MatchTheirFormulas) {
  constexpr int kSteps = 7;
  for (const Rule& rule : rules()) {
    SCOPED_TRACE(rule.name);
    TrainState state = create(rule.optimizer);
    std::map<std::string, std::vector<Element>> elements;
    for (const auto& [path, values] : leaves(state, "params")) {
      for (const float value : values) elements[path].push_back({{}, static_cast<double>(value)});
    }
    for (int step = 0; step < kSteps; ++step) {
      set_grads(state, step);
      for (const auto& [path, grads] : leaves(state, "grads")) {
        for (std::size_t i = 0; i < grads.size(); ++i) {
          rule.formula(elements[path][i], static_cast<double>(grads[i]), step + 1, is_kernel(path));
        }
      }
      state.apply_gradients();
    }
    std::map<std::string, Leaves> moments;
    for (const auto& [name, value] : elements.begin()->second.front().moments) {
      const std::string collection = name == "ema" ? name : "opt_state/" + name;
      moments[name] = leaves(state, collection);
    }
    for (const auto& [path, params] : leaves(state, "params")) {
      for (std::size_t i = 0; i < params.size(); ++i) {
        Element& e = elements[path][i];
        ASSERT_NEAR(static_cast<double>(params[i]), e.param, 64 * kUnit * std::max(0.25, std::abs(e.param)))
            << path << " " << i;
        for (auto& [name, each] : moments) {
          const double expected = e.moments.at(name);
          ASSERT_NEAR(static_cast<double>(each[path][i]), expected, 64 * kUnit * std::max(0.25, std::abs(expected)))
              << name << " of " << path;
        }
      }
    }
  }
}

TEST_P(OptimizersTest, GiveTheSameBitsRecordedAndWithoutRules) {
  for (const Optimizer& optimizer : kinds()) {
    SCOPED_TRACE(optimizer.name);
    TrainState eager = create(optimizer);
    steps(eager, 0, 3);
    for (const char* with_rules : {"1", "0"}) {
      const test::RewriteSetting setting(with_rules);
      TrainState state = create(optimizer);
      const Graph graph = rules::record(state.stream(), [&] { state.apply_gradients(); });
      for (int step = 0; step < 3; ++step) {
        set_grads(state, step);
        graph.replay(state.stream());
      }
      EXPECT_TRUE(saved_bytes(state) == saved_bytes(eager)) << "rules " << with_rules;
    }
  }
}

TEST_P(OptimizersTest, GiveTheSameBitsResumedAtAnyStep) {
  const test::TemporaryDirectory dir;
  for (const Optimizer& optimizer : kinds()) {
    SCOPED_TRACE(optimizer.name);
    TrainState whole = create(optimizer);
    whole.set_learning_rate_scale(0.5);
    for (int step = 0; step < 4; ++step) {
      save(dir / "state", whole);
      TrainState resumed = create(optimizer);
      load_into(resumed, load(dir / "state").tensors);
      steps(whole, step, step + 1);
      steps(resumed, step, step + 1);
      EXPECT_TRUE(saved_bytes(whole) == saved_bytes(resumed)) << step;
    }
  }
}

TEST_P(OptimizersTest, OverflowingF16UpdateIsSkippedEntirely) {
  if (device().is_cpu()) GTEST_SKIP() << "f16 needs a GPU";
  for (const Optimizer& optimizer : kinds()) {
    SCOPED_TRACE(optimizer.name);
    TrainState plain = create(optimizer);
    TrainState scaled = create(optimizer, {.inputs = {}, .precision = Precision::f16});
    for (int step = 0; step < 4; ++step) {
      set_grads(plain, step);
      plain.apply_gradients();
      if (step == 2) {
        const auto before = saved_bytes(scaled);
        set_grads(scaled, step, test::kInfinity);
        scaled.apply_gradients();
        auto after = saved_bytes(scaled);
        for (const char* changes : {"step", "loss_scale"}) after[changes] = before.at(changes);
        EXPECT_TRUE(before == after);
      }
      set_grads(scaled, step, step < 2 ? 65536 : 32768);
      scaled.apply_gradients();
    }
    for (const auto& [path, expected] : leaves(plain, "params")) {
      EXPECT_EQ(leaves(scaled, "params")[path], expected) << path;
    }
  }
}

TEST_P(OptimizersTest, FirstMatchingPathWins) {
  const Optimizer optimizer = by_path({{"dense0/kernel", frozen()}, {"**/bias", sgd(0.5)}, {"**", adamw(0.01)}});
  TrainState state = create(optimizer), sgd_alone = create(sgd(0.5)), adamw_alone = create(adamw(0.01));
  const Leaves before = leaves(state, "params");
  std::vector<std::string> moments;
  for (const Leaf& leaf : state.collection("opt_state/mu").leaves()) moments.push_back(leaf.path);
  EXPECT_EQ(moments, std::vector<std::string>{"opt_state/mu/dense1/kernel"});
  for (TrainState* each : {&state, &sgd_alone, &adamw_alone}) steps(*each, 0, 5);
  Leaves after = leaves(state, "params");
  EXPECT_EQ(after["dense0/kernel"], before.at("dense0/kernel"));
  EXPECT_EQ(after["dense0/bias"], leaves(sgd_alone, "params")["dense0/bias"]);
  EXPECT_EQ(after["dense1/bias"], leaves(sgd_alone, "params")["dense1/bias"]);
  EXPECT_EQ(after["dense1/kernel"], leaves(adamw_alone, "params")["dense1/kernel"]);
  EXPECT_EQ(to_host<float>(state.at("learning_rate"), state.stream()).front(), 0.5f);

  // No gradient for frozen leaves, and one op for adjacent leaves.
  fill(state.at("grads/dense0/kernel"), 0, state.stream());
  state.value_and_grad([](auto& params) { return sum(params["dense0/kernel"]) + sum(params["dense0/bias"]); });
  EXPECT_EQ(leaves(state, "grads")["dense0/kernel"], std::vector<float>(35, 0));
  EXPECT_EQ(leaves(state, "grads")["dense0/bias"], std::vector<float>(5, 1));
  const auto updates = [&](const Optimizer& of) {
    const test::RewriteSetting setting("0");
    TrainState recorded = create(of);
    const Graph graph = Graph::record(recorded.stream(), [&] { recorded.apply_gradients(); });
    const auto& nodes = graph.program().nodes();
    return std::count_if(nodes.begin(), nodes.end(), [](const auto& node) { return node.op == "update"; });
  };
  EXPECT_EQ(updates(adamw(0.01)), 1);
  EXPECT_EQ(updates(by_path({{"dense0", sgd(0.1)}, {"**", adamw(0.01)}})), 2);
  EXPECT_EQ(updates(optimizer), 3);
}

TEST_P(OptimizersTest, ErrorsOfPaths) {
  test::expect_error(ErrorCode::not_found, {"'dense9/**'", "dense"}, [&] {
    create(by_path({{"dense9/**", sgd(0.1)}, {"**", sgd(0.1)}}));
  });
  test::expect_error(ErrorCode::not_found, {"'dense1/kernel'"}, [&] {
    create(by_path({{"dense0", sgd(0.1)}, {"**/bias", sgd(0.1)}}));
  });
}

TEST_P(OptimizersTest, AccumulatedGradientsAreTheirMean) {
  const LearningRate rate = warmup(0.1, 4);
  for (const double norm : {0.3, 1e6}) {
    TrainState few = create(clip_by_global_norm(norm, adamw(rate)));
    TrainState many = create(accumulate(3, clip_by_global_norm(norm, adamw(rate))));
    for (int update = 0; update < 4; ++update) {
      std::map<std::string, std::vector<double>> sums;
      const Leaves before = leaves(many, "params");
      for (int part = 0; part < 3; ++part) {
        EXPECT_EQ(leaves(many, "params"), before);
        set_grads(many, 3 * update + part);
        for (const auto& [path, values] : leaves(many, "grads")) {
          sums[path].resize(values.size());
          for (std::size_t i = 0; i < values.size(); ++i) sums[path][i] += static_cast<double>(values[i]);
        }
        many.apply_gradients();
        EXPECT_EQ(to_host<float>(many.at("learning_rate"), many.stream()).front(), rate(update));
      }
      for (const auto& [path, values] : sums) {
        std::vector<float> mean;
        for (const double value : values) mean.push_back(static_cast<float>(value / 3));
        from_host(few.at("grads/" + path), mean, few.stream());
      }
      few.apply_gradients();
      for (const auto& [path, values] : leaves(few, "params")) {
        const std::vector<float> found = leaves(many, "params")[path];
        for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(found[i], values[i], 32 * kUnit);
      }
    }
  }
}

TEST_P(OptimizersTest, ParameterAverageIsEvaluated) {
  TrainState state = create(ema(0.5, by_path({{"dense0/bias", frozen()}, {"**", sgd(0.1)}})));
  // The average starts from parameters loaded before the first update.
  fill(state.at("params/dense1/bias"), 2, state.stream());
  fill(state.at("params/dense0/bias"), 3, state.stream());
  fill(state.collection("grads").flat(), 1, state.stream());
  state.apply_gradients();
  const nn::Params averages = state.ema_params();
  for (const float value : to_host<float>(averages["dense1/bias"].value(), state.stream())) {
    EXPECT_FLOAT_EQ(value, 1.95f);
  }
  EXPECT_EQ(to_host<float>(averages["dense0/bias"].value(), state.stream()), std::vector<float>(5, 3));
  EXPECT_EQ(averages.all().size(), 4u);
  // Saved averages are loaded as parameters.
  const test::TemporaryDirectory dir;
  save(dir / "averaged", state.averaged());
  TrainState loaded = create(sgd(0.1));
  load_into(loaded, load(dir / "averaged").tensors, {.only = {"params"}});
  for (const auto& [name, average] : averages.all()) {
    EXPECT_EQ(leaves(loaded, "params")[name], to_host<float>(average.value(), state.stream())) << name;
  }
  EXPECT_TRUE(state.collection("ema").saved());
  test::expect_error(ErrorCode::not_found, {"ema"}, [&] { create(sgd(0.1)).ema_params(); });
  test::expect_error(ErrorCode::not_found, {"ema"}, [&] { create(sgd(0.1)).averaged(); });
}

TEST_P(OptimizersTest, MuonTakesGradientsOfAnySize) {
  const auto updated = [&](double factor) {
    TrainState state = create(muon(0.02));
    set_grads(state, 0, factor);
    state.apply_gradients();
    return leaves(state, "params")["dense0/kernel"];
  };
  EXPECT_EQ(updated(0x1p70), updated(0x1p10));
}

// The mean of squares may be rounded to less than the square of the mean.
TEST_P(OptimizersTest, CenteredRmspropOfEqualGradients) {
  TrainState state = create(rmsprop(0.01, {.decay = 0.8, .centered = true}));
  fill(state.collection("grads").flat(), 362.23, state.stream());
  for (int step = 0; step < 100; ++step) state.apply_gradients();
  const std::vector<float> after = leaves(state, "params")["dense0/bias"];
  for (const float param : after) EXPECT_TRUE(std::isfinite(param));
}

TEST_P(OptimizersTest, GradientNormAndRateScale) {
  TrainState state = create(sgd(0.5));
  fill(state.collection("grads").flat(), 0, state.stream());
  fill(state.at("grads/dense0/bias"), 2, state.stream());
  EXPECT_FLOAT_EQ(to_host<float>(state.gradient_norm().value(), state.stream()).front(), std::sqrt(20.0f));
  for (const double size : {1e20, 1e-25}) {
    fill(state.at("grads/dense0/bias"), size, state.stream());
    EXPECT_FLOAT_EQ(to_host<float>(state.gradient_norm().value(), state.stream()).front(),
                    static_cast<float>(std::sqrt(5) * size));
  }
  fill(state.at("grads/dense0/bias"), 2, state.stream());
  const std::vector<float> before = leaves(state, "params")["dense0/bias"];
  state.set_learning_rate_scale(0.25);
  state.apply_gradients();
  EXPECT_EQ(to_host<float>(state.at("learning_rate"), state.stream()).front(), 0.125f);
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_EQ(leaves(state, "params")["dense0/bias"][i], before[i] - 0.25f);
  for (const double bad : {-1.0, test::kNaN, test::kInfinity}) {
    test::expect_error(ErrorCode::invalid_argument, {"scale"}, [&] { state.set_learning_rate_scale(bad); });
  }
}

TEST_P(OptimizersTest, NamedGradients) {
  TrainState state = create(by_path({{"dense0/kernel", frozen()}, {"**", sgd(0.5)}}));
  fill(state.collection("grads").flat(), 7, state.stream());
  const auto [result, grads] = state.gradients([](auto& params) {
    return std::pair{3.0 * sum(params["dense0/bias"]) + sum(params["dense0/kernel"]), 5};
  });
  EXPECT_EQ(result.second, 5);
  EXPECT_EQ(grads.size(), 3u);
  EXPECT_EQ(to_host<float>(grads.at("dense0/bias").value(), state.stream()), std::vector<float>(5, 3));
  EXPECT_EQ(to_host<float>(grads.at("dense1/bias").value(), state.stream()), std::vector<float>(3, 0));
  EXPECT_EQ(leaves(state, "grads")["dense0/bias"], std::vector<float>(5, 7));
}

// Of per-leaf optimizers, too, which have nothing to update in a leaf without elements.
TEST_P(OptimizersTest, RateIsKnownWithoutElements) {
  for (const std::int64_t features : {0, 5}) {
    for (const Optimizer& optimizer :
         {adamw(0.5), adafactor(0.5), muon(0.5), accumulate(2, adafactor(0.5)), by_path({{"**", muon(0.5)}})}) {
      const nn::Layer model("none", [features](nn::Scope& s, const nn::Var& x) {
        const nn::Var none = s.param("none", {0, 3}, nn::zeros());
        return x + sum(none) + (features > 0 ? sum(s.param("some", {2, features}, nn::ones())) : sum(none));
      });
      TrainState state =
          TrainState::create(model, optimizer, {.inputs = {{"x", DType::f32, {2}}}, .context = device()});
      state.set_learning_rate_scale(0.5);
      state.apply_gradients();
      EXPECT_EQ(to_host<float>(state.at("learning_rate"), state.stream()).front(), 0.25f) << optimizer.name;
    }
  }
}

// One rank of three, without the others.
struct Third : test::FakePartitioner {
  explicit Third(int rank) : FakePartitioner(rank, 3) {}
  Shard update_shard() const noexcept override { return {rank(), 3}; }
};

TEST_P(OptimizersTest, EachRankUpdatesItsShard) {
  for (const Optimizer& optimizer :
       {adamw(0.01, {.weight_decay = 0.1, .decay_mask = is_kernel}), adagrad(0.1), lookahead(sgd(0.1), 2),
        accumulate(2, ema(0.5, adamw(0.01))),
        by_path({{"dense0/kernel", adamw(0.01)}, {"**/bias", frozen()}, {"**", sgd(0.1, {.momentum = 0.5})}})}) {
    SCOPED_TRACE(optimizer.name);
    TrainState whole = create(optimizer);
    steps(whole, 0, 4);
    const std::vector<float> expected = to_host<float>(whole.collection("params").flat(), whole.stream());
    std::vector<float> found;
    for (int rank = 0; rank < 3; ++rank) {
      TrainState state = create(optimizer, {.inputs = {}, .partitioner = std::make_shared<Third>(rank)});
      steps(state, 0, 4);
      const std::vector<float> part =
          to_host<float>(state.collection("params").flat(state.partitioner()->update_shard()), state.stream());
      found.insert(found.end(), part.begin(), part.end());
    }
    ASSERT_GE(found.size(), expected.size());
    for (std::size_t i = expected.size(); i < found.size(); ++i) EXPECT_EQ(found[i], 0);
    found.resize(expected.size());
    EXPECT_EQ(found, expected);
  }
  test::expect_error(ErrorCode::unsupported, {"muon", "3 ranks", "data_parallel"},
                     [&] { create(muon(0.1), {.inputs = {}, .partitioner = std::make_shared<Third>(0)}); });
}

TEST_P(OptimizersTest, ErrorsOfUpdates) {
  const auto refuses = [&](ErrorCode code, std::initializer_list<std::string> words, const Optimizer& optimizer) {
    test::expect_error(code, words, [&] { create(optimizer); });
  };
  refuses(ErrorCode::unsupported, {"norm", "clip_by_global_norm"}, clip_by_value(1, clip_by_global_norm(1, sgd(0.1))));
  refuses(ErrorCode::invalid_argument, {"moment", "'mu'"}, make("own", [](Update& u) { u.set_moment("mu", 1.0); }));
  refuses(ErrorCode::dtype_mismatch, {"remainder", "whole"},
          make("own", [](Update& u) { u.set_param(remainder(u.param(), 2)); }));
}

// Row-major matrices in double.
struct Matrix {
  std::size_t rows, columns;
  std::vector<double> values;

  Matrix(std::size_t r, std::size_t c) : rows(r), columns(c), values(r * c) {}
  double& at(std::size_t i, std::size_t j) { return values[i * columns + j]; }
  double at(std::size_t i, std::size_t j) const { return values[i * columns + j]; }
  Matrix transposed() const {
    Matrix result(columns, rows);
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < columns; ++j) result.at(j, i) = at(i, j);
    }
    return result;
  }
  friend Matrix operator*(const Matrix& a, const Matrix& b) {
    Matrix result(a.rows, b.columns);
    for (std::size_t i = 0; i < a.rows; ++i) {
      for (std::size_t j = 0; j < b.columns; ++j) {
        for (std::size_t k = 0; k < a.columns; ++k) result.at(i, j) += a.at(i, k) * b.at(k, j);
      }
    }
    return result;
  }
  friend Matrix sum(double s, const Matrix& a, double t, const Matrix& b) {
    Matrix result(a.rows, a.columns);
    for (std::size_t i = 0; i < a.values.size(); ++i) result.values[i] = s * a.values[i] + t * b.values[i];
    return result;
  }
  double root_mean_square() const {
    double total = 0;
    for (const double value : values) total += value * value;
    return std::sqrt(total / static_cast<double>(values.size()));
  }
};

Matrix orthogonal(const Matrix& m) {
  Matrix x = m.rows > m.columns ? m.transposed() : m;
  const double norm = x.root_mean_square() * std::sqrt(static_cast<double>(x.values.size())) + 1e-8;
  for (double& value : x.values) value /= norm;
  for (int i = 0; i < 5; ++i) {
    const Matrix a = x * x.transposed(), b = sum(-4.7750, a, 2.0315, a * a);
    x = sum(3.4445, x, 1, b * x);
  }
  return m.rows > m.columns ? x.transposed() : x;
}

TEST_P(OptimizersTest, MuonIsOrthogonalMomentum) {
  TrainState state = create(muon(0.02)), others = create(adamw(0.02, {.weight_decay = 0}));
  const std::pair<std::string, std::pair<std::size_t, std::size_t>> kernels[] = {{"dense0/kernel", {7, 5}},
                                                                                 {"dense1/kernel", {5, 3}}};
  std::map<std::string, Matrix> params, mus;
  const auto matrix = [&](const std::string& collection, const auto& kernel) {
    Matrix result(kernel.second.first, kernel.second.second);
    const std::vector<float> values = leaves(state, collection)[kernel.first];
    std::copy(values.begin(), values.end(), result.values.begin());
    return result;
  };
  for (const auto& kernel : kernels) {
    params.emplace(kernel.first, matrix("params", kernel));
    mus.emplace(kernel.first, Matrix(kernel.second.first, kernel.second.second));
  }
  for (int t = 1; t <= 5; ++t) {
    set_grads(state, t);
    for (const auto& kernel : kernels) {
      const Matrix g = matrix("grads", kernel);
      Matrix& mu = mus.at(kernel.first);
      mu = sum(0.95, mu, 0.05, g);
      const Matrix next = sum(0.95 / (1 - std::pow(0.95, t + 1)), mu, 0.05 / (1 - std::pow(0.95, t)), g);
      const double scale = std::sqrt(std::max(1.0, static_cast<double>(g.columns) / static_cast<double>(g.rows)));
      params.at(kernel.first) = sum(1, params.at(kernel.first), -0.02 * scale, orthogonal(next));
    }
    state.apply_gradients();
  }
  steps(others, 1, 6);
  for (const auto& kernel : kernels) {
    const Matrix found = matrix("params", kernel);
    for (std::size_t i = 0; i < found.values.size(); ++i) {
      // Each iteration may amplify the error of a small singular value by 3.4445.
      EXPECT_NEAR(found.values[i], params.at(kernel.first).values[i], 5 * 0.02 * std::pow(3.4445, 5) * 8 * kUnit);
    }
  }
  EXPECT_EQ(leaves(state, "params")["dense0/bias"], leaves(others, "params")["dense0/bias"]);
}

TEST_P(OptimizersTest, AdafactorKeepsRowsAndColumns) {
  TrainState state = create(adafactor(0.1, {.min_dim_size_to_factor = 5}));
  EXPECT_EQ(state.at("opt_state/row/dense0/kernel").shape(), (Shape{1, 5}));
  EXPECT_EQ(state.at("opt_state/column/dense0/kernel").shape(), (Shape{7, 1}));
  EXPECT_EQ(state.at("opt_state/nu/dense1/kernel").shape(), (Shape{5, 3}));
  std::map<std::string, Matrix> params;
  std::map<std::string, std::vector<double>> rows, columns, whole;
  const std::map<std::string, std::pair<std::size_t, std::size_t>> shapes{
      {"dense0/kernel", {7, 5}}, {"dense0/bias", {1, 5}}, {"dense1/kernel", {5, 3}}, {"dense1/bias", {1, 3}}};
  const auto matrix = [&](const std::string& collection, const std::string& path) {
    Matrix result(shapes.at(path).first, shapes.at(path).second);
    const std::vector<float> values = leaves(state, collection)[path];
    std::copy(values.begin(), values.end(), result.values.begin());
    return result;
  };
  for (const auto& [path, shape] : shapes) {
    params.emplace(path, matrix("params", path));
    rows[path].resize(shape.second);
    columns[path].resize(shape.first);
    whole[path].resize(shape.first * shape.second);
  }
  // Biases start at 0.
  for (int t = 1; t <= 5; ++t) {
    set_grads(state, t);
    const double keep = 1 - std::pow(t, -0.8);
    for (const auto& [path, shape] : shapes) {
      const Matrix g = matrix("grads", path);
      Matrix u(g.rows, g.columns);
      if (path == "dense0/kernel") {
        std::vector<double>&row = rows[path], &column = columns[path];
        double mean = 0;
        for (std::size_t j = 0; j < 5; ++j) {
          double of_axis = 0;
          for (std::size_t i = 0; i < 7; ++i) of_axis += (g.at(i, j) * g.at(i, j) + 1e-30) / 7;
          row[j] = keep * row[j] + (1 - keep) * of_axis;
          mean += row[j] / 5;
        }
        for (std::size_t i = 0; i < 7; ++i) {
          double of_axis = 0;
          for (std::size_t j = 0; j < 5; ++j) of_axis += (g.at(i, j) * g.at(i, j) + 1e-30) / 5;
          column[i] = keep * column[i] + (1 - keep) * of_axis;
        }
        for (std::size_t i = 0; i < 7; ++i) {
          for (std::size_t j = 0; j < 5; ++j) u.at(i, j) = g.at(i, j) / std::sqrt(row[j] / mean * column[i]);
        }
      } else {
        for (std::size_t i = 0; i < u.values.size(); ++i) {
          double& nu = whole[path][i];
          nu = keep * nu + (1 - keep) * (g.values[i] * g.values[i] + 1e-30);
          u.values[i] = g.values[i] / std::sqrt(nu);
        }
      }
      Matrix& p = params.at(path);
      const double factor = 0.1 * std::max(p.root_mean_square(), 1e-3) / std::max(1.0, u.root_mean_square());
      p = sum(1, p, -factor, u);
    }
    state.apply_gradients();
  }
  for (const auto& [path, expected] : params) {
    const Matrix found = matrix("params", path);
    for (std::size_t i = 0; i < found.values.size(); ++i) {
      EXPECT_NEAR(found.values[i], expected.values[i], 64 * kUnit) << path;
    }
  }
}

}  // namespace
}  // namespace giro::optim
