// A run saves its best states and the states that it resumes from. Wherever it ends, each restart resumes, and leaves
// the same files as an uninterrupted run.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <giro/callbacks/checkpoint.h>
#include <giro/callbacks/resume.h>
#include <giro/callbacks/terminate_on_nan.h>
#include <giro/loop/loop.h>
#include <giro/runtime/files/checkpoint_store.h>
#include <giro/runtime/files/safetensors.h>

#include "tests/support/expect_error.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/sanitized.h"
#include "tests/support/temporary_directory.h"

namespace giro {
namespace {

using test::expect_invalid;

// GIRO_RESTARTS is the total over this file's tests; the default is small. `share` is a percentage of it.
int restarts(int share) {
  const char* const all = std::getenv("GIRO_RESTARTS");
  return std::max(share * (all != nullptr ? std::atoi(all) : test::kSanitized ? 8 : 60) / 100, 4);
}

constexpr std::int64_t kWalkSteps = 30;
// The loss improves every so often, also in steps 4, 9, 14 and so on, in which the run itself is saved too.
double loss_after(std::int64_t step) {
  constexpr int kLosses[kWalkSteps] = {90, 80, 85, 81, 60, 70, 65, 59, 58, 57, 80, 81, 56, 70, 50,
                                       52, 51, 53, 49, 60, 61, 48, 47, 55, 44, 45, 43, 60, 61, 62};
  return kLosses[step];
}

struct Saves {
  CheckpointOptions best = {}, last = {};
  bool best_comes_first = true;
};

State make_walk() {
  State state(Device::cpu());
  state.add("params", {{"x", DType::f32, {3}}});
  return state;
}

// Faults in steps 0 to 29: in the data, in a callback, or in the file system.
struct Faults {
  std::int64_t no_batch = -1, throws = -1;
  std::shared_ptr<FileSystem> files = posix_file_system();
};

struct NumberedSteps {
  std::int64_t fails;
  struct Iterator {
    using value_type = std::int64_t;
    using difference_type = std::ptrdiff_t;
    std::int64_t at, fails;
    std::int64_t operator*() const { return at; }
    Iterator& operator++() {
      if (++at == fails) throw std::runtime_error("no batch " + std::to_string(at));
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return at == kWalkSteps; }
  };
  Iterator begin() const { return {0, fails}; }
  std::default_sentinel_t end() const { return {}; }
};

LoopResult<State> run_in(const std::string& dir, const Saves& saves, const Faults& faults = {}) {
  using Tasks = std::vector<Task<State, std::int64_t>>;
  Saves with = saves;
  with.best.monitor = "loss";
  with.best.files = with.last.files = faults.files;
  Tasks tasks{{every(1), [&](State& state, const std::int64_t& step) {
                 float* const x = static_cast<float*>(state.at("params/x").raw());
                 for (int i = 0; i < 3; ++i) x[i] = x[i] * 1.1f + static_cast<float>(step + i);
                 if (step == faults.throws) throw std::runtime_error("a callback fails");
                 return logs().add_loss("loss", loss_after(step));
               }}};
  const Tasks best{{every(1), checkpoint(dir + "/best", with.best)}},
      last_one{{every_end(5) | last(), backup_and_restore(dir + "/last", with.last)}};
  const Tasks& first = saves.best_comes_first ? best : last_one;
  const Tasks& second = saves.best_comes_first ? last_one : best;
  tasks.insert(tasks.end(), first.begin(), first.end());
  tasks.insert(tasks.end(), second.begin(), second.end());
  return loop(make_walk(), NumberedSteps{faults.no_batch}, tasks);
}

// The names of all files but locks and lines, and the content of those that hold tensors.
std::map<std::string, std::string> files_in(const std::string& dir) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir)) {
    const std::string name = std::filesystem::relative(entry.path(), dir).string();
    if (!entry.is_regular_file() || name.ends_with(".lock") || name.find("/lines_") != std::string::npos) continue;
    files[name] = name.ends_with(".safetensors") ? test::read_text(entry.path().string()) : "";
  }
  return files;
}
std::vector<float> values_of(const State& state) { return to_host<float>(state.at("params/x"), state.stream()); }

