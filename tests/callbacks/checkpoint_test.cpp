#include <giro/callbacks/checkpoint.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <giro/callbacks/early_stopping.h>
#include <giro/callbacks/terminate_on_nan.h>
#include <giro/loop/loop.h>
#include <giro/runtime/files/safetensors.h>
#include <giro/runtime/program/graph.h>

#include "tests/support/expect_error.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/saved_bytes.h"
#include "tests/support/temporary_directory.h"

namespace giro {
namespace {

using test::expect_error;
using test::expect_invalid;

// A state like a training's, with values derived from `value`, and with a step count if `step` is given.
State make_state(float value, std::int64_t step = -1, Device device = Device::cpu()) {
  State state(device);
  state.add("params", {{"dense0/kernel", DType::f32, {2, 3}}, {"dense0/bias", DType::f32, {3}}});
  state.add("grads", {{"dense0/kernel", DType::f32, {2, 3}}}, {.saved = false});
  state.add("opt_state", {{"flags", DType::boolean, {2}}, {"none", DType::f64, {0}}});
  if (step >= 0) state.add("step", {{"", DType::i64, {}}});
  from_host(state.at("params/dense0/kernel"), std::vector<float>(6, value), state.stream());
  from_host(state.at("params/dense0/bias"), std::vector<float>{value, 2 * value, 3 * value}, state.stream());
  from_host(state.at("grads/dense0/kernel"), std::vector<float>(6, -value), state.stream());
  if (step >= 0) from_host(state.at("step"), std::vector<std::int64_t>{step}, state.stream());
  return state;
}

float bias_of(const State& state) { return to_host<float>(state.at("params/dense0/bias"), state.stream())[0]; }

std::vector<std::string> names_in(const std::string& dir) {
  std::vector<std::string> names = posix_file_system()->list(dir);
  std::erase_if(names, [](const std::string& name) { return !name.starts_with("checkpoint_"); });
  return names;
}
std::string name_of_step(const std::string& digits) { return "checkpoint_" + digits; }

Elapsed elapsed_at(std::int64_t steps, std::int64_t samples = 0, double time = 0) {
  return {.steps = steps,
          .samples = samples,
          .date = 1e6 + time,
          .date_start = 1e6,
          .step_samples = steps > 0 ? samples / steps : 0};
}

TEST(Checkpoint, RestoresWhatItSaved) {
  const test::TemporaryDirectory dir;
  State saved = make_state(1.5f, 42);
  checkpoint(dir / "a/b/model")(elapsed_at(41, 41 * 32, 2.5), saved);
  EXPECT_EQ(names_in(dir / "a/b/model"), std::vector<std::string>{name_of_step("0000000042")});

  for (const std::string& path : {dir / "a/b/model", dir / "a/b/model/checkpoint_0000000042"}) {
    State restored = make_state(7, 7);
    const Elapsed elapsed = restore(restored, path);
    EXPECT_EQ(elapsed.steps, 42);
    EXPECT_EQ(elapsed.samples, 42 * 32);
    EXPECT_EQ(elapsed.time(), 2.5);
    for (const Leaf& leaf : saved.flatten()) {
      if (leaf.path.starts_with("grads")) continue;
      EXPECT_EQ(std::memcmp(restored.at(leaf.path).raw(), leaf.value.raw(), leaf.value.bytes()), 0) << leaf.path;
    }
    // Collections that are not saved stay unchanged.
    EXPECT_EQ(to_host<float>(restored.at("grads/dense0/kernel"), restored.stream()), std::vector<float>(6, -7));
  }
}

TEST(Checkpoint, MovesBetweenCudaAndTheCpu) {
  const Discovery discovery = discover_devices();
  if (discovery.best().is_cpu()) GTEST_SKIP() << "no CUDA device: " << discovery.no_cuda_reason;
  const test::TemporaryDirectory dir;
  State host = make_state(2.5f, 9), device = make_state(0, 0, discovery.best());
  checkpoint(dir / "host")(elapsed_at(8), host);
  EXPECT_EQ(restore(device, dir / "host").steps, 9);
  checkpoint(dir / "device")(elapsed_at(8), device);
  EXPECT_EQ(test::read_text(dir / "device/checkpoint_0000000009/state.safetensors"),
            test::read_text(dir / "host/checkpoint_0000000009/state.safetensors"));
}

TEST(Checkpoint, WritesSavedLeavesUnderTheirPaths) {
  const test::TemporaryDirectory dir;
  State state = make_state(1, 3);
  checkpoint(dir.path())(elapsed_at(2), state);
  const Safetensors file =
      read_safetensors(*posix_file_system(), dir / (name_of_step("0000000003") + "/state.safetensors"));
  std::vector<std::string> paths;
  for (const Leaf& leaf : file.tensors) paths.push_back(leaf.path);
  EXPECT_EQ(paths, (std::vector<std::string>{"opt_state/none", "step", "params/dense0/bias", "params/dense0/kernel",
                                             "opt_state/flags"}));
}

TEST(Checkpoint, CountsStepsByTheStateOrByTheLoop) {
  const test::TemporaryDirectory dir;
  const auto steps_and_samples = [&](State state, const Elapsed& elapsed) {
    checkpoint(dir.path(), {.keep = 100})(elapsed, state);
    const Elapsed restored = restore(state, dir.path());
    return std::pair(restored.steps, restored.samples);
  };
  EXPECT_EQ(steps_and_samples(make_state(1), elapsed_at(0)), std::pair(std::int64_t{1}, std::int64_t{0}));
  EXPECT_EQ(steps_and_samples(make_state(1), elapsed_at(10, 320)), std::pair(std::int64_t{11}, std::int64_t{352}));
  // The checkpoint callback comes before the train step.
  EXPECT_EQ(steps_and_samples(make_state(1, 20), elapsed_at(20, 640)), std::pair(std::int64_t{20}, std::int64_t{640}));
  EXPECT_EQ(steps_and_samples(make_state(1, 31), elapsed_at(30, 960)), std::pair(std::int64_t{31}, std::int64_t{992}));
}

TEST(Checkpoint, KeepsTheNewest) {
  const test::TemporaryDirectory dir;
  State state = make_state(1);
  for (const char* foreign : {"checkpoint_.safetensors", "checkpoint_1", "checkpoint_0000000001.safetensor",
                              "checkpoint_000000000x", "checkpoint_0000000000.safetensors.tmp-1", "a"}) {
    test::write_text(dir / foreign, "");
  }
  const std::size_t foreign = names_in(dir.path()).size();
  Checkpoint keep_three = checkpoint(dir.path(), {.keep = 3});
  for (const std::int64_t step : {1, 5, 99, 100, 1000}) keep_three(elapsed_at(step), state);
  const std::vector<std::string> names = names_in(dir.path());
  EXPECT_EQ(names.size(), foreign + 3);
  for (const char* digits : {"0000000100", "0000000101", "0000001001"}) {
    EXPECT_EQ(std::count(names.begin(), names.end(), name_of_step(digits)), 1) << digits;
  }
  EXPECT_EQ(restore(state, dir.path()).steps, 1001);
}

TEST(Checkpoint, KeepsTheFirstAtOrPastEachMultiplePermanently) {
  const test::TemporaryDirectory dir;
  State state = make_state(1);
  Checkpoint save = checkpoint(dir.path(), {.keep = 2, .keep_every_n_steps = 10});
  for (const std::int64_t steps : {3, 9, 12, 15, 18, 21, 24, 40, 41, 42, 43}) save(elapsed_at(steps - 1), state);
  EXPECT_EQ(names_in(dir.path()), (std::vector<std::string>{name_of_step("0000000012"), name_of_step("0000000021"),
                                                            name_of_step("0000000040"), name_of_step("0000000042"),
                                                            name_of_step("0000000043")}));
}

TEST(Checkpoint, RejectsSavingBeforeALaterCheckpoint) {
  const test::TemporaryDirectory dir;
  State state = make_state(1);
  checkpoint(dir.path())(elapsed_at(999), state);
  expect_invalid({dir.path(), "step 1000 is saved", "later than step 1;", "overwrite"},
                 [&] { checkpoint(dir.path())(elapsed_at(0), state); });
  // A loop reports it before its first step.
  int steps = 0;
  const std::vector<int> batches(3);
  const auto count = [&](State&) { ++steps; };
  expect_invalid({"giro::Checkpoint", "step 1000 is saved", "later than step 0;"}, [&] {
    (void)loop(make_state(1), batches, {{every(1), count}, {every(2), checkpoint(dir.path())}});
  });
  EXPECT_EQ(steps, 0);
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{name_of_step("0000001000")});
  // Saving the same step again is allowed.
  checkpoint(dir.path())(elapsed_at(999), state);

