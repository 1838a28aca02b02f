// When a run is saved outside its schedule, and the effects of a failed save.

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <giro/callbacks/checkpoint.h>
#include <giro/callbacks/csv_logger.h>
#include <giro/callbacks/noop.h>
#include <giro/callbacks/resume.h>
#include <giro/callbacks/run_directory.h>
#include <giro/loop/data/dataset.h>
#include <giro/loop/inner_loop.h>
#include <giro/loop/loop.h>
#include <giro/runtime/files/checkpoint_store.h>

#include "tests/support/expect_error.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/temporary_directory.h"

namespace giro {
namespace {

using test::expect_error;
using test::expect_invalid;
using PolicyTasks = std::vector<Task<State, int>>;

State make_policy_state() {
  State state(Device::cpu());
  state.add("params", {{"x", DType::f32, {3}}});
  return state;
}
void count(State& state) { static_cast<float*>(state.at("params/x").raw())[0] += 1; }
float value_of(const State& state) { return to_host<float>(state.at("params/x"), state.stream())[0]; }

std::vector<std::int64_t> steps_in(const std::string& dir) {
  std::vector<std::int64_t> steps;
  for (const StoredCheckpoint& stored : CheckpointStore(dir).all()) steps.push_back(stored.record.steps);
  return steps;
}

// Calls `f` in one step.
auto in_step(std::int64_t step, std::function<void()> f) {
  return [step, f = std::move(f)](const State&, const Elapsed& elapsed) {
    if (elapsed.steps == step) f();
  };
}

TEST(CheckpointPolicy, SignalSavesTheRunBeforeEndingIt) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const test::TemporaryDirectory dir;
    const auto result = loop(
        make_policy_state(), std::vector<int>(20),
        {{every(1), count}, {every(10), checkpoint(dir.path())}, {every(1), in_step(6, [&] { std::raise(signal); })}});
    EXPECT_EQ(result.interrupted, signal);
    EXPECT_EQ(steps_in(dir.path()), std::vector<std::int64_t>{7});
    // The run can be resumed.
    const auto rest =
        loop(make_policy_state(), std::vector<int>(20), {{every(1), count}, {every(10), checkpoint(dir.path())}},
             {.on_start = {resume(dir.path())}});
    EXPECT_EQ(value_of(rest.state), 20);
    EXPECT_EQ(rest.elapsed.steps, 20);
  }
}

// A launcher or a scheduler signals again while the run saves.
struct FilesWithSignals final : test::FaultyFileSystem {
  bool asks_again = false;
  void rename(const std::string& from, const std::string& to) override {
    if (asks_again) std::raise(SIGTERM);
    FaultyFileSystem::rename(from, to);
  }
};

TEST(CheckpointPolicy, RepeatedSignalsDoNotPreventTheSave) {
  const test::TemporaryDirectory dir;
  const auto files = std::make_shared<FilesWithSignals>();
  const auto end = [&] {
    std::raise(SIGTERM);
    files->asks_again = true;
  };
  const auto result =
      loop(make_policy_state(), std::vector<int>(20),
           {{every(1), count}, {every(10), checkpoint(dir.path(), {.files = files})}, {every(1), in_step(6, end)}});
  EXPECT_EQ(result.interrupted, SIGTERM);
  EXPECT_EQ(steps_in(dir.path()), std::vector<std::int64_t>{7});
}

// Callbacks due by last() then get the batch of the step, as in a loop that saves nothing.
TEST(CheckpointPolicy, OnEndAfterSignalSeesTheBatch) {
  for (const bool saves : {false, true}) {
    const test::TemporaryDirectory dir;
    std::vector<int> batches(20), seen;
    for (std::size_t i = 0; i < batches.size(); ++i) batches[i] = static_cast<int>(i);
    PolicyTasks tasks{{every(1), in_step(6, [] { std::raise(SIGTERM); })},
                      {last(), [&](const State&, const int& batch, const Elapsed& elapsed) {
                         seen.push_back(batch);
                         EXPECT_EQ(elapsed.steps, 6);
                         return logs().add_metric("final", batch);
                       }}};
    if (saves) tasks.emplace_back(never(), checkpoint(dir.path()));
    const auto result = loop(make_policy_state(), batches, tasks);
    EXPECT_EQ(seen, std::vector<int>{6});
    EXPECT_EQ(result.history.column("final"), std::vector<double>{6});
    EXPECT_EQ(result.elapsed.steps, 7);
  }
}