// Expects the best states of all steps up to the latest one in `last` to be there.
void expect_best_as_of_last(const std::string& dir, std::int64_t keep) {
  const std::int64_t steps = std::max<std::int64_t>(CheckpointStore(dir + "/last").latest_steps(), 0);
  std::vector<std::pair<double, std::int64_t>> expected;
  for (std::int64_t step = 0; step < steps; ++step) expected.emplace_back(loss_after(step), step + 1);
  std::sort(expected.begin(), expected.end());
  expected.resize(std::min<std::size_t>(expected.size(), static_cast<std::size_t>(keep)));
  for (const auto& [loss, at] : expected) {
    const auto name =
        "/best/" + std::string("checkpoint_") + std::string(10 - std::to_string(at).size(), '0') + std::to_string(at);
    ASSERT_TRUE(std::filesystem::exists(dir + name)) << name << ", with last at " << steps;
    EXPECT_EQ(load_checkpoint(dir + name).record.best, loss);
  }
}

class BestBesideLast : public testing::Test {
 protected:
  // A run that each of the faults ends in turn, and that is restarted, must end like a run without faults.
  void check(const Saves& saves, const std::vector<Faults>& faults) {
    const test::TemporaryDirectory whole;
    const auto expected = run_in(whole.path(), saves);
    const auto left = files_in(whole.path());
    const test::TemporaryDirectory dir;
    int ended = 0;
    for (const Faults& fault : faults) {
      try {
        (void)run_in(dir.path(), saves, fault);
      } catch (const LoopError& error) {
        ++ended;
        ASSERT_EQ(std::string(error.what()).find("later than"), std::string::npos) << error.what();
      }
      expect_best_as_of_last(dir.path(), saves.best.keep);
    }
    const auto found = run_in(dir.path(), saves);
    EXPECT_EQ(values_of(found.state), values_of(expected.state));
    EXPECT_EQ(found.history.column("loss"), expected.history.column("loss"));
    EXPECT_EQ(files_in(dir.path()), left);
    EXPECT_EQ(values_of(run_in(dir.path(), saves).state), values_of(expected.state));  // the run has finished
    EXPECT_EQ(files_in(dir.path()), left);
    ended_ += ended;
  }

  int ended_ = 0;
};

std::vector<Saves> all_saves(bool with_asynchronous) {
  std::vector<Saves> all;
  for (const bool first : {true, false}) {
    for (const std::int64_t keep : {1, 3}) {
      for (const int asynchronous : {0, 1, 2, 3}) {
        if (asynchronous > 0 && !with_asynchronous) continue;
        all.push_back({.best = {.keep = keep, .asynchronous = (asynchronous & 1) != 0},
                       .last = {.asynchronous = (asynchronous & 2) != 0},
                       .best_comes_first = first});
      }
    }
  }
  return all;
}

// Fails every call from number `end` on, as if the process had died, or only the writing calls, as on a full disk.
class EndingFiles final : public test::FaultyFileSystem {
 public:
  EndingFiles(std::size_t end, bool is_full)
      : FaultyFileSystem(is_full ? 0 : end, true), full_at_(is_full ? end : SIZE_MAX) {}
  std::unique_ptr<Writer> create(const std::string& path) override {
    expect_room();
    return FaultyFileSystem::create(path);
  }
  std::unique_ptr<Writer> append(const std::string& path) override {
    expect_room();
    return FaultyFileSystem::append(path);
  }

 private:
  void expect_room() const {
    if (calls.size() >= full_at_) throw Error(ErrorCode::io, "injected: no space left");
  }
  std::size_t full_at_;
};

