#include <giro/kernels/nn/part_calls.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/layers.h>
#include <giro/kernels/nn/metrics.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/loop/data/batch.h>
#include <giro/loop/step/step.h>

#include "tests/kernels/op_test.h"

namespace giro::nn {
namespace {

constexpr std::int64_t kRows = 8, kFeatures = 3;

class PartCallsTest : public test::OpTest {
 protected:
  TrainState create() const {
    return TrainState::create(dense(2), optim::sgd(1.0),
                              {.inputs = {{"x", DType::f32, {kRows, kFeatures}}}, .seed = 3, .context = device()});
  }
  // Two of the first four rows count, one of the next two, and none of the last.
  Batch batch(const TrainState& state) {
    const Tensor x = keep(DType::f32, {kRows, kFeatures}), mask = keep(DType::f32, {kRows}),
                 labels = keep(DType::i32, {kRows});
    const std::vector<float> weights{2, 0, 0.5, 0, 1, 0, 0, 0};
    std::vector<float> values;
    for (int i = 0; i < kRows * kFeatures; ++i) values.push_back(static_cast<float>(std::sin(1.7 * i)));
    from_host(x, values, state.stream());
    from_host(mask, weights, state.stream());
    from_host(labels, std::vector<std::int32_t>{0, 1, 1, 0, 1, 1, 0, 0}, state.stream());
    return Batch({{"x", x}, {"mask", mask}, {"label", labels}}, state.stream());
  }
  static Var losses_of(TrainState& state, const Params& params, const Batch& rows) {
    return softmax_cross_entropy(state.model()(params, rows["x"]), rows["label"]);
  }
  static std::vector<float> grads(const TrainState& state) {
    return to_host<float>(state.collection("grads").flat(), state.stream());
  }
  static float number(const Var& x) { return to_host<float>(x.value(), x.stream()).front(); }