TEST(CheckpointPolicy, SigusrSavesAndTheRunContinues) {
  const test::TemporaryDirectory dir;
  const auto before = std::signal(SIGUSR1, SIG_DFL);
  const auto result = loop(make_policy_state(), std::vector<int>(20),
                           {{every(1), in_step(4, [] { std::raise(SIGUSR1); })},
                            {every(1), count},
                            {every(100), checkpoint(dir.path(), {.keep = 9})}});
  EXPECT_EQ(result.interrupted, 0);
  EXPECT_EQ(result.elapsed.steps, 20);
  EXPECT_EQ(steps_in(dir.path()), (std::vector<std::int64_t>{1, 5}));
  State state = make_policy_state();
  restore(state, dir.path());
  EXPECT_EQ(value_of(state), 5);
  // Afterwards the signal goes to the program's handler again, as it does in a loop that saves nothing.
  EXPECT_EQ(std::signal(SIGUSR1, before), SIG_DFL);
  static int heard = 0;
  std::signal(SIGUSR1, [](int) { ++heard; });
  (void)loop(make_policy_state(), std::vector<int>(5), {{every(1), in_step(2, [] { std::raise(SIGUSR1); })}});
  EXPECT_EQ(heard, 1);
  std::signal(SIGUSR1, before);
}

// A range that cannot make batch number `fails`.
struct Failing {
  int fails;
  struct Iterator {
    using value_type = int;
    using difference_type = std::ptrdiff_t;
    int at, fails;
    int operator*() const {
      if (at == fails) throw std::runtime_error("no batch " + std::to_string(at));
      return at;
    }
    Iterator& operator++() {
      ++at;
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return at == 20; }
  };
  Iterator begin() const { return {0, fails}; }
  std::default_sentinel_t end() const { return {}; }
};

TEST(CheckpointPolicy, ErrorBetweenStepsSavesTheRun) {
  const test::TemporaryDirectory dir;
  const PolicyTasks tasks{{every(1), count}, {every(15), checkpoint(dir.path())}};
  expect_error(ErrorCode::callback, {"no batch 8", "step 8"},
               [&] { (void)loop(make_policy_state(), Failing{8}, tasks); });
  EXPECT_EQ(steps_in(dir.path()), std::vector<std::int64_t>{8});
  const auto rest = loop(make_policy_state(), Failing{-1}, tasks, {.on_start = {resume(dir.path())}});
  EXPECT_EQ(value_of(rest.state), 20);
}

// Within a step the state may be half updated, so the last complete checkpoint stays.
TEST(CheckpointPolicy, ErrorWithinAStepSavesNothing) {
  const test::TemporaryDirectory dir;
  const PolicyTasks tasks{{every(1), count},
                          {every(5), checkpoint(dir.path())},
                          {every(1), in_step(7, [] { throw std::runtime_error("a callback's"); })}};
  expect_error(ErrorCode::callback, {"a callback's", "step 7"},
               [&] { (void)loop(make_policy_state(), std::vector<int>(20), tasks); });
  EXPECT_EQ(steps_in(dir.path()), std::vector<std::int64_t>{6});
}

TEST(CheckpointPolicy, AsynchronousSavesHoldTheirOwnSteps) {
  const test::TemporaryDirectory dir;
  const CheckpointOptions options{.keep = 100, .asynchronous = true};
  (void)loop(make_policy_state(), std::vector<int>(10),
             {{every(1), count}, {every(1), checkpoint(dir.path(), options)}});
  ASSERT_EQ(steps_in(dir.path()).size(), 10u);
  for (const StoredCheckpoint& stored : CheckpointStore(dir.path()).all()) {
    State state = make_policy_state();
    restore(state, stored.path);
    EXPECT_EQ(value_of(state), static_cast<float>(stored.record.steps));
  }
}