std::size_t calls_of(const Saves& saves) {
  const test::TemporaryDirectory dir;
  const auto counting = std::make_shared<test::FaultyFileSystem>();
  (void)run_in(dir.path(), saves, {.files = counting});
  return counting->calls.size();
}

TEST_F(BestBesideLast, ContinuesAfterFileSystemFailsAnywhere) {
  const std::vector<Saves> all = all_saves(/*with_asynchronous=*/false);  // the faults only support one thread
  const int count = restarts(60);
  std::mt19937 random(7);
  for (int i = 0; i < count; ++i) {
    SCOPED_TRACE(i);
    const Saves& saves = all[static_cast<std::size_t>(i) % all.size()];
    const std::size_t calls = calls_of(saves);
    const auto somewhere = [&] {
      return Faults{.files = std::make_shared<EndingFiles>(1 + random() % calls, i % 3 == 2)};
    };
    ASSERT_NO_FATAL_FAILURE(check(saves, {somewhere(), somewhere()}));
  }
  EXPECT_GT(ended_, count);
}

TEST_F(BestBesideLast, ContinuesAfterErrorInAnyStep) {
  const std::vector<Saves> all = all_saves(/*with_asynchronous=*/true);
  const int count = restarts(40);
  for (int i = 0; i < count; ++i) {
    SCOPED_TRACE(i);
    const std::int64_t step = 1 + (i * 7) % (kWalkSteps - 1);
    const Faults data{.no_batch = step}, callback{.throws = step};
    ASSERT_NO_FATAL_FAILURE(check(all[static_cast<std::size_t>(5 * i) % all.size()], {i % 2 == 0 ? data : callback}));
  }
  EXPECT_EQ(ended_, count);
}

// Checkpoints later than the resumed step are set aside and reported, and no longer found. In a run that starts anew
// they are an error.
TEST_F(BestBesideLast, SetsLaterCheckpointsAsideAndReportsThem) {
  const test::TemporaryDirectory dir;
  const auto run = [&](std::int64_t stop, const std::vector<Callback<State, int>>& on_start) {
    const Checkpoint best = checkpoint(dir / "best", {.monitor = "loss"});
    (void)loop(make_walk(), std::vector<int>(30),
               {{every(1),
                 [](const State&, const Elapsed& elapsed) {
                   return logs().add_loss("loss", 10. - static_cast<double>(elapsed.steps));
                 }},
                {every(1), best},
                {every_end(4), checkpoint(dir / "last")}},
               {.stop = at(stop), .on_start = on_start});
    return best.report();
  };
  const auto steps = [&] {
    std::vector<std::int64_t> all;
    for (const StoredCheckpoint& stored : CheckpointStore(dir / "best").all()) all.push_back(stored.record.steps);
    return all;
  };
  EXPECT_EQ(run(6, {}), "");
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{4, 6}));  // step 4 is kept for a run that resumes there
  expect_invalid({"giro::Checkpoint", "step 6 is saved there, later than step 0"}, [&] { run(8, {}); });
  const std::string report = run(5, {resume(dir / "last")});
  EXPECT_NE(report.find("later than step 4"), std::string::npos) << report;
  EXPECT_NE(report.find("best/checkpoint_0000000006.ahead-"), std::string::npos) << report;
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{4, 5}));
  EXPECT_EQ(CheckpointStore(dir / "best").latest()->record.best, 6);
  const auto names = posix_file_system()->list(dir / "best");
  const auto is_aside = [](const std::string& name) { return name.find(".ahead-") != std::string::npos; };
  EXPECT_EQ(std::count_if(names.begin(), names.end(), is_aside), 1);  // step 6 has not been saved again
  run(6, {resume(dir / "last")});
  const auto after = posix_file_system()->list(dir / "best");
  EXPECT_EQ(std::count_if(after.begin(), after.end(), is_aside), 0);
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{4, 6}));
}

