// flax-extra's own numbers, and giro's additional guarantees.

#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <giro/callbacks/flip/checkpoint_files.h>
#include <giro/callbacks/flip/eval_loop.h>
#include <giro/callbacks/flip/serial.h>
#include <giro/callbacks/flip/summary_logger.h>
#include <giro/callbacks/flip/summary_writer.h>
#include <giro/callbacks/flip/train_loop.h>
#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/layers.h>
#include <giro/loop/data/any_dataset.h>
#include <giro/loop/data/dataset.h>
#include <giro/loop/loop.h>
#include <giro/loop/step/step.h>
#include <giro/runtime/files/checkpoint_store.h>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/training.h"

namespace giro::flip {
namespace {

using test::expect_error, test::expect_invalid, test::TemporaryDirectory;
using Steps = std::vector<std::int64_t>;
using Lines = std::vector<std::string>;

Dataset rows(std::int64_t count) {
  std::vector<float> x(static_cast<std::size_t>(count)), y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = std::sin(static_cast<float>(i));
    y[i] = 2 * x[i] + 1;
  }
  return Dataset({{"x", HostArray(x, {count, 1})}, {"y", HostArray(y, {count, 1})}});
}
Dataset training_data() { return rows(64).shuffle(1).repeat().batch(8); }

nn::Var squared_error(const nn::Var& outputs, const Batch& batch) {
  return nn::mean(nn::square(nn::subtract(outputs, batch["y"])));
}

TrainTask task() {
  return {.model = nn::dense(1), .optimizer = optim::adam(0.05), .loss = squared_error, .data = training_data()};
}
TrainLoopOptions options(std::int64_t n_steps_per_checkpoint, std::int64_t n_steps) {
  return {.task = task(),
          .n_steps_per_checkpoint = n_steps_per_checkpoint,
          .n_steps = n_steps,
          .seed = 7,
          .device = Device::cpu()};
}
EvalLoop eval_loop(const std::string& group = "eval") {
  return EvalLoop({.task = {.metrics = {{"mse", squared_error}}, .data = rows(20).batch(8)}, .group = group});
}

std::vector<float> params_of(const TrainState& state) {
  return to_host<float>(state.collection("params").flat(), state.stream());
}
std::vector<float> moments_of(const TrainState& state) {
  return to_host<float>(state.collection("opt_state/nu").flat(), state.stream());
}
// The state after this many steps of a plain loop.
TrainState plain(std::int64_t steps) {
  const TrainTask what = task();
  const auto step = jit(test::training([&](const nn::Params& params, const Batch& batch) {
    return squared_error(what.model(params, batch["x"]), batch);
  }));
  return loop(TrainState::create(what.model, what.optimizer,
                                 {.inputs = (*what.data.begin()).spec(), .seed = 7, .context = Device::cpu()}),
              what.data, {{every(1), step}}, {.stop = at(steps)})
      .state;
}

// "N=5, total 10 -> 1, 6, 10 (with 1, 5, 4 steps run)"
TEST(Flip, YieldsCheckpointsAtTheirSteps) {
  const auto steps_of = [](auto&& checkpoints) {
    Steps at, completed;
    for (const Checkpoint& checkpoint : checkpoints) {
      at.push_back(checkpoint.step);
      completed.push_back(checkpoint.n_completed_steps);
      EXPECT_GT(checkpoint.elapsed_time, 0);
    }
    return std::pair{at, completed};
  };
  EXPECT_EQ(steps_of(TrainLoop(options(5, 10))), (std::pair{Steps{1, 6, 10}, Steps{1, 5, 4}}));
  EXPECT_EQ(steps_of(TrainLoop(options(3, 8))), (std::pair{Steps{1, 4, 7, 8}, Steps{1, 3, 3, 1}}));
  EXPECT_EQ(steps_of(TrainLoop(options(1, 3))), (std::pair{Steps{1, 2, 3}, Steps{1, 1, 1}}));

  // "target 1+N+N*floor((s-1)/N); s=0, N=5 gives 1"; neither call overwrites n_steps.
  TrainLoop train_loop(options(5, 14));
  EXPECT_EQ(train_loop.next_checkpoint().step, 1);
  EXPECT_EQ(train_loop.next_step().step, 2);
  EXPECT_EQ(train_loop.next_checkpoint().step, 6);
  EXPECT_EQ(steps_of(train_loop(9)).first, (Steps{9}));
  EXPECT_EQ(steps_of(train_loop).first, (Steps{11, 14}));
  EXPECT_EQ(steps_of(train_loop).first, Steps{});
  EXPECT_EQ(train_loop.next_step().step, 15);
  EXPECT_EQ(train_loop.step(), 15);
}

TEST(Flip, MatchesAPlainLoop) {
  for (const std::int64_t each : {1, 3, 7, 40}) {
    TrainLoop train_loop(options(each, 20));
    std::optional<Checkpoint> last;
    for (const Checkpoint& checkpoint : train_loop) {
      if (checkpoint.step == 20) last = checkpoint;
    }
    ASSERT_TRUE(last);
    const TrainState expected = plain(20);
    EXPECT_EQ(params_of(last->state()), params_of(expected));
    EXPECT_EQ(moments_of(last->state()), moments_of(expected));
    EXPECT_EQ(last->model_params().size(), 2u);
    EXPECT_EQ(last->grads().front().path, "grads/kernel");
    EXPECT_EQ(last->optimizer_state().front().path, "opt_state/mu/kernel");
  }
}

// A held checkpoint is a value; one that is not held costs no copy.
TEST(Flip, CopiesOnlyHeldCheckpoints) {
  std::vector<Checkpoint> held;
  {
    TrainLoop train_loop(options(4, 13));
    const void* address = nullptr;
    for (const Checkpoint& checkpoint : train_loop) {
      const void* const now = checkpoint.state().at("params/kernel").raw();
      if (checkpoint.step > 1) {
        EXPECT_EQ(now, address);
      }
      address = now;
      if (checkpoint.step != 9) held.push_back(checkpoint);
    }
    EXPECT_EQ(held.back().state().at("params/kernel").raw(), address);
    EXPECT_NE(held.front().state().at("params/kernel").raw(), address);
  }
  // Also after the stream is destroyed.
  ASSERT_EQ(held.size(), 3u);
  for (const Checkpoint& checkpoint : held) {
    const TrainState expected = plain(checkpoint.step);
    EXPECT_EQ(params_of(checkpoint.state()), params_of(expected)) << checkpoint.step;
    EXPECT_EQ(moments_of(checkpoint.state()), moments_of(expected)) << checkpoint.step;
  }
  // They can be evaluated as if the stream were at their step.
  EvalLoop evaluate = eval_loop();
  TrainLoop again(options(4, 13));
  std::vector<double> values;
  for (const Checkpoint& checkpoint : again) {
    if (checkpoint.step != 9) values.push_back(evaluate(checkpoint).metric("eval", "mse"));
  }
  for (std::size_t i = 0; i < held.size(); ++i) EXPECT_EQ(evaluate(held[i]).metric("eval", "mse"), values[i]);
}

// A training that ends after each of its checkpoints and is restarted.
TEST(Flip, ContinuesFromCheckpoint) {
  const TemporaryDirectory dir;
  std::vector<float> params;
  Steps steps;
  for (int run = 0; run < 10 && (steps.empty() || steps.back() < 17); ++run) {
    TrainLoopOptions of_run = options(5, 17);
    of_run.init = CheckpointFileReader(dir.path() + "/checkpoints");
    TrainLoop train_loop(std::move(of_run));
    CheckpointFileWriter write(dir.path() + "/checkpoints");
    for (const Checkpoint& checkpoint : train_loop) {
      (void)write(checkpoint);
      steps.push_back(checkpoint.step);
      params = params_of(checkpoint.state());
      break;
    }
  }
  EXPECT_EQ(steps, (Steps{1, 6, 11, 16, 17}));
  EXPECT_EQ(params, params_of(plain(17)));
  EXPECT_EQ(CheckpointStore(dir.path() + "/checkpoints").all().size(), 1u);
}

TEST(Flip, Evaluates) {
  TrainLoop train_loop(options(5, 6));
  EvalLoop evaluate = eval_loop();
  for (const Checkpoint& checkpoint : train_loop) {
    const Stream& stream = checkpoint.state().stream();
    const auto number = [&](const Tensor& value) { return to_host<float>(value, stream).front(); };
    const auto before = params_of(checkpoint.state());
    const Summary summary = evaluate(checkpoint);
    const std::vector<float>& params = before;  // bias and kernel, in any order
    EXPECT_EQ(params_of(checkpoint.state()), before);

    // The mean over rows; the last batch has 4 rows instead of 8.
    const float kernel = number(checkpoint.state().at("params/kernel"));
    const float bias = number(checkpoint.state().at("params/bias"));
    double squares = 0;
    for (int i = 0; i < 20; ++i) {
      const double x = std::sin(static_cast<float>(i)), error = kernel * x + bias - (2 * x + 1);
      squares += error * error;
    }
    EXPECT_NEAR(summary.metric("eval", "mse"), squares / 20, 1e-6 * squares);

    double gradients = 0, weights = 0;
    for (const Leaf& leaf : checkpoint.grads()) gradients += std::pow(double{number(leaf.value)}, 2);
    for (const float param : params) weights += double{param} * param;
    EXPECT_GT(gradients, 0);
    EXPECT_NEAR(summary.metric("train", "gradients_l2norm"), std::sqrt(gradients), 1e-6);
    EXPECT_NEAR(summary.metric("train", "weights_l2norm"), std::sqrt(weights), 1e-6);
    EXPECT_EQ(summary.metric("train", "loss"), checkpoint.loss);
    EXPECT_EQ(summary.metric("train", "seconds_per_step"),
              checkpoint.elapsed_time / static_cast<double>(checkpoint.n_completed_steps));

    const Summary twice = eval_loop("test")(summary);
    EXPECT_EQ(twice.metrics.size(), 6u);
    EXPECT_EQ(twice.metric("test", "mse"), twice.metric("eval", "mse"));
    expect_error(ErrorCode::not_found, {"'eval/mae'", "'eval/mse'"}, [&] { (void)twice.metric("eval", "mae"); });
  }
}

std::string read_back(std::FILE* file) {
  std::rewind(file);
  std::string text(2'000, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

TEST(Flip, ShowsSummariesAsFlaxExtra) {
  TrainLoop train_loop(options(1, 1));
  Summary summary = train_loop.next_step();
  summary.step = 7;
  summary.elapsed_time = 15.90994287;
  summary.metrics = {{"train", "seconds_per_step", 15.90994287},
                     {"train", "gradients_l2norm", 0.00417352},
                     {"train", "weights_l2norm", 19.82766914},
                     {"train", "loss", 7.84606361},
                     {"eval", "lnpp", 5.54795837}};
  std::FILE* const file = std::tmpfile();
  EXPECT_EQ(SummaryLogger(file)(summary).metrics.size(), 5u);
  EXPECT_EQ(read_back(file),
            "Step      7: Ran 1 train steps in 15.91 seconds\n"
            "Step      7: train seconds_per_step | 15.90994287\n"
            "Step      7: train gradients_l2norm | 0.00417352\n"
            "Step      7: train   weights_l2norm | 19.82766914\n"
            "Step      7: train             loss | 7.84606361\n"
            "Step      7: eval              lnpp | 5.54795837\n"
            "\n");
}

// It finds its place in the data by the number of steps.
TEST(Flip, ContinuesOnlyTheSameTraining) {
  const TemporaryDirectory dir;
  TrainLoop first(options(5, 6));
  CheckpointFileWriter write(dir.path());
  for (const Checkpoint& checkpoint : first) (void)write(checkpoint);
  const auto continues = [&](TrainTask changed) {
    TrainLoopOptions of_run = options(5, 11);
    of_run.task = std::move(changed);
    of_run.init = CheckpointFileReader(dir.path());
    EXPECT_EQ(TrainLoop(std::move(of_run)).step(), 6);
  };
  TrainTask changed = task();
  changed.data = rows(64).shuffle(1).repeat().batch(4);
  expect_invalid({dir.path(), "dataset/batch_size: found 4, expected 8"}, [&] { continues(changed); });
  changed.data = rows(64).shuffle(2).repeat().batch(8);
  expect_invalid({"dataset/seed: found 2, expected 1"}, [&] { continues(changed); });
  changed = task();
  changed.optimizer = optim::accumulate(2, changed.optimizer);
  expect_invalid({"accumulate: found 2, expected 1"}, [&] { continues(changed); });
  changed.optimizer = optim::adam(0.01);
  continues(changed);
}

TEST(Flip, LogsWhatItDoes) {
  const TemporaryDirectory dir;
  Lines lines;
  const auto train_loop = [&] {
    lines.clear();
    TrainLoopOptions with_log = options(1, 2);
    with_log.init = CheckpointFileReader(dir.path() + "/checkpoints");
    with_log.log = [&](const std::string& line) { lines.push_back(line); };
    return TrainLoop(std::move(with_log));
  };
  CheckpointFileWriter write(dir.path() + "/checkpoints");
  for (const Checkpoint& checkpoint : train_loop()) (void)write(checkpoint);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].substr(0, 35), "Total model initialization time is ");
  EXPECT_EQ(lines[1], "Total number of trainable weights: 2 ~ 0.0 MB.");
  for (const Checkpoint& checkpoint : train_loop()) ADD_FAILURE() << checkpoint.step;
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0].substr(0, 27), "A checkpoint was loaded in ");
  EXPECT_EQ(lines[3], "Stop training, already reached the total training steps 2.");
}