TEST(CheckpointPolicy, ErrorOfAsynchronousSaveIsRethrown) {
  const auto counting = std::make_shared<test::FaultyFileSystem>();
  const auto run = [](const std::shared_ptr<FileSystem>& files) {
    const test::TemporaryDirectory dir;
    (void)loop(make_policy_state(), std::vector<int>(3),
               {{every(1), count}, {last(), checkpoint(dir.path(), {.asynchronous = true, .files = files})}});
  };
  run(counting);
  for (std::size_t i = 0; i < counting->calls.size(); ++i) {
    if (!counting->calls[i].starts_with("rename checkpoint_")) continue;
    expect_error(ErrorCode::io, {"giro::Checkpoint"}, [&] { run(std::make_shared<test::FaultyFileSystem>(i + 1)); });
    return;
  }
  FAIL() << "nothing was renamed";
}

// Saves of the best and of the latest, each beside those that are kept.
TEST(CheckpointPolicy, SaveMakesAsManyCallsBesideManyCheckpoints) {
  const auto calls_of_a_step = [](std::int64_t keep) {
    const test::TemporaryDirectory dir;
    const auto files = std::make_shared<test::FaultyFileSystem>();
    std::vector<std::size_t> calls;
    const auto log = [&](const State&, const Elapsed& elapsed) {
      calls.push_back(files->calls.size());
      return logs().add_loss("loss", -static_cast<double>(elapsed.steps));
    };
    (void)loop(make_policy_state(), std::vector<int>(34),
               {{every(1), count},
                {every(1), log},
                {every(1), checkpoint(dir / "best", {.keep = keep, .monitor = "loss", .files = files})},
                {every(1), checkpoint(dir / "latest", {.keep = keep, .files = files})}});
    return calls[33] - calls[32];
  };
  EXPECT_EQ(calls_of_a_step(2), calls_of_a_step(30));
}

TEST(CheckpointPolicy, RetriesAsConfigured) {
  const auto counting = std::make_shared<test::FaultyFileSystem>();
  const auto run = [](const std::shared_ptr<FileSystem>& files, const std::string& on_failure) {
    const test::TemporaryDirectory dir;
    const Checkpoint save = checkpoint(dir.path(), {.on_failure = on_failure, .files = files});
    (void)loop(make_policy_state(), std::vector<int>(3), {{every(1), count}, {last(), save}});
    EXPECT_EQ(steps_in(dir.path()), std::vector<std::int64_t>{3});
    return save.report();
  };
  EXPECT_EQ(run(counting, "retry"), "");
  for (std::size_t i = 0; i < counting->calls.size(); ++i) {
    if (!counting->calls[i].starts_with("rename checkpoint_")) continue;
    const auto faulty = [&] { return std::make_shared<test::FaultyFileSystem>(i + 1); };
    expect_error(ErrorCode::io, {"giro::Checkpoint"}, [&] { run(faulty(), "fail"); });
    EXPECT_NE(run(faulty(), "retry").find("step 3 is not saved yet: "), std::string::npos);
    expect_invalid({"on_failure is 'pauze'", "did you mean 'pause'"}, [&] { run(faulty(), "pauze"); });
    return;
  }
  FAIL() << "nothing was renamed";
}

TEST(CheckpointPolicy, ReportsLackOfSpaceBeforeTheFirstStep) {
  class Full final : public test::FaultyFileSystem {
   public:
    std::uint64_t free_bytes(const std::string&) override { return 100; }
  };
  const test::TemporaryDirectory dir;
  int steps = 0;
  expect_error(ErrorCode::io, {"100 are free", "giro::Checkpoint"}, [&] {
    (void)loop(make_policy_state(), std::vector<int>(3),
               {{every(1), [&](State&) { ++steps; }},
                {every(1), checkpoint(dir.path(), {.keep = 9, .files = std::make_shared<Full>()})}});
  });
  EXPECT_EQ(steps, 0);
}

