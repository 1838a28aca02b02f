#include <giro/runtime/files/checkpoint_store.h>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <giro/runtime/files/safetensors.h>

#include "runtime/files/store_names.h"
#include "tests/runtime/sample_run.h"
#include "tests/support/expect_error.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/power_loss_file_system.h"
#include "tests/support/temporary_directory.h"

namespace giro {
namespace {

using test::expect_error, test::Moment, test::PowerLossFileSystem, test::SampleRun;
using Names = std::vector<std::string>;

std::vector<std::int64_t> steps_of(const CheckpointStore& store) {
  std::vector<std::int64_t> steps;
  for (const StoredCheckpoint& stored : store.all()) steps.push_back(stored.record.steps);
  return steps;
}

class CheckpointStoreTest : public testing::Test {
 protected:
  CheckpointStore open(std::int64_t keep = 1, std::int64_t every = 0) {
    return CheckpointStore("/model", {.keep = keep, .keep_every_n_steps = every, .files = files_});
  }
  void save(CheckpointStore& store, const std::vector<std::int64_t>& all_steps) {
    for (const std::int64_t steps : all_steps) run_.save(store, {steps, 0});
  }
  std::shared_ptr<PowerLossFileSystem> files_ = std::make_shared<PowerLossFileSystem>();
  SampleRun run_;
};

// The writer saves before each call of the listing in turn: the next step, or the same step again.
TEST_F(CheckpointStoreTest, ListingDuringASaveFindsNothingUnreadable) {
  CheckpointStore writer = open();
  const CheckpointStore reader = open();
  std::int64_t steps = 1;
  save(writer, {steps});
  std::size_t call = 1;
  for (bool done = false; !done; ++call) {
    for (const int more : {0, 1}) {
      std::size_t left = call;
      files_->before_call = [&] {
        if (--left > 0) return;
        files_->before_call = nullptr;
        save(writer, {steps += more});
      };
      std::vector<std::string> unreadable;
      const std::vector<StoredCheckpoint> all = reader.all(&unreadable);
      EXPECT_TRUE(unreadable.empty()) << "call " << call << ": " << unreadable.front();
      EXPECT_EQ(all.size(), 1u) << "call " << call;
      done = files_->before_call != nullptr;
      files_->before_call = nullptr;
    }
  }
  EXPECT_GT(call, 4u);
}

TEST_F(CheckpointStoreTest, LoadsWhatItSaved) {
  const test::TemporaryDirectory dir;
  CheckpointStore store(dir / "a/b/model", {.keep = 3});
  for (const std::int64_t steps : {1, 2, 40}) run_.save(store, {steps, 5});
  for (const std::int64_t steps : {1, 2, 40}) {
    LoadedCheckpoint loaded = load_checkpoint(dir / "a/b/model/" + detail::unit_name(steps));
    EXPECT_EQ(SampleRun::moment_of(loaded), (Moment{steps, 5})) << steps;
    EXPECT_EQ(loaded.version, 2);
    EXPECT_EQ(loaded.record.samples, 32 * steps);
    EXPECT_EQ(loaded.record.previous_samples, 32 * steps - 32);
    EXPECT_EQ(loaded.record.previous_time, 0.01);
  }
  LoadedCheckpoint newest = store.load();
  EXPECT_EQ(SampleRun::moment_of(newest), (Moment{40, 5}));
  EXPECT_EQ(newest.path, dir / "a/b/model/checkpoint_0000000040");
  EXPECT_TRUE(newest.skipped.empty());
}

TEST_F(CheckpointStoreTest, StatesAreSafetensorsOfAlignedData) {
  CheckpointStore store = open();
  save(store, {3});
  const Safetensors file = read_safetensors(*files_, "/model/checkpoint_0000000003/state.safetensors");
  EXPECT_EQ(file.tensors.size(), 9u);
  std::uint64_t header = 0;
  files_->content("/model/checkpoint_0000000003/state.safetensors").copy(reinterpret_cast<char*>(&header), 8);
  EXPECT_EQ((header + 8) % 64, 0u);
}

TEST_F(CheckpointStoreTest, RunWithoutMemoryHasNoArraysAndNoLines) {
  CheckpointStore store = open();
  store.save(*run_.snapshot_at({1, 0}), {.steps = 1}, store.archive());
  EXPECT_EQ(files_->list("/model"), (Names{".lock", "checkpoint_0000000001"}));
  EXPECT_EQ(files_->list("/model/checkpoint_0000000001"), (Names{"checkpoint.json", "state.safetensors"}));
  EXPECT_TRUE(store.load().archive.arrays().empty());
}

TEST_F(CheckpointStoreTest, RecordsRoundTripExactly) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  CheckpointStore store = open();
  const double third = 1.0 / 3;
  for (const double best : {third, 1e-310, -kInf, 0.0}) {
    CheckpointRecord record{.steps = 7, .time = third, .previous_time = 1e17 / 3, .monitor = "loss", .best = best};
    record.not_finite = best == third ? "params/\"a\"\n" : "";
    store.save(*run_.snapshot_at({7, 0}), record, store.archive());
    const CheckpointRecord loaded = store.load().record, listed = store.latest()->record;
    for (const CheckpointRecord& found : {loaded, listed}) {
      EXPECT_EQ(found.time, third);
      EXPECT_EQ(found.previous_time, 1e17 / 3);
      EXPECT_EQ(found.monitor, "loss");
      EXPECT_EQ(found.best, best);
      EXPECT_EQ(found.not_finite, record.not_finite);
    }
  }
}

TEST_F(CheckpointStoreTest, LinesAreAppendedAndNeverWrittenAgain) {
  CheckpointStore store = open(2);
  save(store, {100});
  const std::string first = files_->content("/model/lines_0.jsonl");
  files_->calls.clear();
  save(store, {101, 102, 102});
  EXPECT_EQ(files_->list("/model"),
            (Names{".lock", "checkpoint_0000000101", "checkpoint_0000000102", "lines_0.jsonl", "lines_1.jsonl"}));
  const std::string& now = files_->content("/model/lines_0.jsonl");
  EXPECT_TRUE(now.starts_with(first));
  EXPECT_LT(now.size(), first.size() + 30);
  EXPECT_EQ(std::count(files_->calls.begin(), files_->calls.end(), "append /model/lines_0.jsonl"), 2);
  // Another store begins its own files; the old ones are removed with the last checkpoint that refers to them.
  store = open(2);
  save(store, {103});
  EXPECT_EQ(files_->list("/model").size(), 7u);
  save(store, {104});
  EXPECT_EQ(files_->list("/model"),
            (Names{".lock", "checkpoint_0000000103", "checkpoint_0000000104", "lines_2.jsonl", "lines_3.jsonl"}));
}

TEST_F(CheckpointStoreTest, DoesNotAppendToLinesChangedByOthers) {
  CheckpointStore store = open();
  save(store, {1});
  files_->content("/model/lines_1.jsonl") += "x";
  expect_error(ErrorCode::io, {"lines_1.jsonl", "bytes, expected"}, [&] { save(store, {2}); });
  save(store, {3});
  LoadedCheckpoint loaded = store.load();
  EXPECT_EQ(SampleRun::moment_of(loaded), (Moment{3, 0}));
}

TEST_F(CheckpointStoreTest, RepeatedlyFailingSavesLeaveNothing) {
  CheckpointStore store = open();
  save(store, {1});
  const Names before = files_->list("/model");
  files_->before_call = [&] {
    if (files_->calls.back().ends_with("checkpoint.json")) files_->fail_at = files_->calls.size();
  };
  for (int i = 0; i < 3; ++i) {
    expect_error(ErrorCode::io, {"injected", "checkpoint_0000000002"}, [&] { save(store, {2}); });
    EXPECT_EQ(files_->list("/model"), before);
  }
  files_->before_call = nullptr;
  save(store, {2});
  EXPECT_EQ(store.load().record.steps, 2);
}

TEST_F(CheckpointStoreTest, RejectsAnArchiveThatIsNotItsLatest) {
  CheckpointStore store = open();
  save(store, {1});
  Archive archive = store.archive();
  Moment second{2, 0};
  SampleRun::persist(archive, second);
  save(store, {3});
  expect_error(ErrorCode::invalid_argument, {"'test'", "begin at number 1", "archive()"},
               [&] { store.save(*run_.snapshot_at(second), SampleRun::record(second), std::move(archive)); });
  EXPECT_EQ(steps_of(store), std::vector<std::int64_t>{3});
}

TEST_F(CheckpointStoreTest, KeepsTheNewestAndTheFirstPastEachMultiple) {
  CheckpointStore store = open(2, 10);
  save(store, {3, 9, 12, 15, 18, 21, 24, 40, 41, 42, 43});
  EXPECT_EQ(steps_of(store), (std::vector<std::int64_t>{12, 21, 40, 42, 43}));
  CheckpointStore other("/model", {.keep = 1, .keep_every_n_steps = 20, .files = files_});
  expect_error(ErrorCode::invalid_argument, {"/model", "is being written by process"}, [&] { other.prune(); });
  { const CheckpointStore gone = std::move(store); }
  other.prune();
  EXPECT_EQ(steps_of(other), (std::vector<std::int64_t>{21, 40, 43}));
}

TEST_F(CheckpointStoreTest, GoingBackRemovesLaterCheckpoints) {
  CheckpointStore store = open(4);
  save(store, {10, 20, 25, 30});
  run_.save(store, {20, 1});
  EXPECT_EQ(steps_of(store), (std::vector<std::int64_t>{10, 20}));
  LoadedCheckpoint loaded = store.load();
  EXPECT_EQ(SampleRun::moment_of(loaded), (Moment{20, 1}));
}

TEST_F(CheckpointStoreTest, FindsTheBest) {
  CheckpointStore store = open(10);
  EXPECT_FALSE(store.latest());
  EXPECT_TRUE(store.all().empty());
  const std::vector<double> losses{std::nan(""), 3, 1, 1, 2};
  for (std::size_t i = 0; i < losses.size(); ++i) {
    CheckpointRecord record{.steps = static_cast<std::int64_t>(i), .monitor = "loss", .best = losses[i]};
    store.save(*run_.snapshot_at({1, 0}), record, store.archive());
  }
  store.save(*run_.snapshot_at({1, 0}), {.steps = 9}, store.archive());
  EXPECT_EQ(store.best("loss", "min")->record.steps, 2);
  EXPECT_EQ(store.best("loss", "max")->record.steps, 1);
  EXPECT_FALSE(store.best("accuracy", "max"));
  EXPECT_EQ(store.latest()->record.steps, 9);
  expect_error(ErrorCode::invalid_argument, {"'least'", "'min' or 'max'"}, [&] { store.best("loss", "least"); });
}

TEST_F(CheckpointStoreTest, IgnoresOtherFiles) {
  files_->create_directories("/model/checkpoint_0000000005");
  files_->create_directories("/model/checkpoint_6");
  files_->create_directories("/model/checkpoint_0000000007.tmp-1-1@elsewhere");
  for (const char* name : {"checkpoint_1.safetensors", "checkpoint_000000000x.safetensors", "lines_x.jsonl", "notes"}) {
    replace_file(*files_, std::string("/model/") + name, "");
  }
  const std::size_t before = files_->list("/model").size();
  CheckpointStore store = open();
  save(store, {8, 9});
  EXPECT_EQ(files_->list("/model").size(), before + 4);
  std::vector<std::string> unreadable;
  EXPECT_EQ(store.all(&unreadable).size(), 1u);
  ASSERT_EQ(unreadable.size(), 1u);
  EXPECT_NE(unreadable[0].find("checkpoint_0000000005' has no manifest"), std::string::npos) << unreadable[0];
}

TEST_F(CheckpointStoreTest, ReportsAnEmptyDirectory) {
  expect_error(ErrorCode::not_found, {"/model"}, [&] { open().load(); });
  files_->create_directories("/model");
  expect_error(ErrorCode::not_found, {"no checkpoint in the directory '/model'"}, [&] { open().load(); });
}

TEST_F(CheckpointStoreTest, RejectsWhatItCannotSave) {
  expect_error(ErrorCode::invalid_argument, {"name is empty"}, [] { CheckpointStore(""); });
  expect_error(ErrorCode::invalid_argument, {"'/model'", "keep is 0"}, [&] { open(0); });
  expect_error(ErrorCode::invalid_argument, {"keep_every_n_steps is -1"}, [&] { open(1, -1); });
  CheckpointStore store = open();
  expect_error(ErrorCode::invalid_argument, {"-1 bytes"}, [&] { store.check_writable(-1); });
  CheckpointStore moved = open();
  const CheckpointStore there = std::move(moved);
  expect_error(ErrorCode::invalid_argument, {"moved from"}, [&] { moved.all(); });
  const auto snapshot = run_.snapshot_at({1, 0});
  expect_error(ErrorCode::invalid_argument, {"steps is -1"}, [&] { store.save(*snapshot, {.steps = -1}, Archive()); });
  expect_error(ErrorCode::invalid_argument, {"time is nan"},
               [&] { store.save(*snapshot, {.time = std::numeric_limits<double>::quiet_NaN()}, Archive()); });
  Archive archive = store.archive();
  std::string long_text(5 << 20, 'x');
  archive("text", long_text);
  expect_error(ErrorCode::invalid_argument, {"more than 4194304", "arrays or lines"},
               [&] { store.save(*snapshot, {.steps = 1}, std::move(archive)); });
  EXPECT_EQ(files_->list("/model"), Names{".lock"});
}

TEST_F(CheckpointStoreTest, SavesOnAnotherThread) {
  CheckpointStore store = open(3);
  for (const std::int64_t steps : {1, 2, 3}) {
    Moment moment{steps, 0};
    Archive archive = store.archive();
    SampleRun::persist(archive, moment);
    store.save_async(run_.snapshot_at(moment), SampleRun::record(moment), std::move(archive));
  }
  store.wait();
  EXPECT_EQ(steps_of(store), (std::vector<std::int64_t>{1, 2, 3}));
  LoadedCheckpoint loaded = store.load();
  EXPECT_EQ(SampleRun::moment_of(loaded), (Moment{3, 0}));
}

TEST_F(CheckpointStoreTest, ErrorsOfTheOtherThreadAreThrownOnce) {
  CheckpointStore store = open();
  save(store, {1});
  const auto fail = [&] {
    files_->fail_at = files_->calls.size() + 10;
    store.save_async(run_.snapshot_at({2, 0}), {.steps = 2}, store.archive());
  };
  fail();
  expect_error(ErrorCode::io, {"injected", "/model"}, [&] { store.wait(); });
  store.wait();
  fail();
  expect_error(ErrorCode::io, {"injected"}, [&] { store.archive(); });
  fail();
  expect_error(ErrorCode::io, {"injected"}, [&] { run_.save(store, {3, 0}); });
  save(store, {3});
  EXPECT_EQ(steps_of(store), std::vector<std::int64_t>{3});
}

TEST_F(CheckpointStoreTest, SecondWriterIsToldOfTheFirst) {
  CheckpointStore first = open(), second = open();
  save(first, {1});
  expect_error(ErrorCode::invalid_argument,
               {fmt::format("'/model' is being written by process {} on {}", ::getpid(), detail::host_name())},
               [&] { second.acquire(); });
  expect_error(ErrorCode::invalid_argument, {"is being written"}, [&] { save(second, {2}); });
  EXPECT_EQ(second.load().record.steps, 1);
  { const CheckpointStore gone = std::move(first); }
  save(second, {2});
  EXPECT_EQ(second.load().record.steps, 2);
}

TEST_F(CheckpointStoreTest, ChecksWritability) {
  const test::TemporaryDirectory dir;
  CheckpointStore store(dir / "model", {.keep = 2});
  store.check_writable(1000);
  EXPECT_EQ(posix_file_system()->list(dir / "model"), Names{".lock"});
  const std::int64_t huge = std::int64_t{1} << 60;
  expect_error(ErrorCode::io, {dir / "model", "3 more checkpoints", std::to_string(huge), "are free"},
               [&] { store.check_writable(huge); });
  // The free space (2^30 bytes) is enough for four of these; of the three kept, one is saved already.
  CheckpointStore small = open(3);
  save(small, {1});
  small.check_writable(std::int64_t{1} << 28);
  expect_error(ErrorCode::io, {"3 more checkpoints", "need 1073741826 bytes, but 1073741824 are free"},
               [&] { small.check_writable(357913942); });
  for (std::size_t k = 1;; ++k) {
    const std::size_t call = files_->calls.size() + k;
    files_->fail_at = call;
    try {
      small.check_writable(1);
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(files_->calls[call - 1]), std::string::npos) << error.what();
    }
    if (files_->calls.size() < call) break;
  }
  files_->fail_at = 0;
  small.check_writable(1);
  EXPECT_EQ(files_->list("/model").size(), 4u);
}