// The steps at which a metric with these values at steps 1, 2, 3, ... is saved.
template <class Writer>
Steps saved_steps(const std::string& dir, const std::vector<double>& values, Lines* lines = nullptr) {
  TrainLoop train_loop(options(1, static_cast<std::int64_t>(values.size())));
  Writer write(dir, "lnpp", "eval", [&](const std::string& line) {
    if (lines != nullptr) lines->push_back(line);
  });
  Steps saved;
  for (Summary summary : train_loop) {
    summary.metrics = {{"eval", "lnpp", values[static_cast<std::size_t>(summary.step) - 1]}};
    (void)write(summary);
    for (const auto& name : {"lowest_eval_lnpp", "highest_eval_lnpp"}) {
      if (CheckpointStore(dir + "/" + name).latest_steps() == summary.step) saved.push_back(summary.step);
    }
  }
  return saved;
}

TEST(Flip, SavesTheBest) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const TemporaryDirectory dir;
  EXPECT_EQ(saved_steps<LowestCheckpointFileWriter>(dir.path() + "/a", {nan, 3, 1, 1, 2, nan, 0, 0.5}),
            (Steps{2, 3, 4, 7}));
  EXPECT_EQ(saved_steps<HighestCheckpointFileWriter>(dir.path() + "/b", {nan, -1, 0, -2, 0, 1}), (Steps{2, 3, 5, 6}));

  // A checkpoint of this step or an earlier one is already stored; 0 is an ordinary value.
  Lines lines;
  TrainLoop train_loop(options(1, 9));
  (void)train_loop(8);
  LowestCheckpointFileWriter write(dir.path() + "/a", "lnpp", "eval",
                                   [&](const std::string& line) { lines.push_back(line); });
  for (Summary summary : train_loop) {
    summary.metrics = {{"eval", "lnpp", summary.step == 9 ? 0.0 : 0.25}};
    if (summary.step >= 7) (void)write(summary);
  }
  EXPECT_EQ(lines, (Lines{"The lowest value for the metric eval/lnpp is set to 0.00000000."}));
  EXPECT_EQ(CheckpointStore(dir.path() + "/a/lowest_eval_lnpp").latest_steps(), 9);
  EXPECT_EQ(CheckpointStore(dir.path() + "/a/lowest_eval_lnpp").latest()->record.best, 0.0);

  TrainLoopOptions from_best = options(1, 10);
  from_best.init = LowestCheckpointFileReader(dir.path() + "/a", "lnpp");
  EXPECT_EQ(TrainLoop(std::move(from_best)).step(), 9);
  from_best = options(1, 10);
  from_best.init = HighestCheckpointFileReader(dir.path() + "/b", "lnpp");
  EXPECT_EQ(TrainLoop(std::move(from_best)).step(), 6);
}

