// A run is saved, changed in one thing, and resumed. What would mean something else is an error that names the thing,
// the saved value and the new one. What is harmless goes on.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include <giro/callbacks/checkpoint.h>
#include <giro/callbacks/csv_logger.h>
#include <giro/callbacks/early_stopping.h>
#include <giro/callbacks/reduce_on_plateau.h>
#include <giro/callbacks/resume.h>
#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/layers.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/loop/data/dataset.h>
#include <giro/loop/loop.h>
#include <giro/runtime/files/checkpoint_store.h>

#include "runtime/files/manifest.h"
#include "tests/support/expect_error.h"
#include "tests/support/saved_bytes.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/training.h"

namespace giro {
namespace {

using test::expect_error, test::expect_invalid;
using Bytes = std::map<std::string, std::vector<std::uint8_t>>;

constexpr std::int64_t kSaved = 6, kEnd = 9;  // in the middle of a window of 4 steps, and of an epoch

// All that a run consists of.
struct RunSetup {
  optim::Optimizer optimizer = optim::adam(1e-2);
  std::int64_t units = 2;
  std::vector<std::string> features = {"x", "y"};
  std::int64_t rows = 10;
  float first = 1;
  std::function<Dataset(Dataset)> order = [](const Dataset& rows) { return rows.shuffle(1).repeat().batch(4); };
  std::function<Dataset(Dataset)> after = [](const Dataset& batches) { return batches; };
  Precision precision = Precision::f32;
  std::uint64_t seed = 1;
  std::vector<Task<TrainState, Batch>> more = {};
  CheckpointOptions checkpoint = {};
  Schedule saves = last();
  std::int64_t end = kEnd, tokens_per_sample = 0, steps_per_execution = 0;
  std::vector<std::string> may_differ = {};

