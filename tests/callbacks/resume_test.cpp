// A run that is killed after any step and restarted leaves the same results as an uninterrupted run.

#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <giro/callbacks/checkpoint.h>
#include <giro/callbacks/csv_logger.h>
#include <giro/callbacks/early_stopping.h>
#include <giro/callbacks/jsonl_logger.h>
#include <giro/callbacks/keras_bar.h>
#include <giro/callbacks/resume.h>
#include <giro/callbacks/timer.h>
#include <giro/kernels/nn/functional.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/loop/inner_loop.h>
#include <giro/loop/loop.h>
#include <giro/runtime/files/checkpoint_store.h>

#include "tests/kernels/nn/models.h"
#include "tests/kernels/op_test.h"
#include "tests/support/expect_error.h"
#include "tests/support/sanitized.h"
#include "tests/support/saved_bytes.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/tensor_ops.h"

namespace giro {
namespace {

using test::expect_error, test::read_text;

constexpr std::int64_t kRunSteps = 50;

// A clock that stands still, so that printed times are the same.
class StillClock final : public Arbiter {
 public:
  double now() override { return 1'000; }
};

// The results of a run.
struct Left {
  std::map<std::string, std::vector<std::uint8_t>> state;
  std::int64_t steps = 0, samples = 0;
  std::string history, csv, jsonl, shown;
};

class ResumeTest : public test::OpTest {
 protected:
  enum class Data { host, prefetched, resident };