  checkpoint(dir.path(), {.overwrite = true})(elapsed_at(0), state);
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{name_of_step("0000000001")});
}

TEST(Checkpoint, RejectsMovedFromState) {
  const test::TemporaryDirectory dir;
  State state = make_state(1);
  Checkpoint save = checkpoint(dir.path());
  save(elapsed_at(0), state);
  const State moved = std::move(state);
  expect_invalid({dir.path(), "moved from"}, [&] { save(elapsed_at(1), state); });  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{name_of_step("0000000001")});
  save(elapsed_at(1), moved);
}

// In a recorded step it would save only once, during the recording.
TEST(Checkpoint, RejectsSavingWhileRecording) {
  const test::TemporaryDirectory dir;
  const State state = make_state(1, 1);
  expect_invalid({"checkpoint: called in a step that is being recorded"},
                 [&] { Graph::record(state.stream(), [&] { checkpoint(dir.path())(elapsed_at(0), state); }); });
  EXPECT_TRUE(names_in(dir.path()).empty());
}

// The bias of the state is NaN from step 4 on. The state is saved every second step and at the end; the run stops in
// step 5.
void check_keeps_the_last_finite(Device device, bool checkpoint_first) {
  const test::TemporaryDirectory dir;
  const auto diverge = [](State& state, const Elapsed& elapsed) {
    const float value = elapsed.steps < 4 ? static_cast<float>(elapsed.steps) : NAN;
    from_host(state.at("params/dense0/bias"), std::vector<float>{0, value, 0}, state.stream());
    return logs().add_metric("loss", value);
  };
  Checkpoint save = checkpoint(dir.path());
  const TerminateOnNan stop = terminate_on_nan();
  const std::vector<Task<State, int>> stops{{every(5), stop}}, saves{{every(2) | last(), save}};
  std::vector<Task<State, int>> tasks{{every(1), diverge}};
  const auto add = [&](const std::vector<Task<State, int>>& more) {
    tasks.insert(tasks.end(), more.begin(), more.end());
  };
  add(checkpoint_first ? saves : stops);
  add(checkpoint_first ? stops : saves);
  const auto result = loop(make_state(1, -1, device), std::vector<int>(20), tasks);
  EXPECT_EQ(result.elapsed.steps, 6);
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{name_of_step("0000000003")});
  EXPECT_EQ(result.history.column("stateful_metrics.checkpoint_skipped"), (std::vector<double>{5, 6}));
  EXPECT_EQ(save.report(), "step 6 is not saved: params/dense0/bias is not finite");
  State restored = make_state(7, -1, device);
  EXPECT_EQ(restore(restored, dir.path()).steps, 3);
  EXPECT_EQ(to_host<float>(restored.at("params/dense0/bias"), restored.stream()), (std::vector<float>{0, 2, 0}));
}