TEST(Flip, StagesOfAPipeline) {
  const TemporaryDirectory dir;
  TrainLoop train_loop(options(5, 10));
  std::FILE* const file = std::tmpfile();
  Steps seen;
  auto process = serial(eval_loop(), SummaryLogger(file), SummaryWriter(dir.path() + "/tensorboard"),
                        CheckpointFileWriter(dir.path() + "/new", 2),
                        LowestCheckpointFileWriter(dir.path() + "/new", "mse"), [&](Summary summary) {
                          seen.push_back(summary.step);
                          return summary;
                        });
  std::optional<Summary> last;
  for (const Checkpoint& checkpoint : train_loop) last = process(checkpoint);
  EXPECT_EQ(seen, (Steps{1, 6, 10}));
  ASSERT_TRUE(last);
  EXPECT_EQ(params_of(last->state()), params_of(plain(10)));
  EXPECT_EQ(CheckpointStore(dir.path() + "/new").all().size(), 2u);
  const std::string shown = read_back(file);
  EXPECT_NE(shown.find("Step     10: eval               mse | "), std::string::npos) << shown;
  EXPECT_FALSE(std::filesystem::is_empty(dir.path() + "/tensorboard"));
}

TEST(Flip, SignalAtTheLastCheckpointIsNotLost) {
  TrainLoop train_loop(options(5, 6));
  for (const Checkpoint& checkpoint : train_loop) {
    if (checkpoint.step == 6) std::raise(SIGTERM);
  }
  EXPECT_EQ(train_loop.interrupted(), SIGTERM);
}