// Flips a byte of a checkpoint's state.
void damage(const std::string& checkpoint) {
  const std::string path = checkpoint + "/state.safetensors";
  std::string text = test::read_text(path);
  text.back() = static_cast<char>(text.back() ^ 1);
  test::write_text(path, text);
}

TEST(CheckpointPolicy, SkipsDamagedNewestCheckpointAndReplacesIt) {
  const test::TemporaryDirectory dir;
  const auto run = [&](std::int64_t stop) {
    const BackupAndRestore save = backup_and_restore(dir.path(), {.keep = 2});
    const auto result =
        loop(make_policy_state(), std::vector<int>(20), {{every(1), count}, {every(5), save}}, {.stop = at(stop)});
    EXPECT_EQ(value_of(result.state), static_cast<float>(stop));
    return save.restored();
  };
  EXPECT_EQ(run(12).path, "");
  EXPECT_EQ(steps_in(dir.path()), (std::vector<std::int64_t>{6, 11}));
  damage(dir / "checkpoint_0000000011");
  const Restored restored = run(18);
  EXPECT_EQ(restored.steps, 6);
  ASSERT_EQ(restored.skipped.size(), 1u);
  EXPECT_NE(restored.skipped[0].find("checkpoint_0000000011"), std::string::npos) << restored.skipped[0];
  EXPECT_EQ(steps_in(dir.path()), (std::vector<std::int64_t>{11, 16}));
}

TEST(CheckpointPolicy, BestCheckpointSurvivesOtherSaves) {
  const test::TemporaryDirectory dir;
  const auto log = [](const State&, const Elapsed& elapsed) {
    return logs().add_loss("loss", elapsed.steps == 3 ? 0.5 : 10.);
  };
  for (const int signal : {SIGTERM, SIGUSR1}) {
    const std::string best = dir / std::to_string(signal), latest = best + "-latest";
    (void)loop(make_policy_state(), std::vector<int>(10),
               {{every(1), {count, log}},
                {every(1), checkpoint(best, {.monitor = "loss"})},
                {every(4), checkpoint(latest)},
                {every(1), in_step(6, [&] { std::raise(signal); })}});
    EXPECT_EQ(steps_in(best), std::vector<std::int64_t>{4});
    EXPECT_EQ(CheckpointStore(best).latest()->record.best, 0.5);
    EXPECT_EQ(steps_in(latest), std::vector<std::int64_t>{signal == SIGTERM ? 7 : 9});
  }
  // The best is also kept if both callbacks save the same step in one directory.
  (void)loop(make_policy_state(), std::vector<int>(4),
             {{every(1), {count, log}},
              {every(1), checkpoint(dir / "both", {.monitor = "loss"})},
              {every(1), checkpoint(dir / "both")}});
  EXPECT_EQ(CheckpointStore(dir / "both").best("loss", "min")->record.steps, 4);
}

TEST(CheckpointPolicy, DatasetThatFailsAtOnceKeepsExistingCheckpoints) {
  const test::TemporaryDirectory dir;
  const PolicyTasks tasks{{every(1), count}, {last(), checkpoint(dir.path(), {.overwrite = true})}};
  (void)loop(make_policy_state(), Failing{-1}, tasks, {.stop = at(11)});
  expect_error(ErrorCode::callback, {"no batch 0"}, [&] { (void)loop(make_policy_state(), Failing{0}, tasks); });
  EXPECT_EQ(steps_in(dir.path()), std::vector<std::int64_t>{11});
}

