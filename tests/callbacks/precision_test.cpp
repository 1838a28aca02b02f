#include <giro/kernels/precision.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <giro/callbacks/resume.h>
#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/layers.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/loop/data/dataset.h>
#include <giro/loop/step/step.h>
#include <giro/runtime/files/checkpoint_store.h>
#include <giro/runtime/snapshot.h>

#include "tests/kernels/nn/models.h"
#include "tests/kernels/op_test.h"
#include "tests/kernels/precisions.h"
#include "tests/support/environment_setting.h"
#include "tests/support/saved_bytes.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/training.h"

namespace giro {
namespace {

constexpr std::int64_t kRowsOfBatch = 8, kImageSize = 8, kTrainedSteps = 12;

nn::Layer small_cnn() {
  return nn::sequential(nn::scale(1 / 255.f), nn::conv(4, {3, 3}, {.activation = Activation::relu}),
                        nn::avg_pool({2, 2}), nn::conv(8, {3, 3}, {.activation = Activation::relu}),
                        nn::max_pool({2, 2}), nn::flatten(), nn::dense(16, {.activation = Activation::tanh}),
                        nn::dense(10));
}

class PrecisionTest : public test::OpTest {
 protected:
  struct Training {
    nn::Layer model;
    Dataset data;
    TrainState state;

    // The losses and accuracies of `steps` steps made by jit or eager, on the batches in order.
    template <class Make>
    std::vector<double> train(std::int64_t steps, Make make) {
      const auto step = make(test::classifying(model));
      std::vector<double> losses;
      auto batch = data.begin();
      for (std::int64_t i = 0; i < steps; ++i, ++batch) {
        const Logs row = step(state, *batch);
        losses.push_back(row.entry_value("loss"));
        losses.push_back(row.entry_value("accuracy"));
      }
      return losses;
    }
    std::vector<double> train(std::int64_t steps) {
      return train(steps, [](auto f) { return jit(std::move(f)); });
    }
    void save_to(const std::string& directory, std::int64_t steps) const {
      const Snapshot snapshot(state, MemoryKind::pinned);
      snapshot.wait();
      CheckpointStore store(directory);
      store.save(snapshot, {.steps = steps}, store.archive());
    }
    template <class T>
    T scalar(const std::string& path) const {
      return to_host<T>(state.at(path), state.stream()).front();
    }
  };