TEST(Checkpoint, DivergedStateReplacesNoFiniteState) {
  for (const bool checkpoint_first : {false, true}) check_keeps_the_last_finite(Device::cpu(), checkpoint_first);
}

TEST(Checkpoint, DivergedStateReplacesNoFiniteStateOnCuda) {
  const Discovery discovery = discover_devices();
  if (discovery.best().is_cpu()) GTEST_SKIP() << "no CUDA device: " << discovery.no_cuda_reason;
  for (const bool checkpoint_first : {false, true}) check_keeps_the_last_finite(discovery.best(), checkpoint_first);
}

TEST(Checkpoint, FiniteStateReplacesNonFiniteOne) {
  const test::TemporaryDirectory dir;
  Checkpoint save = checkpoint(dir.path());
  State infinite = make_state(INFINITY), finite = make_state(1);
  EXPECT_TRUE(save(elapsed_at(0), infinite));
  EXPECT_TRUE(save(elapsed_at(1), infinite));
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{name_of_step("0000000002")});
  EXPECT_TRUE(save(elapsed_at(2), finite));
  EXPECT_FALSE(save(elapsed_at(2), infinite));  // nor does it replace the same step's checkpoint
  EXPECT_FALSE(save(elapsed_at(3), infinite));
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{name_of_step("0000000003")});
  expect_invalid({dir.path(), "step 4", "params/dense0/kernel"},
                 [&] { checkpoint(dir.path(), {.not_finite = "error"})(elapsed_at(3), infinite); });
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{name_of_step("0000000003")});
  EXPECT_TRUE(checkpoint(dir.path(), {.not_finite = "save"})(elapsed_at(3), infinite));
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{name_of_step("0000000004")});
  expect_invalid({"not_finite is 'skpi'", "'skip'"}, [&] { checkpoint(dir.path(), {.not_finite = "skpi"}); });
}