TEST(CheckpointPolicy, SigusrIsHandledDuringEvaluation) {
  const test::TemporaryDirectory dir;
  const auto evaluate = inner_loop([](State& state) {
    return loop(std::move(state), std::vector<int>(3), {{every(1), [](const State&) { std::raise(SIGUSR1); }}});
  });
  (void)loop(make_policy_state(), std::vector<int>(8),
             {{every(1), count}, {every(6), evaluate}, {never(), checkpoint(dir.path())}});
  EXPECT_EQ(steps_in(dir.path()), std::vector<std::int64_t>{7});
}

TEST(CheckpointPolicy, ConcurrentRunsCannotSaveToOneDirectory) {
  const test::TemporaryDirectory dir;
  std::vector<int> data(10);
  const PolicyTasks tasks{{every(1), count}, {every(1), checkpoint(dir.path())}};
  giro::Run first(make_policy_state(), data, tasks), second(make_policy_state(), data, tasks);
  first.advance(at(0));  // it has begun, but saved nothing
  expect_invalid({"is being written by process"}, [&] { second.advance(at(1)); });
  (void)first.finish();
}

TEST(CheckpointPolicy, CheckpointCopiedByItselfIsRestored) {
  const test::TemporaryDirectory dir;
  (void)loop(make_policy_state(), std::vector<int>(4),
             {{every(1),
               [](State& state) {
                 count(state);
                 return logs().add_metric("a", 1);
               }},
              {last(), checkpoint(dir / "model")}});
  std::filesystem::copy(dir / "model/checkpoint_0000000004", dir / "mine", std::filesystem::copy_options::recursive);
  State state = make_policy_state();
  EXPECT_EQ(restore(state, dir / "mine").steps, 4);
  EXPECT_EQ(value_of(state), 4);
}

// A run of `stop` steps that logs the state's value in each.
LoopResult<State> run_and_log(const BackupAndRestore& saves, std::int64_t stop) {
  return loop(make_policy_state(), std::vector<int>(200),
              {{every(1),
                [](State& state) {
                  count(state);
                  return logs().add_metric("a", value_of(state));
                }},
               {last(), saves}},
              {.stop = at(stop)});
}

TEST(CheckpointPolicy, DamagedHistoryDoesNotInvalidateTheCheckpoint) {
  const test::TemporaryDirectory dir;
  (void)run_and_log(backup_and_restore(dir / "model"), 100);
  std::string lines = test::read_text(dir / "model/lines_0.jsonl");
  ASSERT_GT(lines.size(), 2048u);  // more than one part
  lines[lines.size() / 2] ^= 1;
  test::write_text(dir / "model/lines_0.jsonl", lines);

  State state = make_policy_state();
  const Restored alone = restore(state, dir / "model");
  EXPECT_EQ(value_of(state), 100);
  ASSERT_EQ(alone.skipped.size(), 1u);
  EXPECT_NE(alone.skipped[0].find("lines_0.jsonl"), std::string::npos) << alone.skipped[0];

  const BackupAndRestore second = backup_and_restore(dir / "model");
  const auto result = run_and_log(second, 120);
  EXPECT_EQ(value_of(result.state), 120);
  EXPECT_EQ(second.restored().steps, 100);
  EXPECT_EQ(second.restored().skipped, alone.skipped);
  const std::vector<double> logged = result.history.column("a");
  EXPECT_LT(logged.size(), 120u);
  EXPECT_GT(logged.size(), 70u);
  EXPECT_TRUE(std::is_sorted(logged.begin(), logged.end()));
  EXPECT_EQ(std::set<double>(logged.begin(), logged.end()).size(), logged.size());
  EXPECT_EQ(logged.back(), 120);
  EXPECT_EQ(logged.front(), 1);

  // Its own save is complete.
  const BackupAndRestore third = backup_and_restore(dir / "model");
  EXPECT_EQ(run_and_log(third, 121).history.size(), logged.size() + 1);
  EXPECT_TRUE(third.restored().skipped.empty());
}