// A later checkpoint than the best one exists.
TEST(Flip, ContinuesFromTheBest) {
  const TemporaryDirectory dir;
  Steps steps;
  const auto train = [&](const std::vector<double>& values) {
    TrainLoopOptions from_best = options(1, static_cast<std::int64_t>(values.size()));
    from_best.init = LowestCheckpointFileReader(dir.path(), "lnpp");
    auto process = serial(
        [&](Summary summary) {
          summary.metrics.push_back({"eval", "lnpp", values[static_cast<std::size_t>(summary.step) - 1]});
          return summary;
        },
        eval_loop("test"), CheckpointFileWriter(dir.path()), LowestCheckpointFileWriter(dir.path(), "lnpp"));
    TrainLoop train_loop(std::move(from_best));
    for (const Checkpoint& checkpoint : train_loop) {
      steps.push_back(checkpoint.step);
      EXPECT_EQ(process(checkpoint).metric("train", "loss"), checkpoint.loss);
    }
  };
  train({3, 1, 2, 4});
  train({3, 1, 0.5, 4});
  EXPECT_EQ(steps, (Steps{1, 2, 3, 4, 3, 4}));
  EXPECT_EQ(CheckpointStore(dir.path()).latest_steps(), 4);
  EXPECT_EQ(CheckpointStore(dir.path() + "/lowest_eval_lnpp").latest_steps(), 3);
}