TEST(Checkpoint, ChecksEveryFloatingType) {
  const auto saves = [](DType dtype, const void* value) {
    const test::TemporaryDirectory dir;
    State state(Device::cpu());
    state.add("x", {{"a", dtype, {3}}, {"n", DType::i64, {1}}});
    from_host(state.at("x/n"), std::vector<std::int64_t>{-1}, state.stream());  // all bits set
    Checkpoint save = checkpoint(dir.path());
    EXPECT_TRUE(save(elapsed_at(0), state));
    std::memcpy(static_cast<char*>(state.at("x/a").raw()) + 2 * size_of(dtype), value, size_of(dtype));
    return save(elapsed_at(1), state);
  };
  const auto check = [&]<class Bits>(DType dtype, Bits largest, Bits infinity) {
    const Bits sign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
    const Bits minus_largest = largest | sign, minus_infinity = infinity | sign, nan = infinity | Bits{1};
    EXPECT_TRUE(saves(dtype, &largest) && saves(dtype, &minus_largest)) << name_of(dtype);
    for (const Bits& bad : {infinity, minus_infinity, nan}) EXPECT_FALSE(saves(dtype, &bad)) << name_of(dtype);
  };
  check(DType::f32, std::uint32_t{0x7F7FFFFF}, std::uint32_t{0x7F800000});
  check(DType::f64, std::uint64_t{0x7FEFFFFFFFFFFFFF}, std::uint64_t{0x7FF0000000000000});
  check(DType::f16, std::uint16_t{0x7BFF}, std::uint16_t{0x7C00});
  check(DType::bf16, std::uint16_t{0x7F7F}, std::uint16_t{0x7F80});
}

// A value of a skipped state does not become the best.
TEST(Checkpoint, SkippedStateIsNotTheBest) {
  const test::TemporaryDirectory dir;
  const std::vector<double> losses{5, 1, 4};
  const auto step = [&](State& state, const Elapsed& e) {
    const float value = e.steps == 1 ? NAN : 1;
    from_host(state.at("params/dense0/bias"), std::vector<float>(3, value), state.stream());
    return logs().add_loss("loss", losses.at(static_cast<std::size_t>(e.steps)));
  };
  (void)loop(make_state(1), std::vector<int>(3), {{every(1), {step, checkpoint(dir.path(), {.monitor = "loss"})}}});
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{name_of_step("0000000003")});
}

// Increments the state's own step count.
void count_step(State& state) {
  const std::int64_t step = to_host<std::int64_t>(state.at("step"), state.stream()).front();
  from_host(state.at("step"), std::vector<std::int64_t>{step + 1}, state.stream());
}

TEST(Checkpoint, GoesBackWithTheStateOfItsOwnRun) {
  const test::TemporaryDirectory dir;
  const std::vector<double> losses{5, 3, 4, 4, 4};
  const auto log = [&](const State&, const Elapsed& e) {
    return logs().add_loss("loss", losses.at(static_cast<std::size_t>(e.steps)));
  };
  const CheckpointOptions options{.keep = 9};
  const auto result = loop(make_state(1, 0), std::vector<int>(5),
                           {{every(1), {count_step, log, checkpoint(dir.path(), options)}},
                            {every(1), early_stopping("loss", {.patience = 2, .restore_best = true})},
                            {last(), checkpoint(dir.path(), options)}});
  EXPECT_EQ(result.elapsed.steps, 4);
  EXPECT_EQ(names_in(dir.path()), (std::vector<std::string>{name_of_step("0000000001"), name_of_step("0000000002")}));
  checkpoint(dir.path(), options)(result.elapsed, result.state);
}

TEST(Checkpoint, StepsInOnEndAreThoseOfTheLoop) {
  const test::TemporaryDirectory dir;
  (void)loop(make_state(1), std::vector<int>(10), {}, {.on_end = {checkpoint(dir.path())}});
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{name_of_step("0000000010")});
}

