// The state of a checkpoint directory after a disk fault, a killed process, or a power loss.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <giro/runtime/files/checkpoint_store.h>

#include "tests/runtime/sample_run.h"
#include "tests/support/expect_error.h"
#include "tests/support/power_loss_file_system.h"
#include "tests/support/sanitized.h"
#include "tests/support/temporary_directory.h"

namespace giro {
namespace {

using test::Moment, test::PowerLossFileSystem, test::SampleRun;

const std::string kDir = "/logs/model";

// A run that continues, replaces a checkpoint, goes back, is started anew (0 steps) and continues again.
const std::vector<Moment> kSaves{{1, 0}, {2, 0}, {2, 1}, {4, 0}, {3, 1}, {0, 0}, {3, 2}, {5, 0}};

// The checkpoints that may be loaded: the last one saved, if any, and the one being saved.
struct Expected {
  std::optional<Moment> saved, under_way;
  friend bool operator==(const Expected&, const Expected&) = default;
};

using Disk = std::shared_ptr<PowerLossFileSystem>;
constexpr std::uint32_t kNothingLost = 1;  // with this seed a power loss only kills the process

CheckpointStore open_store(const Disk& disk) { return CheckpointStore(kDir, {.files = disk}); }
std::string text_of(const Moment& moment) { return fmt::format("({}, {})", moment.steps, moment.variant); }

// Saves every moment and keeps `expected` up to date.
void run_saves(const Disk& disk, SampleRun& run, Expected& expected, std::int64_t keep = 1) {
  std::optional<CheckpointStore> store;
  for (const Moment& moment : kSaves) {
    if (!store) store.emplace(kDir, CheckpointStoreOptions{.keep = keep, .files = disk});
    if (moment.steps == 0) {
      store.reset();
      continue;
    }
    expected.under_way = moment;
    run.save(*store, moment);
    expected = {moment, std::nullopt};
  }
}

// Returns what is wrong with the loaded checkpoint, or "".
std::string check_load(const Disk& disk, const Expected& expected) {
  try {
    LoadedCheckpoint loaded = load_checkpoint(kDir, *disk);
    const Moment found = SampleRun::moment_of(loaded);
    if (!loaded.skipped.empty()) return "skipped: " + loaded.skipped[0];
    return found == expected.saved || found == expected.under_way ? "" : "loaded " + text_of(found);
  } catch (const Error& error) {
    const std::string what = error.what();
    const bool is_empty = what.starts_with("no checkpoint in the directory") || what == "no '" + kDir + "'";
    return is_empty && !expected.saved ? "" : what;
  }
}

// Every listed checkpoint except the newest must be loadable.
std::string check_older(const Disk& disk) {
  std::vector<std::string> unreadable;
  std::vector<StoredCheckpoint> all = open_store(disk).all(&unreadable);
  if (!unreadable.empty()) return unreadable[0];
  if (!all.empty()) all.pop_back();
  for (const StoredCheckpoint& stored : all) {
    try {
      LoadedCheckpoint loaded = load_checkpoint(stored.path, *disk);
      if (SampleRun::moment_of(loaded).variant < 0) return stored.path + " is mixed up";
    } catch (const Error& error) {
      return error.what();
    }
  }
  return "";
}

// A new process must be able to save and load, and must leave no other files behind.
std::string check_next_save(const Disk& disk, SampleRun& run) {
  const Moment next{9, 0};
  try {
    CheckpointStore store = open_store(disk);
    run.save(store, next);
    LoadedCheckpoint loaded = store.load();
    if (!(SampleRun::moment_of(loaded) == next)) return "the next save was not loaded";
  } catch (const Error& error) {
    return error.what();
  }
  const std::vector<std::string> names = disk->list(kDir);
  const auto lines = std::count_if(names.begin(), names.end(), [](const auto& n) { return n.starts_with("lines_"); });
  if (names.size() == 4 && lines == 2 && names[1] == "checkpoint_0000000009") return "";
  return fmt::format("there are {}", fmt::join(names, ", "));
}

// Whether a call syncs the parent of a directory that existed already. Such a call may fail; it matters only if the
// process died at one particular earlier call.
bool is_second_look(const std::vector<std::string>& calls, std::size_t call) {
  return call > 1 && calls[call - 1] == "sync_directory /logs" && calls[call - 2] == "list " + kDir;
}

// Whether a call leaves the disk unchanged.
bool only_looks(const std::string& call) {
  return call.starts_with("status") || call.starts_with("list") || call.starts_with("read") ||
         call.starts_with("close");
}

// Cuts the power at every call of the saves from number `first` on, and after the last. Call number `ignore` does
// nothing. Returns what is wrong afterwards, or "".
std::string find_loss(SampleRun& run, std::int64_t keep, std::uint32_t seeds, std::size_t ignore = 0,
                      std::size_t first = 1) {
  const auto disk = std::make_shared<PowerLossFileSystem>();
  Expected expected;
  std::string wrong;
  std::set<std::string> seen;  // equal outcomes are checked only once
  Expected before;
  const auto lose = [&] {
    const std::size_t call = disk->calls.size();
    if (call > 1 && expected == before && only_looks(disk->calls[call - 2])) return;
    before = expected;
    for (std::uint32_t i = 0; i < seeds && call >= first && wrong.empty(); ++i) {
      const Disk left = disk->after_power_loss(static_cast<std::uint32_t>(call) * seeds + i);
      std::string key = left->everything({".tmp-", ".trash-"});
      for (const auto& moment : {expected.saved, expected.under_way}) key += moment ? text_of(*moment) : "-";
      if (!seen.insert(std::move(key)).second) continue;
      wrong = check_load(left, expected);
      if (wrong.empty()) wrong = check_older(left);
      if (!wrong.empty()) wrong = fmt::format("before call {}, {}: {}", call, disk->calls[call - 1], wrong);
    }
  };
  disk->ignore = ignore;
  disk->before_call = lose;
  try {
    run_saves(disk, run, expected, keep);
  } catch (const Error& error) {
    if (wrong.empty()) wrong = error.what();
  }
  lose();
  return wrong;
}

TEST(CheckpointFaults, OldOrNewExistsAfterAPowerLoss) {
  SampleRun run;
  for (const std::int64_t keep : {1, 2}) EXPECT_EQ(find_loss(run, keep, test::kSanitized ? 1 : 8), "");
}

// Each sync and each rename is needed, and the test above would notice if one were missing.
TEST(CheckpointFaults, MissingSyncOrRenameIsFoundByPowerLoss) {
  if (test::kSanitized) GTEST_SKIP() << "of what the other tests here would find, and not of memory";
  SampleRun run;
  const auto disk = std::make_shared<PowerLossFileSystem>();
  Expected expected;
  run_saves(disk, run, expected);
  std::size_t tried = 0;
  for (std::size_t call = 1; call <= disk->calls.size(); ++call) {
    const std::string& name = disk->calls[call - 1];
    if (!name.starts_with("sync") && !name.starts_with("rename")) continue;
    if (is_second_look(disk->calls, call)) continue;
    ++tried;
    EXPECT_NE(find_loss(run, 1, 16, call, call), "") << "without call " << call << ", " << name;
  }
  EXPECT_GT(tried, 50u);
}

TEST(CheckpointFaults, OldOrNewExistsWhicheverCallFails) {
  SampleRun run;
  Expected expected;
  Disk disk = std::make_shared<PowerLossFileSystem>();
  for (const Moment& moment : kSaves) {
    if (moment.steps == 0) continue;
    expected.under_way = moment;
    for (std::size_t call = 1;; call += test::kStride) {
      const Disk faulty = disk->after_power_loss(kNothingLost);
      CheckpointStore store = open_store(faulty);
      faulty->fail_at = call;
      std::string error;
      try {
        run.save(store, moment);
      } catch (const Error& thrown) {
        error = thrown.what();
      }
      if (faulty->calls.size() < call) break;
      const std::string name = fmt::format("step {}, call {}, {}", moment.steps, call, faulty->calls[call - 1]);
      if (!is_second_look(faulty->calls, call)) {
        EXPECT_EQ(error, "injected: " + faulty->calls[call - 1]);
      }
      EXPECT_EQ(check_load(faulty, expected), "") << name;
      // The same store can save again, and leaves no other files behind.
      run.save(store, {9, 0});
      EXPECT_EQ(check_load(faulty, {Moment{9, 0}, std::nullopt}), "") << name;
      EXPECT_EQ(faulty->list(kDir).size(), 4u) << name;
    }
    CheckpointStore store = open_store(disk);
    run.save(store, moment);
    expected = {moment, std::nullopt};
  }
}

TEST(CheckpointFaults, NewProcessContinuesAfterADeathOrAPowerLoss) {
  SampleRun run;
  Expected expected;
  const auto disk = std::make_shared<PowerLossFileSystem>();
  disk->before_call = [&] {
    const std::size_t call = disk->calls.size();
    const std::uint32_t seed = call % 2 == 0 ? kNothingLost : static_cast<std::uint32_t>(call);
    EXPECT_EQ(check_next_save(disk->after_power_loss(seed), run), "") << "call " << call;
  };
  SampleRun other;
  run_saves(disk, other, expected);
}

// A process dies, the next one repeats the save or continues with later ones, and then the power fails.
TEST(CheckpointFaults, OldOrNewExistsAfterADeathAndAPowerLoss) {
  SampleRun run, other;
  Expected expected;
  std::mt19937 random(1);
  const auto disk = std::make_shared<PowerLossFileSystem>();
  const auto die_and_lose = [&](std::size_t fail_at) {
    const Moment next = random() % 2 == 0 ? Moment{2, 7} : Moment{6, 0};
    const Disk after_death = disk->copy();
    after_death->fail_at = fail_at;
    after_death->crash = true;
    bool saved = false;
    try {
      CheckpointStore store = open_store(after_death);
      run.save(store, next);
      saved = true;
    } catch (const Error&) {
    }
    for (const std::uint32_t seed : {0, 2, 5}) {
      const Disk left = after_death->after_power_loss(seed);
      std::string wrong = check_load(left, saved ? Expected{next, std::nullopt} : expected);
      if (!saved && !wrong.empty()) wrong = check_load(left, {expected.saved, next});
      EXPECT_EQ(wrong, "") << fmt::format("{}, then {}, seed {}", disk->calls.back(), after_death->calls.back(), seed);
    }
  };
  disk->before_call = [&] {
    if (disk->calls.size() % test::kStride != 0) return;
    die_and_lose(0);
    die_and_lose(1 + random() % 60);
  };
  run_saves(disk, other, expected);
}

// Starts a process that saves one checkpoint after another and writes the steps of each to `out` once it is saved.
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

// Every other process has saved once before it is killed, however slow the machine. The time that this took bounds the
// lifetime of the next process.
TEST(CheckpointFaults, OldOrNewExistsWhenAProcessIsKilled) {
  using Clock = std::chrono::steady_clock;
  const test::TemporaryDirectory dir;
  std::mt19937 random(3);
  Moment last;
  Clock::duration one_save{};
  const char* const more = std::getenv("GIRO_KILLS");
  const int lives = more != nullptr ? std::atoi(more) : test::cases(100);
  for (int life = 0; life < lives; ++life) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const auto start = Clock::now();
    const pid_t child = start_saving(dir / "model", last, ends[1]);
    ASSERT_GT(child, 0);
    ::close(ends[1]);
    const auto read_step = [&] { return ::read(ends[0], &last.steps, sizeof last.steps) == sizeof last.steps; };
    if (life % 2 == 0) {
      EXPECT_TRUE(read_step());
      one_save = Clock::now() - start;
    }
    std::this_thread::sleep_for(one_save * (random() % 1000) / 1000);
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status)) << "it could not save: exit code " << WEXITSTATUS(status);
    while (read_step()) {
    }
    ::close(ends[0]);
    LoadedCheckpoint loaded = load_checkpoint(dir / "model");
    const Moment found = SampleRun::moment_of(loaded);
    EXPECT_TRUE(loaded.skipped.empty());
    EXPECT_EQ(found.variant, found.steps % 3);
    EXPECT_GE(found.steps, last.steps);
    EXPECT_LE(found.steps, last.steps + 1);
    last = found;
  }
  EXPECT_GE(last.steps, lives / 2);
}

TEST(CheckpointFaults, KilledLockHolderBlocksNobody) {
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