  Dataset data() const {
    std::vector<std::pair<std::string, HostArray>> columns;
    for (const std::string& name : features) {
      std::vector<float> values;
      for (std::int64_t i = 0; i < rows * 3; ++i) values.push_back(std::sin(1.5f * static_cast<float>(i)));
      values[0] = first;
      columns.emplace_back(name, HostArray(std::move(values), {rows, 3}));
    }
    return after(order(Dataset(columns)));
  }
};

TrainState state_of(const RunSetup& setup, const Dataset& data) {
  TrainState state = TrainState::create(
      nn::sequential(nn::dense(setup.units), nn::dense(3)), setup.optimizer,
      {.inputs = data.spec(), .seed = setup.seed, .context = Device::cpu(), .precision = setup.precision});
  for (const std::string& name : setup.may_differ) state.may_differ(name);
  return state;
}

LoopResult<TrainState> run_changed(const RunSetup& setup, const std::string& dir, std::int64_t end) {
  const Dataset data = setup.data();
  TrainState state = state_of(setup, data);
  const nn::Layer model = state.model();
  const auto step = jit(test::training([model](const nn::Params& params, const Batch& batch) {
    return mean(square(nn::cast(model(params, batch["x"]), DType::f32) - batch["x"]));
  }));
  std::vector<Task<TrainState, Batch>> tasks{{every(1), step}};
  tasks.insert(tasks.end(), setup.more.begin(), setup.more.end());
  tasks.push_back({setup.saves, backup_and_restore(dir, setup.checkpoint)});
  return loop(std::move(state), data, tasks,
              {.stop = at(end),
               .tokens_per_sample = setup.tokens_per_sample,
               .steps_per_execution = setup.steps_per_execution});
}

using Change = std::function<void(RunSetup&)>;
Change optimizer(const optim::Optimizer& to) {
  return [to](RunSetup& setup) { setup.optimizer = to; };
}
Change order(const std::function<Dataset(Dataset)>& to) {
  return [to](RunSetup& setup) { setup.order = to; };
}
Change mapped(const std::function<Dataset(Dataset)>& to) {
  return [to](RunSetup& setup) { setup.after = to; };
}
Change task(const Task<TrainState, Batch>& added) {
  return [added](RunSetup& setup) { setup.more = {added}; };
}
const Change kNone = [](RunSetup&) {};

RunSetup changed(const Change& change) {
  RunSetup setup;
  change(setup);
  return setup;
}

class ChangedRuns : public testing::Test {
 protected:
  // `of` differs, and is `now`, where the run was saved with `before`. Empty: any values.
  void refused(const std::string& of, const std::string& thing, const std::string& before, const Change& saved,
               const std::string& now, const Change& resumed) {
    SCOPED_TRACE(thing + ": " + before + " to " + now);
    const test::TemporaryDirectory dir;
    (void)run_changed(changed(saved), dir.path(), kSaved);
    try {
      (void)run_changed(changed(resumed), dir.path(), kEnd);
      ADD_FAILURE() << "goes on";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      const std::string text = error.what();
      const std::string found = of + " differs from that of the saved run: " + thing + ": found " + now;
      const std::size_t at = text.find(found);
      ASSERT_NE(at, std::string::npos) << text;
      const std::string rest = text.substr(at + found.size()), expected = ", expected " + before;
      EXPECT_EQ(now.empty() ? rest.find(expected) != std::string::npos : rest.starts_with(expected + "; "), true)
          << text;
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    }
    // Nothing has happened to the saved run.
    EXPECT_EQ(run_changed(changed(saved), dir.path(), kEnd).elapsed.steps, kEnd);
  }
  void state_refused(const std::string& thing, const std::string& before, const Change& saved, const std::string& now,
                     const Change& resumed) {
    refused("the state", thing, before, saved, now, resumed);
  }
  void data_refused(const std::string& thing, const std::string& before, const Change& saved, const std::string& now,
                    const Change& resumed) {
    refused("the dataset", thing, before, saved, now, resumed);
  }
  // Goes on, and gives the parameters of a run that was neither interrupted nor changed, if `same_bits`.
  void harmless(const std::string& thing, bool same_bits, const Change& saved, const Change& resumed) {
    SCOPED_TRACE(thing);
    const test::TemporaryDirectory dir, whole;
    (void)run_changed(changed(saved), dir.path(), kSaved);
    const RunSetup setup = changed(resumed);
    const auto result = run_changed(setup, dir.path(), setup.end);
    EXPECT_EQ(result.elapsed.steps, setup.end);
    if (!same_bits) return;
    const auto uninterrupted = run_changed(changed(saved), whole.path(), setup.end);
    EXPECT_EQ(test::saved_bytes(result.state), test::saved_bytes(uninterrupted.state));
  }
};

using namespace optim;

const Change kAdam = optimizer(adam(1e-2));

TEST_F(ChangedRuns, WindowsAndUnitsOfUpdatesAreRefused) {
  const auto windows = [](int steps) { return optimizer(accumulate(steps, adam(linear(1.0, 0.0, 100)))); };
  state_refused("accumulate", "2", windows(2), "4", windows(4));
  state_refused("accumulate", "4", windows(4), "2", windows(2));
  state_refused("accumulate", "4", windows(4), "3", windows(3));
  state_refused("accumulate", "1", kAdam, "2", windows(2));
  state_refused("accumulate", "4", windows(4), "1", kAdam);
  const test::TemporaryDirectory dir;
  const auto tokens = [&](std::int64_t each, std::int64_t end) {
    (void)run_changed(changed([each](RunSetup& setup) { setup.tokens_per_sample = each; }), dir.path(), end);
  };
  tokens(8, kSaved);
  expect_invalid({"tokens_per_sample is 16, expected 8"}, [&] { tokens(16, kEnd); });
}

TEST_F(ChangedRuns, AnotherChainOfOptimizersIsRefused) {
  const auto norm = [](const Optimizer& inner) { return clip_by_global_norm(1, inner); };
  const Optimizer plain = adam(1e-2);
  const auto chain = [&](const std::string& before, const Optimizer& saved, const std::string& now,
                         const Optimizer& resumed) {
    state_refused("optimizer", before, optimizer(saved), now, optimizer(resumed));
  };
  chain("adam", plain, "adamw", adamw(1e-2));
  chain("adam", plain, "sgd", sgd(1e-2));
  chain("sgd", sgd(1e-2, {.momentum = 0.9}), "lion", lion(1e-2));  // both have moments "mu"
  chain("adagrad", adagrad(1e-2), "rmsprop", rmsprop(1e-2));
  chain("adam", plain, "clip_by_global_norm(adam)", norm(plain));
  chain("clip_by_global_norm(adam)", norm(plain), "adam", plain);
  chain("clip_by_value(adam)", clip_by_value(1, plain), "clip_by_global_norm(adam)", norm(plain));
  chain("clip_by_global_norm(ema(adam))", norm(ema(0.9, plain)), "ema(clip_by_global_norm(adam))",
        ema(0.9, norm(plain)));
  chain("adam", plain, "ema(adam)", ema(0.9, plain));
  chain("ema(adam)", ema(0.9, plain), "adam", plain);
  chain("adam", plain, "lookahead(adam)", lookahead(plain));
  chain("muon", muon(1e-2), "adamw", adamw(1e-2));
  chain("adafactor", adafactor(1e-2), "adam", plain);
  chain("adam", plain, "by_path", by_path({{"**", plain}}));
  const auto own = [](const std::string& name) {
    return make(name, [](Update& u) {
      u.set_param(u.param() - 0.1 * u.moment("mu"));
      u.set_moment("mu", u.grad());
    });
  };
  chain("mine", own("mine"), "yours", own("yours"));
  const auto biases = [](const Optimizer& of_biases) {
    return optimizer(by_path({{"**/bias", of_biases}, {"**", adam(1e-2)}}));
  };
  state_refused("optimizer of dense0/bias", "sgd", biases(sgd(1e-2)), "adam", biases(adam(1e-2)));
  state_refused("optimizer of dense0/bias", "frozen", biases(frozen()), "sgd", biases(sgd(1e-2)));
  state_refused("moments", "none", optimizer(sgd(1e-2)), "mu f32", optimizer(sgd(1e-2, {.momentum = 0.9})));
  state_refused("moments", "mu f32", optimizer(sgd(1e-2, {.momentum = 0.9})), "none", optimizer(sgd(1e-2)));
  state_refused("moments", "nu f32", optimizer(rmsprop(1e-2)), "nu f32, mu f32",
                optimizer(rmsprop(1e-2, {.centered = true})));
}

TEST_F(ChangedRuns, AnotherOrderOfDataIsRefused) {
  const auto drawn = [](double weight, std::uint64_t seed) {
    return order([=](const Dataset& rows) {
      std::vector<double> weights(10, 1);
      weights[0] = weight;
      return rows.sample(weights, seed).repeat().batch(4);
    });
  };
  const auto batch = [](std::int64_t size) {
    return order([=](const Dataset& rows) { return rows.shuffle(1).repeat().batch(size); });
  };
  const Change unshuffled = order([](const Dataset& rows) { return rows.repeat().batch(4); });
  const Change seed_2 = order([](const Dataset& rows) { return rows.shuffle(2).repeat().batch(4); });
  const auto rows = [](std::int64_t count) { return [count](RunSetup& setup) { setup.rows = count; }; };
  data_refused("batch_size", "4", kNone, "2", batch(2));
  data_refused("batch_size", "4", kNone, "3", batch(3));
  data_refused("batch_size", "2", batch(2), "4", kNone);
  data_refused("seed", "1", kNone, "2", seed_2);
  data_refused("shuffled", "true", kNone, "false", unshuffled);
  data_refused("shuffled", "false", unshuffled, "true", kNone);
  data_refused("num_rows", "10", kNone, "11", rows(11));
  data_refused("seed", "3", drawn(1, 3), "4", drawn(1, 4));
  // Of values, only checksums are saved.
  const auto other_values = [&](const std::string& thing, const Change& saved, const Change& resumed) {
    refused("the dataset", thing, "", saved, "", resumed);
  };
  other_values("weights", drawn(1, 3), drawn(2, 3));
  other_values("weights", drawn(1, 3), unshuffled);
  other_values("weights", unshuffled, drawn(1, 3));
  other_values("checksums", kNone, [](RunSetup& setup) { setup.first = 2; });
  other_values("checksums", kNone, [](RunSetup& setup) { setup.features = {"x", "z"}; });
  other_values("checksums", kNone, [](RunSetup& setup) { setup.features = {"x"}; });
}

TEST_F(ChangedRuns, AnotherMonitorIsRefused) {
  const auto stops = [](const std::string& entry) {
    return task({every(1), early_stopping(entry, {.patience = 100, .mode = "min"})});
  };
  const auto reduces = [](const std::string& entry) {
    return task({every(1), reduce_on_plateau(entry, {.patience = 100, .mode = "min"})});
  };
  refused("the monitor", "entry", "loss", stops("loss"), "error", stops("error"));
  refused("the monitor", "entry", "loss", reduces("loss"), "error", reduces("error"));
  const auto stops_by = [](const std::string& mode) {
    return task({every(1), early_stopping("loss", {.patience = 100, .mode = mode})});
  };
  refused("the monitor", "mode", "min", stops_by("min"), "max", stops_by("max"));
  refused("the monitor", "mode", "min", stops_by("auto"), "max", stops_by("max"));
}

TEST_F(ChangedRuns, AnotherModelIsRefused) {
  const test::TemporaryDirectory dir;
  (void)run_changed(RunSetup(), dir.path(), kSaved);
  expect_error(ErrorCode::shape_mismatch, {dir.path(), "params/dense0/kernel", "(3, 2)", "(3, 4)"},
               [&] { (void)run_changed(changed([](RunSetup& setup) { setup.units = 4; }), dir.path(), kEnd); });
}

TEST_F(ChangedRuns, WhatIsHarmlessGoesOn) {
  const auto rate = [](const LearningRate& rate) { return optimizer(adam(rate)); };
  harmless("rate", false, kAdam, rate(2e-2));
  harmless("schedule", false, kAdam, rate(cosine(1e-2, 100)));
  harmless("steps of a schedule", false, rate(cosine(1e-2, 100)), rate(cosine(1e-2, 200)));
  harmless("rate while gradients are accumulated", false, optimizer(accumulate(4, adam(1e-2))),
           optimizer(accumulate(4, adam(2e-2))));
  harmless("b1", false, kAdam, optimizer(adam(1e-2, {.b1 = 0.8})));
  harmless("eps", false, kAdam, optimizer(adam(1e-2, {.eps = 1e-6})));
  harmless("weight decay", false, optimizer(adamw(1e-2)), optimizer(adamw(1e-2, {.weight_decay = 0.1})));
  harmless("decay mask", false, optimizer(adamw(1e-2)),
           optimizer(adamw(1e-2, {.decay_mask = [](const std::string& path) { return path == "dense0/kernel"; }})));
  harmless("nesterov", false, optimizer(sgd(1e-2, {.momentum = 0.9})),
           optimizer(sgd(1e-2, {.momentum = 0.9, .nesterov = true})));
  harmless("largest norm", false, optimizer(clip_by_global_norm(1, adam(1e-2))),
           optimizer(clip_by_global_norm(0.1, adam(1e-2))));
  harmless("largest value", false, optimizer(clip_by_value(1, adam(1e-2))), optimizer(clip_by_value(2, adam(1e-2))));
  harmless("decay of the average", false, optimizer(ema(0.9, adam(1e-2))), optimizer(ema(0.99, adam(1e-2))));
  harmless("how the mode is said", true, task({every(1), early_stopping("loss", {.patience = 100, .mode = "min"})}),
           task({every(1), early_stopping("loss", {.patience = 100})}));
  harmless("lookahead", false, optimizer(lookahead(adam(1e-2), 5, 0.5)), optimizer(lookahead(adam(1e-2), 4, 0.2)));
  harmless("options of muon", false, optimizer(muon(1e-2)), optimizer(muon(1e-2, {.ns_steps = 3})));
  harmless("rate of some leaves", false, optimizer(by_path({{"**/bias", sgd(1)}, {"**", adam(1e-2)}})),
           optimizer(by_path({{"**/bias", sgd(0.1)}, {"**", adam(1e-2)}})));
  harmless("pattern of the same leaves", true, optimizer(by_path({{"**/bias", sgd(1)}, {"**", adam(1e-2)}})),
           optimizer(by_path({{"*/bias", sgd(1)}, {"**", adam(1e-2)}})));
  harmless("seed of the state", true, kNone, [](RunSetup& setup) { setup.seed = 2; });
  harmless("total steps", true, kNone, [](RunSetup& setup) { setup.end = 12; });
  harmless("steps per execution", true, kNone, [](RunSetup& setup) { setup.steps_per_execution = 1; });
  harmless("tokens, newly counted", true, kNone, [](RunSetup& setup) { setup.tokens_per_sample = 8; });
  harmless("saves", true, kNone, [](RunSetup& setup) {
    setup.saves = every(2) | last();
    setup.checkpoint.keep = 3;
  });
  const test::TemporaryDirectory logs;
  const auto log = [&](std::int64_t steps) { return task({every(steps), csv_logger(logs / "log.csv")}); };
  harmless("log interval", true, log(1), log(2));
  harmless("a new callback", true, kNone, task({every(1), early_stopping("loss", {.patience = 100, .mode = "min"})}));
  harmless("a callback that is gone", true, task({every(1), early_stopping("loss", {.patience = 100, .mode = "min"})}),
           kNone);
  harmless("prefetch", true, kNone, mapped([](const Dataset& data) { return data.prefetch(2); }));
  harmless("resident data", true, kNone, mapped([](const Dataset& data) { return data.to(Device::cpu()); }));
  harmless("epochs", true, kNone, order([](const Dataset& rows) { return rows.shuffle(1).repeat(9).batch(4); }));
  harmless("the last batch", true, kNone,
           order([](const Dataset& rows) { return rows.shuffle(1).repeat().batch(4, /*drop_remainder=*/true); }));
  harmless("map", true, kNone, mapped([](const Dataset& data) { return data.map([](const Batch& b) { return b; }); }));
}

TEST_F(ChangedRuns, WhatMayDifferGoesOn) {
  const test::TemporaryDirectory dir;
  const RunSetup saved = changed(optimizer(accumulate(2, adam(1e-2))));
  (void)run_changed(saved, dir.path(), kSaved);
  RunSetup setup = changed(optimizer(accumulate(4, clip_by_global_norm(1, adam(1e-2)))));
  setup.may_differ = {"optimizer"};
  expect_invalid({"accumulate: found 4, expected 2", "may_differ(\"accumulate\")", "load_into"},
                 [&] { (void)run_changed(setup, dir.path(), kEnd); });
  setup.may_differ = {"optimizer", "accumulate"};
  EXPECT_EQ(run_changed(setup, dir.path(), kEnd).elapsed.steps, kEnd);
  // From here on, it is a run with these.
  setup.may_differ = {};
  EXPECT_EQ(run_changed(setup, dir.path(), kEnd + 3).elapsed.steps, kEnd + 3);
  setup.may_differ = {"acumulate"};
  expect_error(ErrorCode::not_found, {"'acumulate'", "did you mean 'accumulate'?"},
               [&] { (void)run_changed(setup, dir.path(), kEnd); });
}

// Before states declared anything.
TEST_F(ChangedRuns, OlderCheckpointsGoOn) {
  const test::TemporaryDirectory dir;
  (void)run_changed(RunSetup(), dir.path(), kSaved);
  const std::string unit = CheckpointStore(dir.path()).latest()->path;
  detail::Manifest manifest = detail::read_manifest(*posix_file_system(), unit);
  auto memory = nlohmann::ordered_json::parse(manifest.memory);
  ASSERT_EQ(memory.erase("state"), 1u);
  manifest.memory = memory.dump();
  test::write_text(unit + "/checkpoint.json", detail::manifest_text(manifest));
  const RunSetup setup = changed(optimizer(clip_by_global_norm(1, adam(1e-2))));
  EXPECT_EQ(run_changed(setup, dir.path(), kEnd).elapsed.steps, kEnd);
}

TEST_F(ChangedRuns, LoopByHandIsRefused) {
  const test::TemporaryDirectory dir;
  const Dataset data = RunSetup().data();
  const TrainState saved = state_of(changed(optimizer(accumulate(2, adam(1e-2)))), data);
  checkpoint(dir.path())(Elapsed(), saved);
  TrainState other = state_of(changed(optimizer(accumulate(4, adam(1e-2)))), data);
  const Bytes before = test::saved_bytes(other);
  expect_invalid({dir.path(), "accumulate: found 4, expected 2"}, [&] { (void)restore(other, dir.path()); });
  EXPECT_EQ(test::saved_bytes(other), before);
  TrainState same = saved.clone();
  (void)restore(same, dir.path());
}

TEST_F(ChangedRuns, PartOfATreeIsRefused) {
  struct Pair : TrainState {
    Pair(TrainState first, TrainState second) : TrainState(std::move(first)), other(std::move(second)) {
      attach("other", other);
    }
    TrainState other;
  };
  const test::TemporaryDirectory dir;
  const Dataset data = RunSetup().data();
  const DeviceContext context(Device::cpu());
  const auto pair = [&](const Optimizer& of_other) {
    const auto make = [&](const Optimizer& optimizer) {
      return TrainState::create(nn::dense(3), optimizer, {.inputs = data.spec(), .context = context});
    };
    return Pair(make(adam(1e-2)), make(of_other));
  };
  checkpoint(dir.path())(Elapsed(), pair(adam(1e-2)));
  Pair same = pair(adam(1e-3)), changed = pair(clip_by_value(1, adam(1e-2)));
  (void)restore(same, dir.path());
  expect_invalid({"other/optimizer: found clip_by_value(adam), expected adam"},
                 [&] { (void)restore(changed, dir.path()); });
}

}  // namespace
}  // namespace giro