TEST(Checkpoint, ResumedRunWaitsForMonitoredEntry) {
  const test::TemporaryDirectory dir;
  const auto log = [](const State&) { return logs().add_loss("loss", 1); };
  (void)loop(make_state(1), std::vector<int>(4),
             {{after(8), log}, {every(1), checkpoint(dir.path(), {.monitor = "loss"})}}, {.elapsed = {.steps = 6}});
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{name_of_step("0000000009")});
}

TEST(Checkpoint, SavesDespiteALaterDamagedCheckpoint) {
  const test::TemporaryDirectory dir;
  std::filesystem::create_directory(dir / name_of_step("0000001000"));
  test::write_text(dir / name_of_step("0000001000") + "/checkpoint.json", "damaged");
  State state = make_state(1);
  Checkpoint save = checkpoint(dir.path());
  save(elapsed_at(0), state);
  save(elapsed_at(1), state);
  EXPECT_EQ(names_in(dir.path()), (std::vector<std::string>{name_of_step("0000000002"), name_of_step("0000001000")}));
  EXPECT_EQ(restore(state, dir.path()).steps, 2);
}

// Whichever call fails, alone or as the process's last, a complete checkpoint remains, and another exists after the
// next save.
TEST(Checkpoint, SurvivesAFaultAtEveryCall) {
  const auto save = [](const test::TemporaryDirectory& dir, const std::shared_ptr<FileSystem>& files) {
    State state = make_state(1, 1);
    checkpoint(dir.path())(elapsed_at(0), state);
    state = make_state(2, 2);
    checkpoint(dir.path(), {.files = files})(elapsed_at(1), state);
  };
  const auto counting = std::make_shared<test::FaultyFileSystem>();
  save(test::TemporaryDirectory(), counting);
  ASSERT_GT(counting->calls.size(), 20u);
  int failed = 0;
  for (const bool crash : {false, true}) {
    for (std::size_t call = 1; call <= counting->calls.size(); ++call) {
      const test::TemporaryDirectory dir;
      bool done = false;
      try {
        save(dir, std::make_shared<test::FaultyFileSystem>(call, crash));
        done = true;  // for example if only the listing of the older checkpoint failed
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::io) << error.what();
        ++failed;
      }
      State restored = make_state(0, 0);
      const Elapsed elapsed = restore(restored, dir.path());
      EXPECT_GE(elapsed.steps, done ? 2 : 1);
      EXPECT_EQ(bias_of(restored), static_cast<float>(elapsed.steps)) << "call " << call;

      State state = make_state(3, 3);
      checkpoint(dir.path())(elapsed_at(2), state);
      EXPECT_EQ(restore(restored, dir.path()).steps, 3);
      EXPECT_EQ(bias_of(restored), 3);
    }
  }
  EXPECT_GT(failed, 30);
}

TEST(Checkpoint, ReportsWriteErrors) {
  const test::TemporaryDirectory dir;
  test::write_text(dir / "file", "");
  State state = make_state(1);
  expect_error(ErrorCode::io, {dir / "file"}, [&] { checkpoint(dir / "file")(elapsed_at(0), state); });
  expect_error(ErrorCode::io, {dir / "file"}, [&] { checkpoint(dir / "file/model")(elapsed_at(0), state); });
  expect_invalid({"keep is 0", "at least 1"}, [&] { checkpoint("a", {.keep = 0}); });
  expect_invalid({"keep_every_n_steps is -1", "at least 1 and 0"},
                 [&] { checkpoint("a", {.keep_every_n_steps = -1}); });
  expect_invalid({"empty"}, [&] { checkpoint(""); });
  expect_invalid({"'loss'", "mode is 'mim'", "did you mean 'min'"},
                 [&] { checkpoint("a", {.monitor = "loss", .mode = "mim"}); });
}

// Counts its steps in the state.
void train_step(State& state) {
  const auto step = to_host<std::int64_t>(state.at("step"), state.stream());
  from_host(state.at("step"), std::vector<std::int64_t>{step[0] + 1}, state.stream());
}