// The process fails between the two writers, as if it were killed there.
TEST(Flip, BestIsNotLostBetweenTwoWriters) {
  const TemporaryDirectory dir;
  const auto train = [&](std::int64_t fails) {
    TrainLoopOptions goes_on = options(1, 4);
    goes_on.init = CheckpointFileReader(dir.path());
    TrainLoop train_loop(std::move(goes_on));
    auto process = serial(
        [](Summary summary) {
          summary.metrics = {{"eval", "lnpp", summary.step == 2 ? 1. : 2.}};
          return summary;
        },
        CheckpointFileWriter(dir.path()),
        [&](Summary summary) {
          if (summary.step == fails) throw std::runtime_error("between the writers");
          return summary;
        },
        LowestCheckpointFileWriter(dir.path(), "lnpp"));
    for (const Checkpoint& checkpoint : train_loop) process(checkpoint);
  };
  EXPECT_THROW(train(2), std::runtime_error);
  EXPECT_EQ(CheckpointStore(dir.path()).latest_steps(), 1);
  train(-1);
  EXPECT_EQ(CheckpointStore(dir.path()).latest_steps(), 4);
  EXPECT_EQ(CheckpointStore(dir.path() + "/lowest_eval_lnpp").latest_steps(), 2);
}

// A signal in the loop's body, for example during an evaluation, is remembered; the stream ends after one more step.
TEST(Flip, SignalEndsTheStream) {
  TrainLoop train_loop(options(10, 100));
  EvalLoop evaluate = eval_loop();
  Steps steps;
  for (const Checkpoint& checkpoint : train_loop) {
    steps.push_back(checkpoint.step);
    if (checkpoint.step == 11) std::raise(SIGINT);
    EXPECT_GT(evaluate(checkpoint).metric("eval", "mse"), 0);
  }
  EXPECT_EQ(steps, (Steps{1, 11, 12}));
  EXPECT_EQ(train_loop.interrupted(), SIGINT);
  for (const Checkpoint& checkpoint : train_loop) ADD_FAILURE() << checkpoint.step;
  expect_invalid({"next_step", "step 12", "a signal ended it"}, [&] { (void)train_loop.next_step(); });
}

TEST(Flip, EndsWithTheData) {
  TrainLoopOptions of_rows = options(3, 100);
  of_rows.task.data = rows(40).batch(8);
  TrainLoop train_loop(std::move(of_rows));
  Steps steps;
  for (const Checkpoint& checkpoint : train_loop) steps.push_back(checkpoint.step);
  EXPECT_EQ(steps, (Steps{1, 4, 5}));
  EXPECT_EQ(train_loop.interrupted(), 0);
  expect_invalid({"next_checkpoint", "step 5", "the data ended"}, [&] { (void)train_loop.next_checkpoint(); });
  expect_invalid({"begin", "step 5", "the data ended"}, [&] { (void)train_loop.begin(); });
}