// A resumed run starts with the best value as of its step.
TEST_F(BestBesideLast, ResumedRunStartsFromBestValueAtItsStep) {
  const test::TemporaryDirectory dir;
  const auto run = [&](const std::vector<double>& losses, const std::vector<Callback<State, int>>& on_start) {
    (void)loop(make_walk(), std::vector<int>(losses.size()),
               {{every(1),
                 [&](const State&, const Elapsed& elapsed) {
                   return logs().add_loss("loss", losses[static_cast<std::size_t>(elapsed.steps)]);
                 }},
                {every(1), checkpoint(dir / "best", {.monitor = "loss"})},
                {every_end(3), checkpoint(dir / "last")}},
               {.on_start = on_start});
    return CheckpointStore(dir / "best").best("loss", "min")->record;
  };
  EXPECT_EQ(run({7, 5, 6, 3}, {}).best, 3);
  // Step 4 has another value this time. It is compared with 5, the best up to step 3, not with the 3 that was saved.
  EXPECT_EQ(run({7, 5, 6, 6}, {resume(dir / "last")}).steps, 2);
  EXPECT_EQ(run({7, 5, 6, 4}, {resume(dir / "last")}).best, 4);
}

// A program with two loops, the second continuing the first, that keeps the best of both in one directory.
TEST_F(BestBesideLast, SeveralLoopsOfOneProgramContinue) {
  const auto program = [](const std::string& dir, const Faults& faults) {
    const auto train = [&](State state, const Elapsed& elapsed, const std::string& last_dir, std::int64_t stop) {
      std::vector<std::int64_t> steps(kWalkSteps);
      for (std::int64_t i = 0; i < kWalkSteps; ++i) steps[static_cast<std::size_t>(i)] = i;
      const auto step = [&](State& walk, const std::int64_t&, const Elapsed& at) {
        if (at.steps == faults.throws) throw std::runtime_error("a callback fails");
        static_cast<float*>(walk.at("params/x").raw())[0] += static_cast<float>(at.steps);
        return logs().add_loss("loss", loss_after(at.steps));
      };
      return loop(std::move(state), steps,
                  {{every(1), step},
                   {every(1), checkpoint(dir + "/best", {.monitor = "loss"})},
                   {every_end(4) | last(), backup_and_restore(dir + last_dir)}},
                  {.stop = at(stop), .elapsed = elapsed});
    };
    auto first = train(make_walk(), {}, "/first", 15);
    return train(std::move(first.state), first.elapsed, "/second", kWalkSteps);
  };
  const test::TemporaryDirectory whole;
  const auto expected = program(whole.path(), {});
  const auto best_at = [](const std::string& dir) { return CheckpointStore(dir + "/best").best("loss", "min"); };
  for (std::int64_t step = 1; step < kWalkSteps; ++step) {
    SCOPED_TRACE(step);
    const test::TemporaryDirectory dir;
    EXPECT_THROW((void)program(dir.path(), {.throws = step}), LoopError);
    EXPECT_EQ(values_of(program(dir.path(), {}).state), values_of(expected.state));
    EXPECT_EQ(files_in(dir.path()), files_in(whole.path()));
    EXPECT_EQ(best_at(dir.path())->record.best, 43);
  }
}

TEST_F(BestBesideLast, KeepsTheBestRatherThanTheLastImprovements) {
  const test::TemporaryDirectory dir;
  const auto kept = [&](const std::string& mode, const std::vector<double>& values) {
    (void)loop(make_walk(), std::vector<int>(values.size()),
               {{every(1),
                 [&](const State&, const Elapsed& elapsed) {
                   return logs().add_metric("value", values[static_cast<std::size_t>(elapsed.steps)]);
                 }},
                {every(1), checkpoint(dir / mode, {.keep = 3, .monitor = "value", .mode = mode})}});
    std::vector<std::int64_t> steps;
    for (const StoredCheckpoint& stored : CheckpointStore(dir / mode).all()) steps.push_back(stored.record.steps);
    return steps;
  };
  EXPECT_EQ(kept("min", {9, 1, 5, 2, NAN, 3, 4, 9}), (std::vector<std::int64_t>{2, 4, 6}));
  EXPECT_EQ(kept("max", {1, 9, 2, 8, NAN, 3, 7, 1}), (std::vector<std::int64_t>{2, 4, 7}));
}