TEST(Checkpoint, IsABarrierOfTheLoop) {
  const test::TemporaryDirectory dir;
  const std::vector<int> batches(10);
  auto result = loop(make_state(1, 0), batches,
                     {{every(1), train_step}, {every(3), checkpoint(dir.path(), {.keep = 2})}}, {.stop = at(8)});
  EXPECT_EQ(names_in(dir.path()), (std::vector<std::string>{name_of_step("0000000004"), name_of_step("0000000007")}));
  const Elapsed elapsed = restore(result.state, dir.path());
  EXPECT_EQ(elapsed.steps, 7);
  EXPECT_EQ(elapsed.samples, 7);
}

// A checkpoint has exactly the Elapsed with which the next step begins, for batches of any sizes.
TEST(Checkpoint, ReportsWhereTheNextStepBegins) {
  const std::vector<std::int64_t> batches{5, 3, 8, 1, 4};
  for (const bool behind : {true, false}) {
    const test::TemporaryDirectory dir;
    std::vector<Elapsed> begins;
    const auto note = [&](const State&, const Elapsed& elapsed) { begins.push_back(elapsed); };
    Checkpoint save = checkpoint(dir.path(), {.keep = 100});
    using StateTask = Task<State, std::int64_t>;
    std::vector<StateTask> tasks{{every(1), note}, {every(1), train_step}};
    tasks.insert(behind ? tasks.end() : tasks.begin(), StateTask{every(1), save});
    State last = std::move(
        loop(make_state(1, 0), batches, tasks, {.batch_size_fn = [](const std::int64_t& batch) { return batch; }})
            .state);
    for (std::size_t i = 1; i < begins.size(); ++i) {
      const Restored there = restore(last, dir / fmt::format("checkpoint_{:010}", i));
      EXPECT_EQ(there.steps, begins[i].steps);
      EXPECT_EQ(there.samples, begins[i].samples);
      EXPECT_EQ(there.previous_samples, begins[i].previous_samples);
      EXPECT_LE(there.time(), begins[i].time());
      EXPECT_LE(there.previous_date, there.date);
    }
  }
}

// Schedules by samples are due at the same steps whether or not the run was cut.
TEST(Checkpoint, ResumedRunFiresAtTheSameSamples) {
  const std::vector<std::int64_t> batches{5, 3, 8, 1, 4, 9, 2, 7, 6, 3, 5, 5};
  const auto size = [](const std::int64_t& batch) { return batch; };
  std::vector<std::int64_t> whole;
  const auto note_in = [](std::vector<std::int64_t>& fired) {
    return [&fired](const State&, const Elapsed& elapsed) { fired.push_back(elapsed.steps); };
  };
  (void)loop(make_state(1, 0), batches, {{every(1), train_step}, {every({.samples = 7}), note_in(whole)}},
             {.batch_size_fn = size});
  ASSERT_GT(whole.size(), 4u);
  for (std::int64_t cut = 1; cut < 12; ++cut) {
    const test::TemporaryDirectory dir;
    std::vector<std::int64_t> fired;
    (void)loop(make_state(1, 0), batches,
               {{every(1), train_step}, {every({.samples = 7}), note_in(fired)}, {every(1), checkpoint(dir.path())}},
               {.stop = at(cut), .batch_size_fn = size});
    State state = make_state(0, 0);
    const Restored there = restore(state, dir.path());
    ASSERT_EQ(there.steps, cut);
    (void)loop(std::move(state), std::vector<std::int64_t>(batches.begin() + cut, batches.end()),
               {{every(1), train_step}, {every({.samples = 7}), note_in(fired)}},
               {.elapsed = there, .batch_size_fn = size});
    EXPECT_EQ(fired, whole) << "cut at " << cut;
  }
}

// A callback that logs the next of the values.
auto log_values(std::vector<double> values) {
  return [values, next = std::size_t{0}]() mutable { return logs().add_metric("accuracy", values[next++]); };
}

TEST(Checkpoint, MonitoredSavesOnStrictImprovementOnly) {
  const test::TemporaryDirectory dir;
  const double nan = std::nan("");
  const std::vector<int> batches(7);
  const std::vector<double> values{nan, 0.5, 0.5, 0.25, 0.75, nan, 0.75};
  const auto saved = [&](const std::string& mode) {
    const std::string path = dir / mode;
    (void)loop(make_state(1, 0), batches,
               {{every(1), train_step},
                {every(1), log_values(values)},
                {every(1), checkpoint(path, {.monitor = "accuracy", .mode = mode})}});
    return names_in(path);
  };
  EXPECT_EQ(saved("max"), std::vector<std::string>{name_of_step("0000000005")});
  EXPECT_EQ(saved("min"), std::vector<std::string>{name_of_step("0000000004")});
}

