#include <giro/giro.h>

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#if GIRO_WITH_CUDA
#include <cuda_runtime_api.h>
#endif

#include "tests/distributed/ranks/ranks.h"
#include "tests/distributed/ranks/small_model.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/tensor_ops.h"

namespace giro::test {
namespace {

// The tolerance for losses and parameters after the steps of a test, if f32 sums are added in another order.
constexpr double kTolerance = 2e-5;

struct Trained {
  std::vector<double> losses;
  std::vector<float> params;
};

std::vector<float> params_of(const TrainState& state) {
  return to_host<float>(state.collection("params").flat(), state.stream());
}

struct TrainingSetup {
  std::shared_ptr<const Partitioner> partitioner = nullptr;  // null: this process trains alone
  std::int64_t batch = 48;
  bool resident = false;
  int parts = 1;
  std::int64_t steps = 24, steps_per_execution = 0;
  double max_norm = 0;
  Precision precision = Precision::f32;
};

TrainState make_state(const std::shared_ptr<const Partitioner>& partitioner, std::uint64_t seed = 3,
                      double max_norm = 0, Precision precision = Precision::f32) {
  optim::Optimizer optimizer = optim::adamw(1e-2);
  if (max_norm > 0) optimizer = optim::clip_by_global_norm(max_norm, optimizer);
  return TrainState::create(model(), optimizer,
                            {.inputs = {{"x", DType::f32, {1, kFeatures}}},
                             .seed = seed,
                             .context = test_device(),
                             .partitioner = partitioner,
                             .precision = precision});
}

Trained train(const TrainingSetup& setup) {
  Dataset data = random_rows().shuffle(5).repeat().batch(setup.batch).partition(setup.partitioner);
  data = setup.resident ? data.to(test_device()) : data.prefetch(2);
  auto result = loop(make_state(setup.partitioner, 3, setup.max_norm, setup.precision), data,
                     {{every(1), make_step(setup.parts)}},
                     {.stop = at(setup.steps), .steps_per_execution = setup.steps_per_execution});
  EXPECT_EQ(result.elapsed.steps, setup.steps);
  EXPECT_EQ(result.elapsed.samples, setup.steps * setup.batch);
  return {result.history.collect("loss")[0], params_of(result.state)};
}

// Each rank updates a part of the params.
std::shared_ptr<const Partitioner> shards() { return zero_data_parallel(world(), test_device()); }

std::shared_ptr<const Partitioner> all_ranks(std::int64_t bucket_bytes = std::int64_t{25} << 20) {
  return data_parallel(world(), test_device(), {.bucket_bytes = bucket_bytes});
}

void expect_near(const Trained& a, const Trained& b) {
  ASSERT_EQ(a.losses.size(), b.losses.size());
  for (std::size_t i = 0; i < a.losses.size(); ++i) EXPECT_NEAR(a.losses[i], b.losses[i], kTolerance) << "step " << i;
  ASSERT_EQ(a.params.size(), b.params.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.params.size(); ++i)
    worst = std::max<double>(worst, std::abs(a.params[i] - b.params[i]));
  EXPECT_LE(worst, 10 * kTolerance);
}

// Whether all ranks have the same values.
bool same_everywhere(const std::vector<float>& values) {
  const Stream stream(Device::cpu());
  std::vector<float> of_first = values;
  world().host().broadcast(
      Tensor(of_first.data(), DType::f32, {static_cast<std::int64_t>(of_first.size())}, Device::cpu()), 0, stream);
  double differs = std::memcmp(of_first.data(), values.data(), values.size() * sizeof(float)) != 0;
  world().host().all_reduce(Tensor(&differs, DType::f64, {}, Device::cpu()), Reduction::max, stream);
  return differs == 0;
}

TEST(TrainingOfRanks, MatchesOneProcess) {
  for (const bool resident : {false, true}) {
    for (const std::int64_t bucket_bytes : {1, 1'000, 1 << 20}) {
      SCOPED_TRACE(std::to_string(bucket_bytes) + (resident ? " resident" : " from the host"));
      const TrainingSetup alone{.resident = resident, .max_norm = 0.5};
      TrainingSetup together = alone;
      together.partitioner = all_ranks(bucket_bytes);
      const Trained trained = train(together);
      expect_near(trained, train(alone));
      EXPECT_TRUE(same_everywhere(trained.params));
    }
  }
}

TEST(TrainingOfRanks, NormOfLargeAndSmallGradients) {
  for (const auto& partitioner : {all_ranks(), shards()}) {
    const TrainState state = make_state(partitioner);
    const Tensor grads = state.collection("grads").flat();
    for (const double size : {1e20, 1e-25}) {
      fill(grads, size, state.stream());
      EXPECT_FLOAT_EQ(to_host<float>(state.gradient_norm().value(), state.stream()).front(),
                      static_cast<float>(std::sqrt(static_cast<double>(grads.count())) * size));
    }
  }
}

// The gradients of one rank are not finite: all ranks skip the update, and stay equal.
TEST(TrainingOfRanks, SkipTheSameUpdatesInF16) {
  if (test_device().is_cpu()) GTEST_SKIP() << "f16 takes a GPU, or a CPU that oneDNN computes it on";
  for (const bool divided : {false, true}) {
    const auto partitioner = divided ? shards() : all_ranks();
    TrainState state = make_state(partitioner, 3, 0.5, Precision::f16);
    const std::vector<float> before = params_of(state);
    const auto skipped = [&] { return to_host<std::int64_t>(state.at("loss_scale/skipped"), state.stream()).front(); };
    const auto step = make_step();
    Dataset with_nan = random_rows(0).batch(48).partition(partitioner);
    step(state, *with_nan.begin());
    EXPECT_EQ(skipped(), 1);
    EXPECT_EQ(params_of(state), before);
    Dataset good = random_rows().batch(48).partition(partitioner);
    for (int i = 0; i < 3; ++i) step(state, *good.begin());
    EXPECT_EQ(skipped(), 1);
    EXPECT_NE(params_of(state), before);
    EXPECT_TRUE(same_everywhere(params_of(state)));
    EXPECT_EQ(to_host<float>(state.at("loss_scale/scale"), state.stream()).front(), optim::LossScale::kInitial / 2);
  }
}

// A rank's results for its rows, scaled by another factor if the batch is divided, are rounded to 8 bits of mantissa.
TEST(TrainingOfRanks, IsCloseToOneProcessInBf16) {
  try {
    expect_supported(Precision::bf16, test_device());
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  const TrainingSetup alone{.resident = true, .steps = 6, .precision = Precision::bf16};
  const Trained wanted = train(alone);
  for (const bool divided : {false, true}) {
    TrainingSetup together = alone;
    together.partitioner = divided ? shards() : all_ranks();
    const Trained trained = train(together);
    EXPECT_TRUE(same_everywhere(trained.params));
    for (std::size_t i = 0; i < wanted.losses.size(); ++i) {
      EXPECT_NEAR(trained.losses[i], wanted.losses[i], 0x1p-7) << "step " << i;
    }
  }
}

TEST(TrainingOfRanks, GivesTheSameBitsWhenRepeatedAndRunAhead) {
  const TrainingSetup setup{.partitioner = all_ranks(), .resident = true};
  const Trained first = train(setup);
  for (const std::int64_t steps : {0, 1, 5}) {
    TrainingSetup again = setup;
    again.steps_per_execution = steps;
    const Trained second = train(again);
    EXPECT_EQ(first.losses, second.losses);
    EXPECT_EQ(first.params, second.params);
  }
}

#if GIRO_WITH_CUDA
// The nodes of the graph that the next work on a captured stream will depend on.
std::vector<cudaGraphNode_t> captured(const Stream& stream) {
  cudaStreamCaptureStatus status{};
  const cudaGraphNode_t* nodes = nullptr;
  std::size_t count = 0;
  EXPECT_EQ(cudaStreamGetCaptureInfo(cuda_stream(stream), &status, nullptr, nullptr, &nodes, nullptr, &count),
            cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  return {nodes, nodes + count};
}

// The position of the first bucket's all-reduce in a step's graph: it exists before the last nodes of the backward
// pass, and these do not depend on it.
TEST(TrainingOfRanks, AllReduceOverlapsTheBackwardPassInTheGraph) {
  if (test_device().is_cpu() || world().size() == 1)
    GTEST_SKIP() << "nothing runs beside the caller, or nothing is sent";
  TrainState state = make_state(all_ranks(1));
  std::vector<cudaGraphNode_t> sent, computed;
  auto step = jit([&](TrainState& trained, const Batch& batch) {
    const auto note = [&](const nn::Var& x) {
      return nn::call("first layer", {.shape = x.shape()}, {x},
                      {.cuda = [&](auto& out, auto& in, auto*) { copy(out, in[0], trained.stream()); },
                       .vjp =
                           [&](auto&, auto& dy, auto&) {
                             sent = captured(trained.context().communication_stream());
                             computed = captured(trained.stream());
                             return dy;
                           },
                       .is_pure = false});  // so that earlier work is queued by then
    };
    auto loss = trained.value_and_grad([&](auto& params) {
      auto hidden = nn::dense(batch["x"], note(params["dense0/kernel"]), params["dense0/bias"], Activation::tanh);
      auto logits = nn::dense(hidden, params["dense1/kernel"], params["dense1/bias"]);
      return mean(softmax_cross_entropy(logits, batch["label"]));
    });
    trained.apply_gradients();
    return logs().add_metric("loss", loss);
  });
  Dataset data = random_rows().repeat().batch(48).partition(state.partitioner()).to(test_device());
  (void)loop(std::move(state), data, {{every(1), step}}, {.stop = at(8)});
  ASSERT_FALSE(sent.empty());
  ASSERT_FALSE(computed.empty());
  for (const cudaGraphNode_t node : sent) {
    EXPECT_EQ(std::count(computed.begin(), computed.end(), node), 0);
    cudaGraphNodeType type{};
    ASSERT_EQ(cudaGraphNodeGetType(node, &type), cudaSuccess);
    EXPECT_NE(type, cudaGraphNodeTypeEmpty);
    EXPECT_NE(type, cudaGraphNodeTypeWaitEvent);
  }
}
#endif

// Counts calls of the CUDA runtime, which only the emulated one reports.
TEST(TrainingOfRanks, HostWaitsForNoStep) {
  using Calls = unsigned long long (*)(const char*);
  const auto calls = reinterpret_cast<Calls>(dlsym(RTLD_DEFAULT, "cuda_on_cpu_calls"));
  if (calls == nullptr) GTEST_SKIP() << "nobody counts";
  const auto waits = [&] {
    return calls("cudaStreamSynchronize") + calls("cudaDeviceSynchronize") + calls("cudaEventSynchronize") +
           calls("cudaMemcpy");
  };
  for (const auto& partitioner : {all_ranks(), shards()}) {
    Dataset data = random_rows().shuffle(5).repeat().batch(48).partition(partitioner).to(test_device());
    giro::Run run(make_state(partitioner), data, {{every(1), make_step()}},
                  {.stop = at(266), .catch_signals = false, .steps_per_execution = 32});
    EXPECT_EQ(run.advance(at(10)), StopReason::reached);
    const unsigned long long before = waits();
    EXPECT_EQ(run.advance(), StopReason::stopped);
    EXPECT_LE(waits() - before, 16u);  // 8 launches, two of which may be ahead, and the ranks' agreement at the end
  }
}

TEST(TrainingOfRanks, MicroBatchesMakeOneUpdate) {
  expect_near(train({.parts = 2}), train({}));
  expect_near(train({.partitioner = all_ranks(), .parts = 4}), train({}));
}

TEST(TrainingOfRanks, ShardedTrainingMatchesUnsharded) {
  for (const bool resident : {false, true}) {
    TrainingSetup whole{.partitioner = all_ranks(), .resident = resident, .max_norm = 0.5};
    TrainingSetup sharded = whole;
    sharded.partitioner = shards();
    const Trained trained = train(sharded);
    expect_near(trained, train(whole));
    EXPECT_TRUE(same_everywhere(trained.params));
    for (const std::int64_t steps : {1, 5}) {
      sharded.steps_per_execution = steps;
      EXPECT_EQ(train(sharded).params, trained.params) << steps << " steps at once";
    }
  }
}

// A rank holds the moments of its part, for every optimizer with moments; they are equal to that part of the whole.
// Weight decay applies only to its leaves.
TEST(TrainingOfRanks, ShardHoldsTheMomentsOfItsPart) {
  const optim::DecayMask kernels = [](const std::string& path) { return path.ends_with("kernel"); };
  for (const optim::Optimizer& optimizer :
       {optim::adamw(1e-2, {.weight_decay = 0.3, .decay_mask = kernels}), optim::sgd(1e-2, {.momentum = 0.9})}) {
    const auto trained = [&](const std::shared_ptr<const Partitioner>& partitioner) {
      Dataset data = random_rows().repeat().batch(48).partition(partitioner);
      return loop(TrainState::create(model(), optimizer,
                                     {.inputs = {{"x", DType::f32, {1, kFeatures}}},
                                      .seed = 3,
                                      .context = test_device(),
                                      .partitioner = partitioner}),
                  data, {{every(1), make_step()}}, {.stop = at(6)})
          .state;
    };
    const TrainState whole = trained(all_ranks()), sharded = trained(shards());
    for (const char* name : {"params", "opt_state/mu", "opt_state/nu"}) {
      if (!whole.contains_collection(name)) continue;
      const Collection &all = whole.collection(name), &part = sharded.collection(name);
      EXPECT_EQ(part.is_sharded(), world().size() > 1 && name != std::string("params"));
      if (part.is_sharded()) {
        EXPECT_LE(part.flat().count(), all.flat().count() / world().size() + 16) << name;
      }
      for (const Leaf& leaf : part.leaves()) {
        const std::vector<float> expected = to_host<float>(whole.at(leaf.path), whole.stream());
        const std::vector<float> found = to_host<float>(leaf.value, sharded.stream());
        const auto begin = static_cast<std::size_t>(leaf.piece ? leaf.piece->begin : 0);
        for (std::size_t i = 0; i < found.size(); ++i) {
          EXPECT_NEAR(found[i], expected[begin + i], kTolerance) << leaf.path << " " << begin + i;
        }
      }
    }
  }
}

// Shards of an average are gathered for evaluation and for saving.
TEST(TrainingOfRanks, ParameterAverageIsWholeOnEachRank) {
  const auto trained = [&](const std::shared_ptr<const Partitioner>& partitioner) {
    Dataset data = random_rows().batch(48).partition(partitioner);
    return loop(TrainState::create(model(), optim::ema(0.5, optim::adamw(1e-2)),
                                   {.inputs = {{"x", DType::f32, {1, kFeatures}}},
                                    .seed = 3,
                                    .context = test_device(),
                                    .partitioner = partitioner}),
                data, {{every(1), make_step()}})
        .state;
  };
  const TrainState whole = trained(all_ranks()), sharded = trained(shards());
  const State of_whole = whole.averaged(), of_sharded = sharded.averaged();
  const nn::Params params = sharded.ema_params();
  for (const Leaf& leaf : of_whole.flatten("params")) {
    const std::vector<float> expected = to_host<float>(leaf.value, whole.stream());
    const std::vector<float> found = to_host<float>(of_sharded.at(leaf.path), sharded.stream());
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], kTolerance) << leaf.path;
    EXPECT_EQ(to_host<float>(params[leaf.path.substr(7)].value(), sharded.stream()), found) << leaf.path;
    EXPECT_NE(to_host<float>(whole.at(leaf.path), whole.stream()), expected);
  }
}

// Each axis trains by itself: two groups of ranks train two models, or all ranks train one.
TEST(TrainingOfRanks, MeshAxisTrainsSeparately) {
  const int groups = world().size() % 2 == 0 ? 2 : 1;
  const Mesh mesh(world(), test_device(), {{"data", -1}, {"model", groups}});
  const auto seed = static_cast<std::uint64_t>(mesh.axis("model").rank());
  const auto train_with = [&](const std::shared_ptr<const Partitioner>& partitioner) {
    Dataset data = random_rows().shuffle(seed).repeat().batch(48).partition(partitioner);
    auto result = loop(make_state(partitioner, seed), data, {{every(1), make_step()}, {every(5), check_replicas()}},
                       {.stop = at(12)});
    return Trained{result.history.collect("loss")[0], params_of(result.state)};
  };
  const Trained alone = train_with(nullptr);
  const auto along = data_parallel(mesh, "data");
  EXPECT_EQ(along->size(), world().size() / groups);
  expect_near(train_with(along), alone);
  expect_near(train_with(zero_data_parallel(mesh, "data")), alone);
}

TEST(TrainingOfRanks, ManagedStepsTrainTheSame) {
  const auto train_managed = [](const std::shared_ptr<const Partitioner>& partitioner, const std::string& strategy) {
    const auto step = managed::train_step(
        [model = model()](const nn::Params& params, const Batch& batch) {
          auto logits = model(params, batch["x"]);
          return logs().add_loss("loss", mean(softmax_cross_entropy(logits, batch["label"])), /*add_metric=*/true);
        },
        strategy);
    Dataset data = random_rows().shuffle(5).repeat().batch(48).partition(partitioner);
    auto result = loop(make_state(partitioner), data, {{every(1), step}}, {.stop = at(24)});
    return Trained{result.history.collect("metrics.loss")[0], params_of(result.state)};
  };
  expect_near(train_managed(all_ranks(), "data_parallel"), train_managed(nullptr, "jit"));
}

// Rank 0 chooses for all ranks; an error of its choice occurs on every rank.
TEST(TrainingOfRanks, OneDirectoryForAllRanks) {
  const auto partitioner = all_ranks();
  const TemporaryDirectory own;
  const std::string parent = partitioner->broadcast(own.path());
  const RunDirectoryOptions options{.parent = parent, .partitioner = partitioner};
  EXPECT_EQ(run_directory("", options), parent + "/1");
  EXPECT_EQ(run_directory("", options), parent + "/2");
  if (world().is_primary()) write_text(parent + "/1/log", "of an earlier run");
  try {
    (void)run_directory(parent + "/1", options);
    ADD_FAILURE() << "no error was thrown";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("already holds a run"), std::string::npos) << error.what();
  }
  double nothing = 0;
  partitioner->all_reduce_max({&nothing, 1});  // all ranks must have looked before rank 0's directory is removed
}

TEST(TrainingOfRanks, IntegerMetricIsAveragedInDoublePrecision) {
  const auto step = jit([](const TrainState&, const Batch&, const Broadcasts& broadcasts) {
    return logs().add_metric("count", broadcasts["count"]);
  });
  TrainState state = make_state(all_ranks());
  const Dataset data = random_rows().batch(48).partition(state.partitioner());
  constexpr std::int64_t kCount = (std::int64_t{1} << 24) + 1;  // more than an f32 can count
  EXPECT_DOUBLE_EQ(step(state, *data.begin(), {{"count", kCount}}).entry_value("count"), kCount);
}

TEST(TrainingOfRanks, EvaluationCountsEachSampleOnce) {
  const auto step = jit([](const TrainState& state, const Batch& batch) {
    auto logits = state.model()(state.params(), batch["x"]);
    return logs()
        .add_metric("loss", mean(softmax_cross_entropy(logits, batch["label"])))
        .add_metric("accuracy", accuracy(logits, batch["label"]));
  });
  for (const std::int64_t batch : {36, 60, 84}) {  // the last batch has 24, 36 or 12 rows
    const auto evaluate = [&](const std::shared_ptr<const Partitioner>& partitioner) {
      Dataset data = random_rows().batch(batch).partition(partitioner).to(test_device());
      return loop(make_state(partitioner), data, {{every(1), step}}).history;
    };
    const auto alone = evaluate(nullptr).collect("loss", "accuracy");
    const auto together = evaluate(all_ranks()).collect("loss", "accuracy");
    for (std::size_t entry = 0; entry < alone.size(); ++entry) {
      ASSERT_EQ(alone[entry].size(), together[entry].size());
      for (std::size_t i = 0; i < alone[entry].size(); ++i) {
        EXPECT_NEAR(alone[entry][i], together[entry][i], 1e-6) << "batches of " << batch << ", step " << i;
      }
    }
  }
}

TEST(TrainingOfRanks, ReplicasAreComparedBitwise) {
  const auto partitioner = all_ranks();
  Dataset data = random_rows().repeat().batch(48).partition(partitioner);
  auto trained =
      loop(make_state(partitioner), data, {{every(1), make_step()}, {every(5), check_replicas()}}, {.stop = at(12)});
  if (world().size() == 1) return;
  // Changes the last bit of one element on one rank.
  const Tensor bias = trained.state.at("params/dense1/bias");
  std::vector<float> values = to_host<float>(bias, trained.state.stream());
  const bool differs = world().rank() == 1;
  if (differs) values[3] = std::nextafter(values[3], 1.0f);
  from_host(bias, values, trained.state.stream());
  expect_error(ErrorCode::communication, {"the state's bits", "rank 1 has params: ", "rank 0 has params: "},
               [&] { check_replicas(trained.state, *partitioner); });
}

TEST(TrainingOfRanks, StopTogether) {
  const auto partitioner = all_ranks();
  Dataset data = random_rows().repeat().batch(48).partition(partitioner).to(test_device());
  const int last = world().size() - 1;
  // Only one rank asks for the stop.
  auto stopped = loop(make_state(partitioner), data,
                      {{every(1), make_step()},
                       {every(3),
                        [&](LoopState<TrainState, Batch>& loop) {
                          if (world().rank() == last && loop.elapsed.steps > 6) loop.stop_iteration = true;
                        }}},
                      {.stop = at(100)});
  EXPECT_EQ(stopped.elapsed.steps, 10);
  // All ranks skip the callbacks after the stop in that step.
  int later = 0;
  auto skipped = loop(make_state(partitioner), data,
                      {{every(3),
                        [&](LoopState<TrainState, Batch>& loop) {
                          if (world().rank() == last && loop.elapsed.steps > 6) loop.stop_iteration = true;
                        }},
                       {every(1), make_step()},
                       {every(1), [&](const TrainState&) { ++later; }}},
                      {.stop = at(100)});
  EXPECT_EQ(skipped.elapsed.steps, 10);
  EXPECT_EQ(later, 9);
  EXPECT_EQ(to_host<std::int64_t>(skipped.state.at("step"), skipped.state.stream()).front(), 9);
  auto timed = loop(make_state(partitioner), data, {{every(1), make_step()}}, {.stop = at({.time = 0.1})});
  EXPECT_TRUE(same_everywhere({static_cast<float>(timed.elapsed.steps), static_cast<float>(timed.elapsed.time())}));
  // A signal to one rank ends all ranks after the same step.
  auto interrupted = loop(make_state(partitioner), data,
                          {{every(1), make_step()},
                           {every(40),
                            [&](const Elapsed& elapsed) {
                              if (world().rank() == last && elapsed.steps == 40) std::raise(SIGINT);
                            }}},
                          {.stop = at(1'000'000)});
  EXPECT_EQ(interrupted.interrupted, SIGINT);
  EXPECT_TRUE(same_everywhere({static_cast<float>(interrupted.elapsed.steps)}));
  EXPECT_TRUE(same_everywhere(params_of(interrupted.state)));
}

// Differences between ranks are reported before they train.
TEST(TrainingOfRanks, DifferencesAreErrors) {
  if (world().size() == 1) GTEST_SKIP() << "of several ranks";
  const auto partitioner = all_ranks();
  const bool differs = world().rank() == 1;
  const auto expect = [&](std::initializer_list<std::string> words, const std::function<void()>& f) {
    expect_error(ErrorCode::communication, words, f);
  };
  const auto size_of = [](const auto& partitioner, std::int64_t batch) {
    return random_rows().shuffle(1).batch(batch).partition(partitioner).first_batch();
  };
  expect({"the dataset", "rank 1", "batch: 48", "rank 0", "batch: 24"},
         [&] { (void)size_of(partitioner, differs ? 48 : 24); });
  expect({"the dataset", "shuffled with seed 1", "shuffled with seed 0"},
         [&] { (void)random_rows().shuffle(differs ? 1 : 0).batch(12).partition(partitioner); });
  expect({"the training state", "rank 1 has seed 4", "rank 0 has seed 3"},
         [&] { (void)make_state(partitioner, differs ? 4 : 3); });
  expect({"learning rate 0.02", "learning rate 0.01"}, [&] {
    const optim::Optimizer optimizer = optim::adamw(differs ? 2e-2 : 1e-2);
    (void)TrainState::create(model(), optimizer,
                             {.inputs = {{"x", DType::f32, {1, kFeatures}}},
                              .seed = 3,
                              .context = test_device(),
                              .partitioner = partitioner});
  });
  expect({"the partitioner", "bucket_bytes 2", "bucket_bytes 1"}, [&] { (void)all_ranks(differs ? 2 : 1); });
  const std::string ranks = std::to_string(world().size());
  TrainState together = make_state(partitioner), alone = make_state(nullptr);
  const Dataset whole = random_rows().batch(48), part = whole.partition(partitioner);
  expect_error(ErrorCode::invalid_argument, {ranks + " ranks work on the state", "the batch is whole"},
               [&] { (void)make_step()(together, *whole.begin()); });
  expect_error(ErrorCode::invalid_argument, {"1 rank works on the state", "the batch is one of " + ranks + " parts"},
               [&] { (void)make_step()(alone, *part.begin()); });
}

}  // namespace
}  // namespace giro::test
