// What a save does does not grow with the checkpoints beside it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <giro/runtime/files/checkpoint_store.h>

#include "runtime/files/file_operations.h"
#include "tests/runtime/sample_run.h"
#include "tests/support/power_loss_file_system.h"

namespace giro {
namespace {

using test::PowerLossFileSystem, test::SampleRun;
using Calls = std::vector<std::string>;

class StoreIndexTest : public testing::Test {
 protected:
  CheckpointStore open(CheckpointStoreOptions options) {
    options.files = files_;
    return CheckpointStore("/model", options);
  }
  void save(CheckpointStore& store, std::int64_t steps, const std::string& monitor = "", double best = 0) {
    CheckpointRecord record{.steps = steps, .monitor = monitor};
    if (!monitor.empty()) record.best = best;
    store.save(*run_.snapshot_at({steps, 0}), record, store.archive());
  }
  std::vector<std::int64_t> steps_left() {
    std::vector<std::int64_t> steps;
    for (const StoredCheckpoint& stored : open({}).all()) steps.push_back(stored.record.steps);
    return steps;
  }
  // The calls of a save, without what differs from one to another.
  Calls calls_of_save(CheckpointStore& store, std::int64_t steps, const std::string& monitor) {
    files_->calls.clear();
    save(store, steps, monitor, -static_cast<double>(steps));
    EXPECT_EQ(store.latest_steps(), steps);
    Calls calls = files_->calls;
    for (std::string& call : calls) {
      std::erase_if(call, [](char c) { return c >= '0' && c <= '9'; });
    }
    return calls;
  }

  std::shared_ptr<PowerLossFileSystem> files_ = std::make_shared<PowerLossFileSystem>();
  SampleRun run_;
};

TEST_F(StoreIndexTest, SaveMakesTheSameCallsBesideAnyNumberOfCheckpoints) {
  for (const std::string monitor : {"", "loss"}) {
    Calls few;
    for (const std::int64_t kept : {10, 200}) {
      files_ = std::make_shared<PowerLossFileSystem>();
      CheckpointStore store = open({.keep = kept, .monitor = monitor, .mode = "min"});
      std::int64_t steps = 0;
      while (steps++ < kept) save(store, steps, monitor, -static_cast<double>(steps));
      const Calls calls = calls_of_save(store, steps, monitor);  // one more, and one is removed
      EXPECT_EQ(std::count_if(calls.begin(), calls.end(), [](const auto& call) { return call.starts_with("read"); }),
                0);
      EXPECT_EQ(std::count_if(calls.begin(), calls.end(), [](const auto& call) { return call == "list /model"; }), 0);
      if (few.empty()) few = calls;
      EXPECT_EQ(calls, few) << kept << " checkpoints";
      // Another process finds what this one has left.
      { const CheckpointStore gone = std::move(store); }
      CheckpointStore next = open({.keep = kept, .monitor = monitor, .mode = "min"});
      (void)calls_of_save(next, ++steps, monitor);
      EXPECT_EQ(steps_left().size(), static_cast<std::size_t>(kept));
      EXPECT_EQ(calls_of_save(next, ++steps, monitor), few) << kept << " checkpoints";
    }
  }
}

// The same choice as by a store that looks at the directory each time.
TEST_F(StoreIndexTest, KeepsWhatANewStoreWouldKeep) {
  const std::vector<std::int64_t> all_steps{3, 9, 12, 15, 12, 18, 30, 21, 24, 24, 5, 40, 41};
  std::vector<std::vector<std::int64_t>> left;
  for (const bool is_new : {true, false}) {
    files_ = std::make_shared<PowerLossFileSystem>();
    const CheckpointStoreOptions options{.keep = 2, .keep_every_n_steps = 10, .monitor = "loss", .mode = "min"};
    auto store = std::make_unique<CheckpointStore>(open(options));
    std::size_t at = 0;
    for (const std::int64_t steps : all_steps) {
      if (is_new) store.reset();
      if (is_new) store = std::make_unique<CheckpointStore>(open(options));
      save(*store, steps, steps % 2 == 0 ? "loss" : "", static_cast<double>(steps * 7919 % 101));
      if (is_new) left.push_back(steps_left());
      EXPECT_EQ(steps_left(), left.at(at++)) << steps;
    }
  }
}

TEST_F(StoreIndexTest, NoticesThatCheckpointsWereRemoved) {
  CheckpointStore store = open({.keep = 3});
  for (std::int64_t steps = 1; steps <= 5; ++steps) save(store, steps);
  for (const std::string& name : files_->list("/model")) detail::remove_all(*files_, "/model/" + name);
  save(store, 2);
  EXPECT_EQ(store.latest_steps(), 2);
  EXPECT_EQ(steps_left(), std::vector<std::int64_t>{2});
  for (const std::int64_t steps : {3, 4, 5}) save(store, steps);
  detail::remove_all(*files_, "/model/checkpoint_0000000004");  // not the newest
  for (const std::int64_t steps : {6, 7, 8}) save(store, steps);
  EXPECT_EQ(steps_left(), (std::vector<std::int64_t>{6, 7, 8}));
}

}  // namespace
}  // namespace giro