TEST(Checkpoint, ResumedRunKnowsBestOfEarlierRuns) {
  const test::TemporaryDirectory dir;
  const CheckpointOptions options{.monitor = "metrics.accuracy", .mode = "max"};
  const auto run = [&](State state, const Elapsed& elapsed, const std::vector<double>& values,
                       const CheckpointOptions& with) {
    (void)loop(std::move(state), std::vector<int>(values.size()),
               {{every(1), train_step}, {every(1), log_values(values)}, {every(1), checkpoint(dir.path(), with)}},
               {.elapsed = elapsed});
    return names_in(dir.path());
  };
  EXPECT_EQ(run(make_state(1, 0), {}, {0.1, 1. / 3, 0.2}, options),
            std::vector<std::string>{name_of_step("0000000002")});
  State state = make_state(0, 0);
  Restored there = restore(state, dir.path());
  EXPECT_EQ(run(state.clone(), there, {1. / 3, 0.3}, options), std::vector<std::string>{name_of_step("0000000002")});
  EXPECT_EQ(run(state.clone(), there, {0.3, std::nextafter(1. / 3, 1.)}, options),
            std::vector<std::string>{name_of_step("0000000004")});
  // A run from the start with `overwrite` ignores later, better values.
  CheckpointOptions overwrite = options;
  overwrite.overwrite = true;
  EXPECT_EQ(run(make_state(1, 0), {}, {0.1}, overwrite), std::vector<std::string>{name_of_step("0000000001")});
  // Values saved for another entry do not count.
  CheckpointOptions other = options;
  other.monitor = "accuracy";
  there = restore(state, dir.path());
  EXPECT_EQ(run(std::move(state), there, {0.01}, other), std::vector<std::string>{name_of_step("0000000002")});
}

TEST(Checkpoint, SuggestsNearestEntryForUnknownMonitor) {
  const test::TemporaryDirectory dir;
  expect_error(ErrorCode::not_found, {"giro::Checkpoint", "step 0", "'acuracy'", "did you mean 'accuracy'"}, [&] {
    (void)loop(make_state(1, 0), std::vector<int>(1),
               {{every(1), log_values({1})}, {every(1), checkpoint(dir.path(), {.monitor = "acuracy"})}});
  });
}

// Reference test 9: 3 steps with a checkpoint every 2.
TEST(Checkpoint, Reference9ThreeStepsWithACheckpointEveryTwo) {
  const test::TemporaryDirectory dir;
  const auto log = [](const Elapsed& elapsed) { return logs().add_metric("a", static_cast<double>(elapsed.steps)); };
  const auto [state, history, elapsed] = loop(make_state(1, 0), std::vector<int>(3),
                                              {{every(1), {train_step, log}}, {every(2), checkpoint(dir / "model")}});
  EXPECT_EQ(names_in(dir / "model"), std::vector<std::string>{name_of_step("0000000003")});
  EXPECT_EQ(history.size(), 3u);
  EXPECT_EQ(history.collect("steps")[0], (std::vector<double>{0, 1, 2}));
}

class RestoreTest : public testing::Test {
 protected:
  RestoreTest() {
    State saved = make_state(1, 5);
    checkpoint(dir_.path())(elapsed_at(4), saved);
  }

  std::string path() const { return dir_ / name_of_step("0000000005"); }
  // Expects the error, and an unchanged state.
  void expect_rejected(ErrorCode code, std::initializer_list<std::string> words, State state) {
    State before = state.clone();
    expect_error(code, {path()}, [&] { restore(state, dir_.path()); });
    expect_error(code, words, [&] { restore(state, dir_.path()); });
    EXPECT_EQ(test::leaf_bytes(state), test::leaf_bytes(before));
  }

  test::TemporaryDirectory dir_;
};