// The run sees its new logs, however many of the earlier records are lost.
TEST(CheckpointPolicy, RunSeesItsLogsAfterDamagedHistory) {
  const test::TemporaryDirectory dir;
  const auto run = [&](History before, std::int64_t stop) {
    bool seen = false;
    (void)loop(make_policy_state(), std::vector<int>(20),
               {{every(1),
                 [&](LoopState<State, int>& loop) {
                   if (loop.elapsed.steps == 11) seen = !loop.accumulated_logs().empty();
                 }},
                {every(1), [](const State&) { return logs().add_metric("a", 1); }},
                {last(), backup_and_restore(dir.path())}},
               {.stop = at(stop), .history = std::move(before)});
    return seen;
  };
  (void)run(run_and_log(backup_and_restore(dir / "other"), 150).history, 10);
  std::string lines = test::read_text(dir / "lines_0.jsonl");
  lines[100] ^= 1;
  test::write_text(dir / "lines_0.jsonl", lines);
  EXPECT_TRUE(run({}, 12));
}

TEST(CheckpointPolicy, DamagedCallbackMemoryDoesNotInvalidateTheState) {
  const test::TemporaryDirectory dir;
  struct Remembers {
    std::vector<float> values{1, 2, 3};
    void operator()(const Elapsed&) {}
    void persist(Archive& archive) {
      std::vector<Leaf> leaves{{"values", Tensor(values.data(), DType::f32, {3}, Device::cpu())}};
      std::shared_ptr<const void> owner;
      archive.arrays("arrays", leaves, owner);
    }
  };
  const auto run = [&] {
    return loop(make_policy_state(), std::vector<int>(9),
                {{every(1), count}, {every(1), Remembers()}, {last(), backup_and_restore(dir.path())}});
  };
  (void)run();
  const std::string path = dir / "checkpoint_0000000009/memory.safetensors";
  std::string content = test::read_text(path);
  content.back() ^= 1;
  test::write_text(path, content);
  State state = make_policy_state();
  const Restored restored = restore(state, dir.path());
  EXPECT_EQ(value_of(state), 9);
  ASSERT_EQ(restored.skipped.size(), 1u);
  EXPECT_NE(restored.skipped[0].find("memory.safetensors"), std::string::npos);
  // A run is not resumed with only some of its parts.
  expect_error(ErrorCode::corrupt_data, {"memory.safetensors", "checksum"}, [&] { (void)run(); });
}

TEST(CheckpointPolicy, ResumesFromANamedCheckpoint) {
  const test::TemporaryDirectory dir;
  (void)run_and_log(backup_and_restore(dir / "model"), 10);
  const std::string copy = dir / "copy/checkpoint_0000000010";
  std::filesystem::create_directories(dir / "copy");
  std::filesystem::copy(dir / "model/checkpoint_0000000010", copy, std::filesystem::copy_options::recursive);
  const auto extend = [&] {
    const Resume back = resume(copy);
    const auto result = loop(make_policy_state(), std::vector<int>(20), {{every(1), count}}, {.on_start = {back}});
    EXPECT_EQ(value_of(result.state), 20);
    return std::pair{result.history.size(), back.restored().skipped.size()};
  };
  EXPECT_EQ(extend(), (std::pair<std::size_t, std::size_t>{0, 1}));
  std::filesystem::copy(dir / "model/lines_0.jsonl", dir / "copy");
  EXPECT_EQ(extend(), (std::pair<std::size_t, std::size_t>{10, 0}));
}

TEST(CheckpointPolicy, LogsContinueAfterBeingMoved) {
  const test::TemporaryDirectory dir;
  const auto run = [&](const std::string& name, std::int64_t stop) {
    (void)loop(make_policy_state(), std::vector<int>(20),
               {{every(1),
                 [](State& state) {
                   count(state);
                   return logs().add_metric("a", 1);
                 }},
                {every(1), csv_logger(dir / (name + "/log.csv"))},
                {last(), backup_and_restore(dir / (name + "/model"))}},
               {.stop = at(stop)});
    const std::string text = test::read_text(dir / (name + "/log.csv"));
    return std::count(text.begin(), text.end(), '\n');
  };
  EXPECT_EQ(run("old", 6), 7);
  std::filesystem::rename(dir / "old", dir / "new");
  EXPECT_EQ(run("new", 15), 16);
}