  // Runs up to `until`, or to the end, and returns the results so far. `dir` holds what outlives the process. With
  // `signal_at`, SIGTERM arrives in that step, during its evaluation if it has one.
  static Left run(const std::string& dir, Device device, Data kind, std::optional<std::int64_t> until, bool resumes,
                  std::int64_t signal_at = -1) {
    Dataset train = test::image_dataset(70, 4).shuffle(3).repeat().batch(3);
    if (kind == Data::prefetched) train = train.prefetch(2);
    if (kind == Data::resident) train = train.to(device);
    const Dataset valid = test::image_dataset(20, 4).batch(10).to(device);
    const nn::Layer model = test::linear_model();
    const auto train_step = jit([&](TrainState& state, const Batch& batch) {
      const auto [loss, logits] = state.value_and_grad([&](auto& params) {
        auto out = model(params, batch["image"]);
        return std::pair{mean(softmax_cross_entropy(out, batch["label"])), out};
      });
      state.apply_gradients();
      return logs().add_metric("loss", loss).add_stateful_metric("accuracy", accuracy(logits, batch["label"]));
    });
    const auto valid_step = jit([&](const TrainState& state, const Batch& batch) {
      return logs().add_metric("loss",
                               mean(softmax_cross_entropy(model(state.params(), batch["image"]), batch["label"])));
    });
    std::int64_t at_step = 0;
    const auto signal_if_due = [&] {
      if (at_step == signal_at) std::raise(SIGTERM);
      if (at_step == signal_at) signal_at = -1;
    };
    const auto evaluate = inner_loop("valid",
                                     [&](TrainState& state) {
                                       signal_if_due();
                                       return loop(std::move(state), valid, {{every(1), valid_step}});
                                     },
                                     {.aggregation = "mean"});

    const std::string shown = dir + "/shown";
    std::FILE* const out = std::fopen(shown.c_str(), "a");
    Left left;
    {
      giro::Run run(
          TrainState::create(model, optim::adamw(1e-2), {.inputs = train.spec(), .seed = 1, .context = device}), train,
          {{every(1), [&](const TrainState&, const Elapsed& elapsed) { at_step = elapsed.steps; }},
           {every(1), train_step},
           {every({.samples = 13}), evaluate},
           {every(1), [&](const TrainState&) { signal_if_due(); }},
           // The best state comes early, so it must be remembered for a long time.
           {every(4), early_stopping("loss", {.patience = at(31), .min_delta = 0.5, .restore_best = true})},
           {signal_at < 0 ? every(1) | last() : every(1'000) | last(), checkpoint(dir + "/model")},
           // This is saved only at the end.
           {last(),
            [](TrainState& state) {
              fill(state.at("params/dense0/bias"), 7, state.stream());
              return logs().add_stateful_metric("final", 1);
            }},
           {every(1), csv_logger(dir + "/log.csv")},
           {every(3), jsonl_logger(dir + "/log.jsonl")},
           {every(7), timer()},
           {every(1), keras_bar({.total = kRunSteps, .file_interval = 0, .out = out})}},
          {.stop = at(kRunSteps),
           .on_start = resumes ? std::vector<Callback<TrainState, Batch>>{resume(dir + "/model")}
                               : std::vector<Callback<TrainState, Batch>>{},
           .arbiter = std::make_shared<StillClock>()});
      const StopReason why = run.advance(until ? at(*until) : Period{});
      if (until && why == StopReason::reached) {
        std::fflush(out);
        left.shown = read_text(shown);
      } else {
        auto result = run.finish();
        left.state = test::saved_bytes(result.state);
        left.steps = result.elapsed.steps;
        left.samples = result.elapsed.samples;
        result.history.write_jsonl(dir + "/history.jsonl");
        left.history = read_text(dir + "/history.jsonl");
      }
    }
    std::fclose(out);
    // A killed process shows nothing more.
    if (until && left.steps == 0) test::write_text(shown, left.shown);
    left.shown = read_text(shown);
    left.csv = read_text(dir + "/log.csv");
    left.jsonl = read_text(dir + "/log.jsonl");
    return left;
  }

  static void check(Device device, Data kind, std::int64_t stride) {
    const test::TemporaryDirectory whole_dir;
    const Left whole = run(whole_dir.path(), device, kind, {}, false);
    EXPECT_GT(whole.steps, 30);
    EXPECT_NE(whole.history.find("loss_valid"), std::string::npos);
    EXPECT_GT(whole.shown.size(), 30 * 30u);
    for (std::int64_t cut = 1; cut < whole.steps; cut += stride) {
      SCOPED_TRACE(cut);
      const test::TemporaryDirectory dir;
      (void)run(dir.path(), device, kind, cut, false);
      const Left rest = run(dir.path(), device, kind, {}, true);
      ASSERT_EQ(rest.steps, whole.steps);
      ASSERT_EQ(rest.samples, whole.samples);
      ASSERT_EQ(rest.state, whole.state);
      ASSERT_EQ(rest.history, whole.history);
      ASSERT_EQ(rest.csv, whole.csv);
      ASSERT_EQ(rest.jsonl, whole.jsonl);
      ASSERT_EQ(rest.shown, whole.shown);
    }
  }
};

TEST_P(ResumeTest, AfterAnyStepWithDataOnTheHost) {
  check(device(), Data::host, device().is_cpu() ? test::kStride : 11);
}
TEST_P(ResumeTest, AfterAnyStepWithPrefetchedData) {
  check(device(), Data::prefetched, device().is_cpu() ? test::kStride : 17);
}
TEST_P(ResumeTest, AfterAnyStepWithResidentData) {
  check(device(), Data::resident, device().is_cpu() ? test::kStride : 11);
}

// A run ended by a signal resumes as if there had been no signal.
TEST_P(ResumeTest, AfterASignalInAnyStep) {
  const test::TemporaryDirectory whole_dir;
  const Left whole = run(whole_dir.path(), device(), Data::resident, {}, false);
  for (std::int64_t step = 0; step + 1 < whole.steps; step += device().is_cpu() ? test::kStride : 13) {
    SCOPED_TRACE(step);
    const test::TemporaryDirectory dir;
    const Left cut = run(dir.path(), device(), Data::resident, {}, false, step);
    ASSERT_EQ(cut.steps, step + 1);
    const Left rest = run(dir.path(), device(), Data::resident, {}, true);
    ASSERT_EQ(rest.steps, whole.steps);
    ASSERT_EQ(rest.state, whole.state);
    ASSERT_EQ(rest.history, whole.history);
    ASSERT_EQ(rest.csv, whole.csv);
    ASSERT_EQ(rest.jsonl, whole.jsonl);
  }
}

// A process may be killed in a run that was itself resumed.
TEST_P(ResumeTest, Repeatedly) {
  const test::TemporaryDirectory whole_dir, dir;
  const Left whole = run(whole_dir.path(), device(), Data::resident, {}, false);
  for (std::int64_t cut = 7; cut < whole.steps; cut += 7) {
    (void)run(dir.path(), device(), Data::resident, cut, true);
  }
  const Left rest = run(dir.path(), device(), Data::resident, {}, true);
  EXPECT_EQ(rest.state, whole.state);
  EXPECT_EQ(rest.history, whole.history);
  EXPECT_EQ(rest.csv, whole.csv);
  EXPECT_EQ(rest.shown, whole.shown);
  // A finished run stays finished.
  const Left after = run(dir.path(), device(), Data::resident, {}, true);
  EXPECT_EQ(after.state, whole.state);
  EXPECT_EQ(after.steps, whole.steps);
  EXPECT_EQ(after.history, whole.history);
}

INSTANTIATE_TEST_SUITE_P(Devices, ResumeTest, test::kDevices, test::device_name);

}  // namespace
}  // namespace giro