TEST_F(RestoreTest, NamesTheLeafThatDiffers) {
  const auto params = [](DType dtype, const Shape& bias) {
    State state(Device::cpu());
    state.add("params", {{"dense0/kernel", DType::f32, {2, 3}}, {"dense0/bias", dtype, bias}});
    state.add("opt_state", {{"flags", DType::boolean, {2}}, {"none", DType::f64, {0}}});
    state.add("step", {{"", DType::i64, {}}});
    return state;
  };
  State same = params(DType::f32, {3});
  EXPECT_EQ(restore(same, dir_.path()).steps, 5);
  expect_rejected(ErrorCode::shape_mismatch, {"params/dense0/bias", "f32(3,)", "f32(3, 1)"},
                  params(DType::f32, {3, 1}));
  expect_rejected(ErrorCode::dtype_mismatch, {"params/dense0/bias", "f32(3,)", "i32(3,)"}, params(DType::i32, {3}));

  State more = make_state(2, 6);
  more.add("batch_stats", {{"mean", DType::f32, {3}}});
  expect_rejected(ErrorCode::not_found, {"batch_stats/mean"}, std::move(more));
  expect_rejected(ErrorCode::not_found, {"step"}, make_state(2));
}

TEST_F(RestoreTest, RejectsDamage) {
  const std::string leaves = path() + "/state.safetensors", good = test::read_text(leaves);
  for (const std::size_t size : {std::size_t{0}, std::size_t{100}, good.size() / 2, good.size() - 1}) {
    test::write_text(leaves, good.substr(0, size));
    expect_rejected(ErrorCode::corrupt_data, {}, make_state(2, 6));
  }
  test::write_text(leaves, good);
  State state = make_state(2, 6);
  EXPECT_EQ(restore(state, dir_.path()).steps, 5);
}

TEST_F(RestoreTest, RejectsVersion01) {
  const std::string file = dir_ / "checkpoint_0000000006.safetensors";
  test::write_text(file, "weights");
  State state = make_state(2, 6);
  for (const std::string& from : {dir_.path(), file}) {
    expect_error(ErrorCode::unsupported, {file, "version 0.1", "expected a directory"}, [&] { restore(state, from); });
  }
}

TEST(Restore, TakesNewestUndamagedCheckpointAndReportsIt) {
  const test::TemporaryDirectory dir;
  for (const int step : {1, 2, 3}) {
    State state = make_state(static_cast<float>(step), step);
    checkpoint(dir.path(), {.keep = 3})(elapsed_at(step - 1), state);
  }
  State state = make_state(0, 0);
  const Restored newest = restore(state, dir.path());
  EXPECT_EQ(newest.path, dir / name_of_step("0000000003"));
  EXPECT_TRUE(newest.skipped.empty());

  for (const char* digits : {"0000000003", "0000000002"}) {
    const std::string path = dir / (name_of_step(digits) + "/state.safetensors");
    test::write_text(path, test::read_text(path).substr(0, 300));
  }
  const Restored older = restore(state, dir.path());
  EXPECT_EQ(older.steps, 1);
  EXPECT_EQ(bias_of(state), 1);
  EXPECT_EQ(older.path, dir / name_of_step("0000000001"));
  ASSERT_EQ(older.skipped.size(), 2u);
  EXPECT_NE(older.skipped[0].find(name_of_step("0000000003")), std::string::npos) << older.skipped[0];
  EXPECT_NE(older.skipped[1].find(name_of_step("0000000002")), std::string::npos) << older.skipped[1];

  // A checkpoint asked for by name is not replaced by another, and another model is not damage.
  expect_error(ErrorCode::corrupt_data, {name_of_step("0000000002")},
               [&] { restore(state, dir / name_of_step("0000000002")); });
  State other = make_state(0);
  expect_error(ErrorCode::not_found, {name_of_step("0000000001"), "step"}, [&] { restore(other, dir.path()); });

  // A run that resumes from the older one may save.
  (void)loop(make_state(1, 1), std::vector<int>(0), {{every(1), checkpoint(dir.path(), {.keep = 3})}},
             {.elapsed = older});

  test::write_text(dir / (name_of_step("0000000001") + "/state.safetensors"), "");
  expect_error(ErrorCode::corrupt_data, {name_of_step("0000000003")}, [&] { restore(state, dir.path()); });
  EXPECT_EQ(bias_of(state), 1);
}

TEST(Restore, ReportsMissingCheckpoint) {
  const test::TemporaryDirectory dir;
  State state = make_state(1);
  expect_error(ErrorCode::not_found, {"no checkpoint", dir.path()}, [&] { restore(state, dir.path()); });
  expect_error(ErrorCode::not_found, {dir / "gone"}, [&] { restore(state, dir / "gone"); });
}

}  // namespace
}  // namespace giro