TEST(RunDirectory, ConcurrentProgramsGetSeparateDirectories) {
  const test::TemporaryDirectory dir;
  std::mutex mutex;
  std::set<std::string> paths;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        const std::string path = run_directory("", {.parent = dir / "runs"});
        const std::lock_guard lock(mutex);
        paths.insert(path);
      });
    }
  }
  EXPECT_EQ(paths.size(), 8u);
}

TEST(CheckpointPolicy, ResumeStartsFreshWithoutCheckpointAndRejectsAnotherDataset) {
  const test::TemporaryDirectory dir;
  float first_row = 0;
  const auto run = [&](std::int64_t batch) {
    std::vector<float> rows(12);
    rows[0] = first_row;
    const Dataset data = Dataset({{"x", rows}}).repeat().batch(batch);
    return loop(make_policy_state(), data,
                std::vector<Task<State, Batch>>{{every(1), count}, {last(), backup_and_restore(dir / "model")}},
                {.stop = at(4)});
  };
  EXPECT_EQ(value_of(run(3).state), 4);
  EXPECT_EQ(value_of(run(3).state), 4);  // the run has finished
  expect_invalid({"dataset differs from that of the saved run", "batch_size: found 4, expected 3"},
                 [&] { (void)run(4); });
  first_row = 1;
  expect_invalid({"checksums: found x: ", "expected x: "}, [&] { (void)run(3); });
}

struct Counts {
  int n = 0;
  void operator()(const Elapsed&) { ++n; }
  void persist(Archive& archive) { archive("n", n); }
};

TEST(CheckpointPolicy, ResumeReportsMismatches) {
  const test::TemporaryDirectory dir;
  (void)loop(make_policy_state(), std::vector<int>(4),
             {{every(1), count}, {every({.samples = 3}), Counts()}, {last(), checkpoint(dir.path())}});
  const Resume back = resume(dir.path());
  (void)loop(make_policy_state(), std::vector<int>(8), {{every(1), count}, {every({.samples = 2}), noop()}},
             {.on_start = {back}});
  const std::vector<std::string>& report = back.restored().report;
  ASSERT_EQ(report.size(), 3u);
  EXPECT_EQ(report[0], "'run/schedules/every({.samples = 2})' was not saved");
  EXPECT_NE(report[1].find("every({.samples = 3})' was saved, but nothing here reads it"), std::string::npos);
  EXPECT_NE(report[2].find("Counts"), std::string::npos) << report[2];
  EXPECT_EQ(back.restored().steps, 4);
}

TEST(RunDirectory, NumbersRunsAndRejectsExistingOnes) {
  const test::TemporaryDirectory dir;
  const RunDirectoryOptions fresh{.parent = dir / "runs"}, resumes{.resume = true, .parent = dir / "runs"};
  EXPECT_EQ(run_directory("", resumes), dir / "runs/1");  // the first run
  EXPECT_EQ(run_directory("", resumes), dir / "runs/1");
  EXPECT_EQ(run_directory("", fresh), dir / "runs/2");
  for (const char* other : {"runs/007", "runs/x", "runs/3.old"}) posix_file_system()->create_directories(dir / other);
  EXPECT_EQ(run_directory("", fresh), dir / "runs/3");
  EXPECT_EQ(run_directory("", resumes), dir / "runs/3");
  EXPECT_EQ(run_directory(dir / "mine", fresh), dir / "mine");
  EXPECT_EQ(run_directory(dir / "mine", fresh), dir / "mine");  // still empty
  test::write_text(dir / "mine/history.csv", "");
  expect_invalid({dir / "mine", "already holds a run"}, [&] { run_directory(dir / "mine", fresh); });
  EXPECT_EQ(run_directory(dir / "mine", resumes), dir / "mine");
}

}  // namespace
}  // namespace giro