TEST_F(BestBesideLast, CheckpointUsedByHandWorksInALoop) {
  const test::TemporaryDirectory dir;
  Checkpoint save = checkpoint(dir.path());
  save(Elapsed{.steps = 0}, make_walk());
  for (const int stop : {4, 8}) {
    (void)loop(make_walk(), std::vector<int>(static_cast<std::size_t>(stop)),
               {{every(1), [](State&) {}}, {last(), save}}, {.on_start = {resume(dir.path())}});
    EXPECT_EQ(CheckpointStore(dir.path()).latest_steps(), stop);
  }
  save(Elapsed{.steps = 8}, make_walk());
  EXPECT_EQ(CheckpointStore(dir.path()).latest_steps(), 9);
}

// The loss overflows while the parameters are still finite.
void check_divergence_saves_nothing(const CheckpointOptions& options, bool checkpoint_first) {
  const test::TemporaryDirectory dir;
  Checkpoint save = checkpoint(dir.path(), options);
  const auto train = [](State& state, const Elapsed& elapsed) {
    static_cast<float*>(state.at("params/x").raw())[0] = static_cast<float>(elapsed.steps);
    return logs().add_metric("loss", elapsed.steps < 7 ? 1. : INFINITY);
  };
  std::vector<Task<State, int>> tasks{{every(1), train}};
  const Task<State, int> saves{every_end(4) | last(), save}, stops{every(1), terminate_on_nan()};
  tasks.push_back(checkpoint_first ? saves : stops);
  tasks.push_back(checkpoint_first ? stops : saves);
  const auto result = loop(make_walk(), std::vector<int>(20), tasks);
  EXPECT_EQ(result.elapsed.steps, 8);
  State state = make_walk();
  EXPECT_EQ(restore(state, dir.path()).steps, 4);
  EXPECT_EQ(values_of(state)[0], 3);
  EXPECT_EQ(save.report(), "step 8 is not saved: metrics.loss is not finite");
  EXPECT_EQ(result.history.column("stateful_metrics.checkpoint_skipped"), std::vector<double>{8});
}

TEST_F(BestBesideLast, StoppedDivergenceReplacesNoCheckpoint) {
  for (const bool checkpoint_first : {true, false}) {
    check_divergence_saves_nothing({}, checkpoint_first);
    check_divergence_saves_nothing({.asynchronous = true}, checkpoint_first);
  }
}

TEST_F(BestBesideLast, TenthNonFiniteStateInARowEndsTheRun) {
  const test::TemporaryDirectory dir;
  const auto diverge = [](State& state, const Elapsed& elapsed) {
    if (elapsed.steps >= 5) static_cast<float*>(state.at("params/x").raw())[1] = NAN;
  };
  int steps = 0;
  expect_invalid({"giro::Checkpoint", "step 15 is not saved: params/x is not finite, nor are the 9 due before"}, [&] {
    (void)loop(make_walk(), std::vector<int>(100),
               {{every(1), diverge}, {every(1), [&](const Elapsed&) { ++steps; }}, {every(1), checkpoint(dir.path())}});
  });
  EXPECT_LT(steps, 16);
  EXPECT_EQ(CheckpointStore(dir.path()).latest_steps(), 5);
}

TEST_F(BestBesideLast, StateWithNothingToSaveReplacesNoCheckpoint) {
  const test::TemporaryDirectory dir;
  Checkpoint save = checkpoint(dir.path());
  save(Elapsed{.steps = 0}, make_walk());
  expect_invalid({dir.path(), "has nothing to save"}, [&] { save(Elapsed{.steps = 1}, State(Device::cpu())); });
  EXPECT_EQ(CheckpointStore(dir.path()).latest_steps(), 1);
}

}  // namespace
}  // namespace giro