// An error ends the stream; checkpoints held before it stay valid.
TEST(Flip, ErrorEndsTheStream) {
  TrainLoopOptions failing = options(1, 10);
  failing.task.data = training_data().map([count = 0](const Batch& batch) mutable {
    if (++count == 4) throw Error(ErrorCode::io, "the cable is out");
    return batch;
  });
  TrainLoop train_loop(std::move(failing));
  std::vector<Checkpoint> held;
  expect_error(ErrorCode::io, {"the cable is out"}, [&] {
    for (const Checkpoint& checkpoint : train_loop) held.push_back(checkpoint);
  });
  ASSERT_FALSE(held.empty());
  for (const Checkpoint& checkpoint : held) {
    EXPECT_EQ(params_of(checkpoint.state()), params_of(plain(checkpoint.step))) << checkpoint.step;
  }
  expect_invalid({"next_step", "an error ended it"}, [&] { (void)train_loop.next_step(); });
}

// A later loop does not ignore the error.
TEST(Flip, FailedStreamReportsIt) {
  TrainLoopOptions failing = options(1, 10);
  failing.task.loss = [](const nn::Var&, const Batch&) -> nn::Var { throw Error(ErrorCode::io, "the cable is out"); };
  TrainLoop train_loop(std::move(failing));
  expect_error(ErrorCode::io, {"the cable is out"}, [&] { (void)train_loop.next_step(); });
  expect_invalid({"begin", "an error ended it"}, [&] { (void)train_loop(20).begin(); });
}

TEST(Flip, RejectsInvalidOptions) {
  const auto refuses = [](const char* what, auto&& change) {
    TrainLoopOptions changed = options(1, 1);
    change(changed);
    expect_invalid({"train loop: ", what}, [&] { TrainLoop train_loop(changed); });
  };
  refuses("n_steps is -1", [](auto& o) { o.n_steps = -1; });
  refuses("n_steps_per_checkpoint is 0", [](auto& o) { o.n_steps_per_checkpoint = 0; });
  refuses("there is no loss", [](auto& o) { o.task.loss = nullptr; });

  const auto refuses_eval = [](const char* what, auto&& change) {
    EvalLoopOptions changed{.task = {.metrics = {{"mse", squared_error}}, .data = rows(20).batch(8)}};
    change(changed);
    expect_invalid({"eval loop: ", what}, [&] { EvalLoop evaluate(changed); });
  };
  refuses_eval("n_steps is 0", [](auto& o) { o.n_steps = 0; });
  refuses_eval("n_steps is 4, but the data has 3 batches", [](auto& o) { o.n_steps = 4; });
  refuses_eval("the data repeats endlessly", [](auto& o) { o.task.data = training_data(); });
  refuses_eval("the group 'train'", [](auto& o) { o.group = "train"; });
  refuses_eval("no metric", [](auto& o) { o.task.metrics.clear(); });
  refuses_eval("two metrics are named 'mse'", [](auto& o) { o.task.metrics.emplace_back("mse", squared_error); });
  std::vector<Batch> three;  // a range without num_batches()
  for (const Batch& batch : rows(20).batch(8)) three.push_back(batch);
  EvalLoop beyond({.task = {.metrics = {{"mse", squared_error}}, .data = three}, .n_steps = 4});
  TrainLoop evaluated(options(1, 1));
  expect_invalid({"eval loop: ", "n_steps is 4, but the data ended after 3 batches"},
                 [&] { (void)beyond(evaluated.next_step()); });

  TrainLoop gone(options(1, 1));
  const TrainLoop taken = std::move(gone);
  expect_invalid({"train loop: it was moved from"}, [&] { (void)gone.step(); });
  expect_invalid({"has no state"}, [] { eval_loop()(Checkpoint()); });
  const TemporaryDirectory dir;
  TrainLoop train_loop(options(1, 1));
  LowestCheckpointFileWriter write(dir.path() + "/new", "lnpp");
  expect_error(ErrorCode::not_found, {"'eval/lnpp'", "'eval/mse'"},
               [&] { (void)write(eval_loop()(train_loop.next_step())); });
  giro::Checkpoint save = checkpoint(dir.path() + "/new");
  expect_invalid({"`monitor` is not set"}, [&] { save({}, train_loop.next_step().state(), 0.5); });
}

}  // namespace
}  // namespace giro::flip
