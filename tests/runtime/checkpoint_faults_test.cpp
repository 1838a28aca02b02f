// What a failing disk, a dying process and a power loss leave of a directory of checkpoints.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <giro/runtime/checkpoint_store.h>

#include "tests/expect_error.h"
#include "tests/power_loss_file_system.h"
#include "tests/runtime/sample_run.h"
#include "tests/temporary_directory.h"

namespace giro {
namespace {

using test::Moment, test::PowerLossFileSystem, test::SampleRun;

const std::string kDir = "/logs/model";

// A run that goes on, replaces a checkpoint, goes back, is started anew (0 steps) and goes on.
const std::vector<Moment> kSaves{{1, 0}, {2, 0}, {2, 1}, {4, 0}, {3, 1}, {0, 0}, {3, 2}, {5, 0}};

struct Outcome {
  std::vector<Moment> allowed;  // that may be loaded: the last that was saved, and the one that was under way
  std::string error;
};

CheckpointStoreOptions options_of(std::shared_ptr<FileSystem> files, std::int64_t keep = 1) {
  return {.keep = keep, .files = std::move(files)};
}

// Saves until something fails.
Outcome run_saves(const std::shared_ptr<PowerLossFileSystem>& files, SampleRun& run, std::int64_t keep) {
  Outcome outcome;
  std::vector<Moment> saved;
  auto store = std::make_unique<CheckpointStore>(kDir, options_of(files, keep));
  for (const Moment& moment : kSaves) {
    if (moment.steps == 0) {
      store.reset();
      store = std::make_unique<CheckpointStore>(kDir, options_of(files, keep));
      continue;
    }
    outcome.allowed = saved;
    outcome.allowed.push_back(moment);
    try {
      run.save(*store, moment);
    } catch (const Error& error) {
      outcome.error = error.what();
      return outcome;
    }
    outcome.allowed = saved = {moment};
  }
  return outcome;
}

std::string text_of(const Moment& moment) { return fmt::format("({}, {})", moment.steps, moment.variant); }

// What is wrong with what can be loaded, or "".
std::string check_load(PowerLossFileSystem& files, const Outcome& outcome) {
  Moment found;
  try {
    LoadedCheckpoint loaded = load_checkpoint(kDir, files);
    found = SampleRun::moment_of(loaded);
    if (!loaded.skipped.empty()) return "skipped: " + loaded.skipped[0];
  } catch (const Error& error) {
    const bool none_yet = error.code() == ErrorCode::not_found || error.code() == ErrorCode::io;
    return none_yet && outcome.allowed.size() == 1 && !outcome.error.empty() ? "" : error.what();
  }
  if (std::count(outcome.allowed.begin(), outcome.allowed.end(), found) == 0) return "loaded " + text_of(found);
  return "";
}

// All that is listed can be loaded.
std::string check_all(const std::shared_ptr<PowerLossFileSystem>& files) {
  std::vector<std::string> unreadable;
  for (const StoredCheckpoint& stored : CheckpointStore(kDir, options_of(files)).all(&unreadable)) {
    try {
      LoadedCheckpoint loaded = load_checkpoint(stored.path, *files);
      if (SampleRun::moment_of(loaded).variant < 0) return stored.path + " is mixed up";
    } catch (const Error& error) {
      return error.what();
    }
  }
  return unreadable.empty() ? "" : unreadable[0];
}

// A new process goes on, and leaves nothing else there.
std::string check_next_save(const std::shared_ptr<PowerLossFileSystem>& files, SampleRun& run) {
  const Moment next{9, 0};
  try {
    CheckpointStore store(kDir, options_of(files));
    run.save(store, next);
    LoadedCheckpoint loaded = store.load();
    if (!(SampleRun::moment_of(loaded) == next)) return "the next save was not loaded";
  } catch (const Error& error) {
    return error.what();
  }
  std::vector<std::string> names = files->list(kDir);
  std::erase_if(names, [](const std::string& name) { return name.starts_with("lines_"); });
  if (names != std::vector<std::string>{".lock", "checkpoint_0000000009"} || files->list(kDir).size() != 4) {
    return fmt::format("there are {}", fmt::join(files->list(kDir), ", "));
  }
  return "";
}

std::size_t count_calls(std::int64_t keep) {
  const auto files = std::make_shared<PowerLossFileSystem>();
  SampleRun run;
  EXPECT_EQ(run_saves(files, run, keep).error, "");
  return files->calls.size();
}

// Whether a call is one that need not succeed, and matters only after a death at one other call: it syncs the directory
// above one that was there already.
bool is_second_look(const std::vector<std::string>& calls, std::size_t call) {
  return call > 1 && calls[call - 1] == "sync_directory /logs" && calls[call - 2] == "list " + kDir;
}

TEST(CheckpointFaults, OldOrNewIsThereWhicheverCallFails) {
  SampleRun run;
  const std::size_t calls = count_calls(1);
  ASSERT_GT(calls, 200u);
  for (const bool crash : {false, true}) {
    for (std::size_t k = 1; k <= calls; ++k) {
      const auto files = std::make_shared<PowerLossFileSystem>();
      files->fail_at = k;
      files->crash = crash;
      const Outcome outcome = run_saves(files, run, 1);
      files->fail_at = 0;
      const std::string call = fmt::format("call {} ({}){}", k, files->calls[k - 1], crash ? ", crash" : "");
      if (!crash && is_second_look(files->calls, k)) continue;
      EXPECT_NE(outcome.error.find(crash ? "injected: " : "injected: " + files->calls[k - 1]), std::string::npos)
          << call << ": " << outcome.error;
      EXPECT_EQ(check_load(*files, outcome), "") << call;
      EXPECT_EQ(check_next_save(files, run), "") << call;
    }
  }
}

TEST(CheckpointFaults, TheSameStoreGoesOnAfterAnError) {
  SampleRun run;
  for (std::size_t k = 1;; ++k) {
    const auto files = std::make_shared<PowerLossFileSystem>();
    CheckpointStore store(kDir, options_of(files));
    run.save(store, {1, 0});
    run.save(store, {2, 0});
    const std::size_t before = files->calls.size();
    files->fail_at = before + k;
    bool failed = false;
    try {
      run.save(store, {2, 1});
    } catch (const Error&) {
      failed = true;
    }
    if (files->calls.size() < before + k) break;
    const std::string call = files->calls[before + k - 1];
    EXPECT_TRUE(failed) << call;
    files->fail_at = 0;
    run.save(store, {3, 0});
    LoadedCheckpoint loaded = store.load();
    EXPECT_EQ(text_of(SampleRun::moment_of(loaded)), "(3, 0)") << call;
    EXPECT_EQ(files->list(kDir).size(), 4u) << call << " leaves more than a lock, a checkpoint and two files of lines";
  }
}

// What is wrong after a power loss at some call of the saves, where one call does nothing.
std::string find_loss(SampleRun& run, std::size_t ignore, std::int64_t keep, std::size_t first, std::size_t last,
                      std::uint32_t seeds) {
  for (std::size_t k = first; k <= last + 1; ++k) {
    const auto files = std::make_shared<PowerLossFileSystem>();
    files->ignore = ignore;
    files->fail_at = k;
    files->crash = true;
    const Outcome outcome = run_saves(files, run, keep);
    if (!outcome.error.empty() && outcome.error.find("injected") == std::string::npos) return outcome.error;
    for (std::uint32_t i = 0; i < seeds; ++i) {
      const std::uint32_t seed = static_cast<std::uint32_t>(k) * seeds + i;
      const auto disk = files->after_power_loss(seed);
      std::string wrong = check_load(*disk, outcome);
      if (wrong.empty()) wrong = check_all(disk);
      if (!wrong.empty()) return fmt::format("call {} of {}, seed {}: {}", k, last, seed, wrong);
    }
  }
  return "";
}

TEST(CheckpointFaults, OldOrNewIsThereAfterAPowerLoss) {
  SampleRun run;
  for (const std::int64_t keep : {1, 2}) EXPECT_EQ(find_loss(run, 0, keep, 1, count_calls(keep), 8), "");
}

TEST(CheckpointFaults, ANewProcessGoesOnAfterAPowerLoss) {
  SampleRun run;
  const std::size_t calls = count_calls(1);
  for (std::size_t k = 1; k <= calls; ++k) {
    const auto files = std::make_shared<PowerLossFileSystem>();
    files->fail_at = k;
    files->crash = true;
    run_saves(files, run, 1);
    EXPECT_EQ(check_next_save(files->after_power_loss(static_cast<std::uint32_t>(k)), run), "") << "call " << k;
  }
}

// A process dies; the next one saves what the last would have, or goes on; then the power fails.
TEST(CheckpointFaults, OldOrNewIsThereAfterADeathAndAPowerLoss) {
  SampleRun run;
  std::mt19937 random(1);
  const std::size_t calls = count_calls(1);
  for (std::size_t k = 1; k <= calls; ++k) {
    for (const Moment next : {Moment{2, 7}, Moment{6, 0}}) {
      const auto files = std::make_shared<PowerLossFileSystem>();
      files->fail_at = k;
      files->crash = true;
      Outcome outcome = run_saves(files, run, 1);
      files->fail_at = files->calls.size() + 1 + random() % 60;
      const bool had_none = outcome.allowed.size() == 1 && !outcome.error.empty();
      try {
        CheckpointStore store(kDir, options_of(files));
        run.save(store, next);
        outcome = {{next}, ""};
      } catch (const Error& error) {
        outcome.allowed.push_back(next);
        outcome.error = error.what();
      }
      for (std::uint32_t seed = 0; seed < 8; ++seed) {
        const auto disk = files->after_power_loss(seed);
        if (had_none && !outcome.error.empty() && disk->status(kDir).kind == FileSystem::Kind::none) continue;
        const std::string wrong = check_load(*disk, outcome);
        if (had_none && wrong.starts_with("no checkpoint")) continue;
        EXPECT_EQ(wrong, "") << fmt::format("{}, then {}, seed {}", files->calls[k - 1], files->calls.back(), seed);
      }
    }
  }
}

// So each of them is needed, and the test above would miss it.
TEST(CheckpointFaults, WithoutAnySyncOrRenameAPowerLossIsFound) {
  SampleRun run;
  const auto files = std::make_shared<PowerLossFileSystem>();
  run_saves(files, run, 1);
  std::size_t tried = 0;
  for (std::size_t k = 1; k <= files->calls.size(); ++k) {
    const std::string& call = files->calls[k - 1];
    if (!call.starts_with("sync") && !call.starts_with("rename")) continue;
    if (is_second_look(files->calls, k)) continue;
    ++tried;
    EXPECT_NE(find_loss(run, k, 1, k, files->calls.size(), 16), "") << "without call " << k << ", " << call;
  }
  EXPECT_GT(tried, 50u);
}

// Saves one checkpoint after another in a process of its own, which tells the steps of each once it is saved.
pid_t start_saving(const std::string& dir, Moment from, int out) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  try {
    SampleRun run;
    CheckpointStore store(dir);
    for (std::int64_t steps = from.steps + 1;; ++steps) {
      run.save(store, {steps, steps % 3});
      if (::write(out, &steps, sizeof steps) != sizeof steps) break;
    }
  } catch (...) {
  }
  ::_exit(3);
}

TEST(CheckpointFaults, OldOrNewIsThereWhenAProcessIsKilled) {
  // In memory where there is such a place: what a process has written outlives it without a sync, and those take long.
  const std::filesystem::path memory = "/dev/shm";
  const test::TemporaryDirectory dir(::access(memory.c_str(), W_OK) == 0 ? memory
                                                                         : std::filesystem::temp_directory_path());
  std::mt19937 random(3);
  Moment last;
  int saved = 0;
  for (int life = 0; life < 100; ++life) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = start_saving(dir / "model", last, ends[1]);
    ASSERT_GT(child, 0);
    ::close(ends[1]);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 25'000));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status)) << "it could not save: exit code " << WEXITSTATUS(status);
    for (std::int64_t steps = 0; ::read(ends[0], &steps, sizeof steps) == sizeof steps; ++saved) last.steps = steps;
    ::close(ends[0]);
    if (saved == 0) continue;
    LoadedCheckpoint loaded = load_checkpoint(dir / "model");
    const Moment found = SampleRun::moment_of(loaded);
    EXPECT_TRUE(loaded.skipped.empty());
    EXPECT_EQ(found.variant, found.steps % 3);
    EXPECT_GE(found.steps, last.steps);
    EXPECT_LE(found.steps, last.steps + 1);
    last = found;
  }
  EXPECT_GT(saved, 20);
}

TEST(CheckpointFaults, AKilledHolderOfTheLockBlocksNobody) {
  const test::TemporaryDirectory dir;
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = start_saving(dir / "model", {}, ends[1]);
  std::int64_t steps = 0;
  ASSERT_EQ(::read(ends[0], &steps, sizeof steps), static_cast<ssize_t>(sizeof steps));
  CheckpointStore store(dir / "model");
  test::expect_error(ErrorCode::invalid_argument, {fmt::format("is being written by process {} on ", child)},
                     [&] { store.acquire(); });
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ends[0]);
  ::close(ends[1]);
  store.acquire();
}

}  // namespace
}  // namespace giro