  Training training(Precision precision, const nn::Layer& model = small_cnn()) const {
    Dataset data = test::image_dataset(4 * kRowsOfBatch, kImageSize).repeat().batch(kRowsOfBatch).to(device());
    TrainState state = TrainState::create(
        model, optim::adamw(1e-2), {.inputs = data.spec(), .seed = 3, .context = device(), .precision = precision});
    EXPECT_EQ(state.precision(), precision);
    return {model, std::move(data), std::move(state)};
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, PrecisionTest, test::kDevices, test::device_name);

// The unit is the rounding error of a factor: 2^-8 in bf16, 2^-11 in the others. The first loss averages the rounding
// errors of the logits. Later the trainings drift apart, because Adam divides small gradients by their own size:
// measured 1.2 units in bf16, and 8 in f16, which also rounds gradients.
TEST_P(PrecisionTest, LossesStayCloseToF32) {
  for (const nn::Layer& model : {test::linear_model(), small_cnn()}) {
    const std::vector<double> wanted = training(Precision::f32, model).train(kTrainedSteps);
    for (const Precision precision : test::other_precisions(device())) {
      SCOPED_TRACE(name_of(precision));
      Training other = training(precision, model);
      const std::vector<double> losses = other.train(kTrainedSteps);
      const double unit = precision == Precision::bf16 ? 0x1p-8 : 0x1p-11;
      const double units = precision == Precision::f16 ? 12 : 3;
      for (std::size_t i = 0; i < losses.size(); i += 2) {
        EXPECT_NEAR(losses[i], wanted[i], (i == 0 ? 0.5 : units) * unit) << "step " << i / 2;
      }
      EXPECT_NE(losses, wanted);
      EXPECT_LT(losses[losses.size() - 2], losses[0]);
      EXPECT_TRUE(other.state.at("params/dense0/kernel").dtype() == DType::f32);
      EXPECT_TRUE(other.state.params()["dense0/kernel"].dtype() == compute_dtype(precision));
    }
  }
}

TEST_P(PrecisionTest, JitEagerAndUnrewrittenProgramsGiveTheSameBits) {
  for (const Precision precision : test::other_precisions(device())) {
    SCOPED_TRACE(name_of(precision));
    Training recorded = training(precision), eagerly = training(precision), traced = training(precision);
    const std::vector<double> losses = recorded.train(5);
    EXPECT_EQ(eagerly.train(5, [](auto f) { return eager(std::move(f)); }), losses);
    EXPECT_EQ(test::saved_bytes(eagerly.state), test::saved_bytes(recorded.state));
    const test::EnvironmentSetting no_rewrites("GIRO_REWRITE", "0");
    EXPECT_EQ(traced.train(5), losses);
    EXPECT_EQ(test::saved_bytes(traced.state), test::saved_bytes(recorded.state));
  }
}

TEST_P(PrecisionTest, OverflowSkipsTheUpdateAndHalvesTheScale) {
  if (!test::computes_in(Precision::f16, device())) GTEST_SKIP() << "no f16 here";
  Training t = training(Precision::f16);
  EXPECT_EQ(t.scalar<float>("loss_scale/scale"), 65536.0f);
  t.train(3);
  EXPECT_EQ(t.scalar<std::int64_t>("loss_scale/good_steps"), 3);
  from_host(t.state.at("loss_scale/scale"), std::vector<float>{0x1p40f}, t.state.stream());
  const auto leaves = [&] {
    std::vector<std::vector<float>> values;
    for (const char* name : {"params", "opt_state/mu", "opt_state/nu"}) {
      values.push_back(to_host<float>(t.state.collection(name).flat(), t.state.stream()));
    }
    return values;
  };
  const auto before = leaves();
  const std::vector<double> losses = t.train(1);
  EXPECT_EQ(leaves(), before);
  EXPECT_TRUE(std::isfinite(losses[0]));
  EXPECT_EQ(t.scalar<float>("loss_scale/scale"), 0x1p39f);
  EXPECT_EQ(t.scalar<std::int64_t>("loss_scale/good_steps"), 0);
  EXPECT_EQ(t.scalar<std::int64_t>("loss_scale/skipped"), 1);
  EXPECT_EQ(t.scalar<std::int64_t>("step"), 4);
  // The scale halves until gradients fit, and then the model trains.
  t.train(30);
  EXPECT_NE(leaves(), before);
  EXPECT_LT(t.scalar<std::int64_t>("loss_scale/skipped"), 30);
  EXPECT_GT(t.scalar<std::int64_t>("loss_scale/good_steps"), 0);
}

TEST_P(PrecisionTest, ManyGoodStepsDoubleTheScale) {
  if (!test::computes_in(Precision::f16, device())) GTEST_SKIP() << "no f16 here";
  Training t = training(Precision::f16);
  from_host<std::int64_t>(t.state.at("loss_scale/good_steps"), {optim::LossScale::kGrowthInterval - 2},
                          t.state.stream());
  t.train(1);
  EXPECT_EQ(t.scalar<float>("loss_scale/scale"), 65536.0f);
  t.train(1);
  EXPECT_EQ(t.scalar<float>("loss_scale/scale"), 131072.0f);
  EXPECT_EQ(t.scalar<std::int64_t>("loss_scale/good_steps"), 0);
}

// In f16 the first steps are skipped, so that all of loss_scale changes.
TEST_P(PrecisionTest, ContinuesFromCheckpointWithTheSameBits) {
  for (const Precision precision : test::other_precisions(device())) {
    SCOPED_TRACE(name_of(precision));
    const test::TemporaryDirectory directory;
    Training through = training(precision), first = training(precision), resumed = training(precision);
    if (precision == Precision::f16) {  // so that the first steps are skipped
      for (Training* t : {&through, &first}) {
        from_host(t->state.at("loss_scale/scale"), std::vector<float>{0x1p26f}, t->state.stream());
      }
    }
    through.train(4);
    first.train(4);
    first.save_to(directory.path(), 4);
    EXPECT_EQ(restore(resumed.state, directory.path()).steps, 4);
    EXPECT_EQ(test::saved_bytes(resumed.state), test::saved_bytes(first.state));
    // Each call of train starts its batches anew, for all three trainings.
    through.train(4);
    resumed.train(4);
    EXPECT_EQ(test::saved_bytes(resumed.state), test::saved_bytes(through.state));
  }
}

TEST_P(PrecisionTest, CheckpointLoadsIntoAnotherPrecision) {
  std::vector<Precision> all = test::other_precisions(device());
  all.push_back(Precision::f32);
  for (const Precision from : all) {
    for (const Precision to : all) {
      SCOPED_TRACE(std::string(name_of(from)) + " to " + std::string(name_of(to)));
      const test::TemporaryDirectory directory;
      Training saved = training(from), restored = training(to);
      saved.train(1);
      saved.save_to(directory.path(), 1);
      restore(restored.state, directory.path());
      for (const char* name : {"params", "opt_state/mu", "opt_state/nu"}) {
        EXPECT_EQ(to_host<float>(restored.state.collection(name).flat(), restored.state.stream()),
                  to_host<float>(saved.state.collection(name).flat(), saved.state.stream()));
      }
      if (to == Precision::f16) {
        EXPECT_EQ(restored.scalar<float>("loss_scale/scale"), 65536.0f);
      }
      EXPECT_TRUE(std::isfinite(restored.train(1)[0]));
    }
  }
}

TEST_P(PrecisionTest, GradientsOfPartsAddUp) {
  for (const Precision precision : test::other_precisions(device())) {
    SCOPED_TRACE(name_of(precision));
    Training whole = training(precision), parts = training(precision);
    const auto loss = [&](const nn::Params& params, const Batch& rows) {
      return mean(softmax_cross_entropy(whole.model(params, rows["image"]), rows["label"]));
    };
    eager([&](TrainState& state, const Batch& batch) {
      state.value_and_grad([&](const nn::Params& params) { return loss(params, batch); });
      return logs();
    })(whole.state, *whole.data.begin());
    eager([&](TrainState& state, const Batch& batch) {
      state.value_and_grad(2, [&](const nn::Params& params, int part) { return loss(params, batch.slice(part, 2)); });
      return logs();
    })(parts.state, *parts.data.begin());
    const auto grads = [](const Training& t) {
      return to_host<float>(t.state.collection("grads").flat(), t.state.stream());
    };
    const std::vector<float> wanted = grads(whole), found = grads(parts);
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      difference += std::pow(wanted[i] - found[i], 2);
      size += std::pow(wanted[i], 2);
    }
    EXPECT_GT(size, 0);
    EXPECT_LT(std::sqrt(difference / size), 0x1p-7);  // one or two bf16 rounding errors
  }
}

TEST_P(PrecisionTest, UnsupportedPrecisionIsRejectedAtOnce) {
  for (const Precision precision : {Precision::tf32, Precision::bf16, Precision::f16}) {
    if (test::computes_in(precision, device())) continue;
    const std::string needed = precision == Precision::tf32 ? "GPU" : "processor";
    test::expect_error(ErrorCode::unsupported, {"cpu", std::string(name_of(precision)), needed},
                       [&] { training(precision); });
  }
  EXPECT_EQ(test::computes_in(Precision::tf32, device()), device().is_cuda());
  test::expect_invalid({"fp16", "bf16"}, [] { parse_precision("fp16"); });
  EXPECT_EQ(parse_precision("tf32"), Precision::tf32);
}

}  // namespace
}  // namespace giro