 private:
  Tensor keep(DType dtype, const Shape& shape) {
    memory_.push_back(Buffer::allocate(device(), static_cast<std::size_t>(shape.count()) * size_of(dtype)));
    return {memory_.back().data(), dtype, shape, device()};
  }
  std::vector<Buffer> memory_;
};
INSTANTIATE_TEST_SUITE_P(Devices, PartCallsTest, test::kDevices, test::device_name);

TEST_P(PartCallsTest, WeightedMeansDivideByTheWeightsOfTheBatch) {
  TrainState state = create();
  const Batch whole = batch(state);
  const Var loss =
      state.value_and_grad([&](auto& params) { return weighted_mean(losses_of(state, params, whole), whole["mask"]); });
  const std::vector<float> wanted = grads(state);
  for (const int parts : {1, 2, 4, 8}) {
    const std::vector<Var> losses = state.value_and_grad(parts, [&](auto& params, int part) {
      const Batch rows = whole.slice(part, parts);
      return weighted_mean(losses_of(state, params, rows), rows["mask"], whole["mask"]);
    });
    EXPECT_NEAR(number(mean(losses)), number(loss), 1e-6) << parts;
    const std::vector<float> found = grads(state);
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-6) << parts << " parts, " << i;
  }
}

// The weights of rows, for the elements of these rows.
TEST_P(PartCallsTest, WeightsOfFirstAxesCountForEachElement) {
  TrainState state = create();
  const Batch whole = batch(state);
  const auto squares = [&](const Params& params, const Batch& rows) {
    return square(state.model()(params, rows["x"]));
  };
  const Var loss =
      state.value_and_grad([&](auto& params) { return weighted_mean(squares(params, whole), whole["mask"]); });
  const Var of_parts = mean(state.value_and_grad(2, [&](auto& params, int part) {
    const Batch rows = whole.slice(part, 2);
    return weighted_mean(squares(params, rows), rows["mask"], whole["mask"]);
  }));
  EXPECT_NEAR(number(of_parts), number(loss), 1e-6);
}

TEST_P(PartCallsTest, WeightsOfAPartAloneAreAnError) {
  TrainState state = create();
  const Batch whole = batch(state);
  const auto with = [&](const std::function<Var(const Batch&)>& weights) {
    return [&, weights] {
      (void)state.value_and_grad(2, [&](auto& params, int part) {
        const Batch rows = whole.slice(part, 2);
        return weighted_mean(losses_of(state, params, rows), rows["mask"], weights(whole));
      });
    };
  };
  test::expect_error(ErrorCode::invalid_argument, {"weighted_mean", "2 parts", "those of the whole batch"},
                     with([](const Batch&) { return Var(); }));
  test::expect_error(ErrorCode::shape_mismatch, {"weighted_mean", "(4,)", "(8, 3)"},
                     with([](const Batch& all) { return all["x"]; }));
  test::expect_error(ErrorCode::shape_mismatch, {"weighted_mean", "(4,)", "2 equal parts"},
                     with([](const Batch& all) { return all.slice(0, 2)["mask"]; }));
  EXPECT_NO_THROW(with([](const Batch& all) { return all["mask"]; })());
}

TEST_P(PartCallsTest, SumsOverRowsAreAnError) {
  TrainState state = create();
  const Batch whole = batch(state);
  const auto with = [&](const std::function<Var(const Params&, const Var&)>& loss) {
    return [&, loss] {
      const auto step = eager([&](TrainState& s, const Batch& all) {
        (void)s.value_and_grad(
            2, [&](auto& params, int part) { return loss(params, losses_of(s, params, all.slice(part, 2))); });
        return logs();
      });
      step(state, whole);
    };
  };
  using P = const Params&;
  using V = const Var&;
  const auto rejects = [&](const std::function<Var(P, V)>& loss) {
    test::expect_error(ErrorCode::invalid_argument,
                       {"value_and_grad", "2 parts is a sum", "part_calls_test", "mean(losses)"}, with(loss));
  };
  rejects([](P, V x) { return sum(x); });
  rejects([](P, V x) { return -sum(-x); });
  rejects([](P, V x) { return 0.5 * sum(square(x)); });
  rejects([](P, V x) { return sum(x, Axes({0}).dropped()) + mean(x); });
  rejects([](P p, V x) { return mean(x) + 1e-3 * (sum(p["kernel"]) - sum(x)); });
  const auto accepts = [&](const std::function<Var(P, V)>& loss) { EXPECT_NO_THROW(with(loss)()); };
  accepts([](P, V x) { return mean(x); });
  accepts([](P, V x) { return sum(x) / 4; });
  accepts([](P, V x) { return 8 * mean(x); });
  accepts([](P p, V x) { return mean(x) + 1e-3 * sum(square(p["kernel"])); });
  accepts([](P p, V x) { return sum(mean(x, {0}) * square(p["kernel"])); });
}

// Of the calls' values, those of one call alone do not stand for the batch.
TEST_P(PartCallsTest, ValuesOfOneCallAloneAreAnError) {
  TrainState state = create();
  const Batch whole = batch(state);
  for (const bool recorded : {false, true}) {
    const auto run = [&](const std::function<Logs(TrainState&, const Batch&)>& body) {
      return recorded ? jit(body)(state, whole) : eager(body)(state, whole);
    };
    test::expect_error(ErrorCode::invalid_argument, {"value_and_grad", "part 2 of 2", "part 1 is gone", "std::pair"},
                       [&] {
                         run([](TrainState& s, const Batch& all) {
                           Var logits;
                           const auto losses = s.value_and_grad(2, [&](auto& params, int part) {
                             logits = s.model()(params, all.slice(part, 2)["x"]);
                             return mean(softmax_cross_entropy(logits, all.slice(part, 2)["label"]));
                           });
                           return logs().add_metric("accuracy", accuracy(logits, all.slice(1, 2)["label"]));
                         });
                       });
    test::expect_error(ErrorCode::invalid_argument, {"value_and_grad", "part 4 of 4"}, [&] {
      run([](TrainState& s, const Batch& all) {
        Metric last;
        (void)s.value_and_grad(4, [&](auto& params, int part) {
          const Batch rows = all.slice(part, 4);
          const Var logits = s.model()(params, rows["x"]);
          last = accuracy(logits, rows["label"], rows["mask"]);
          return mean(softmax_cross_entropy(logits, rows["label"]));
        });
        return logs().add_metric("accuracy", last);
      });
    });
    const Logs good = run([](TrainState& s, const Batch& all) {
      std::vector<Var> collected;
      const auto results = s.value_and_grad(2, [&](auto& params, int part) {
        const Batch rows = all.slice(part, 2);
        const Var logits = s.model()(params, rows["x"]);
        collected.push_back(accuracy(logits, rows["label"]));
        // The two calls return from different lines.
        if (part == 0) return std::pair{mean(softmax_cross_entropy(logits, rows["label"])), logits};
        return std::pair{mean(softmax_cross_entropy(logits, rows["label"])), 1.0 * logits};
      });
      const Var logits = concatenate({results[0].second, results[1].second}, 0);
      return logs()
          .add_metric("collected", mean(collected))
          .add_metric("returned", accuracy(logits, all["label"]))
          .add_metric("loss", (results[0].first + results[1].first) / 2);
    });
    EXPECT_EQ(good.entry_value("collected"), good.entry_value("returned"));
  }
}

}  // namespace
}  // namespace giro::nn