TEST_F(CheckpointStoreTest, RespectsTheUmask) {
  const test::TemporaryDirectory dir;
  const mode_t before = ::umask(027);
  CheckpointStore store(dir / "model");
  save(store, {1});
  ::umask(before);
  const auto mode = [&](const std::string& name) {
    struct stat status {};
    EXPECT_EQ(::stat((dir / name).c_str(), &status), 0) << name;
    return status.st_mode & 0777;
  };
  EXPECT_EQ(mode("model"), 0750u);
  EXPECT_EQ(mode("model/checkpoint_0000000001"), 0750u);
  for (const char* name :
       {"model/checkpoint_0000000001/checkpoint.json", "model/checkpoint_0000000001/state.safetensors",
        "model/checkpoint_0000000001/memory.safetensors", "model/lines_0.jsonl"}) {
    EXPECT_EQ(mode(name), 0640u) << name;
  }
}

TEST_F(CheckpointStoreTest, LoadsTheReplacementOfWhatItReads) {
  for (const Moment& next : {Moment{1, 1}, Moment{2, 0}}) {
    CheckpointStore store = open();
    run_.save(store, {1, 0});
    files_->before_call = [&] {
      if (files_->calls.back() != "read /model/checkpoint_0000000001/state.safetensors") return;
      files_->before_call = nullptr;
      run_.save(store, next);
    };
    LoadedCheckpoint loaded = load_checkpoint("/model", *files_);
    EXPECT_EQ(SampleRun::moment_of(loaded), next);
    EXPECT_FALSE(files_->before_call);
  }
}

TEST_F(CheckpointStoreTest, LoadsWhileAnotherThreadSaves) {
  const test::TemporaryDirectory dir;
  CheckpointStore store(dir / "model");
  save(store, {1});
  std::atomic<bool> done{false};
  std::thread reader([&] {
    std::int64_t last = 0;
    while (!done) {
      try {
        LoadedCheckpoint loaded = load_checkpoint(dir / "model");
        EXPECT_GE(SampleRun::moment_of(loaded).variant, 0);
        EXPECT_GE(loaded.record.steps, last);
        last = loaded.record.steps;
      } catch (const Error& error) {
        ADD_FAILURE() << error.what();
      }
    }
  });
  for (std::int64_t steps = 2; steps < 20; ++steps) {
    for (const std::int64_t variant : {0, 1, 2}) run_.save(store, {steps, variant});
  }
  done = true;
  reader.join();
}

}  // namespace
}  // namespace giro
