// Checkpoints when memory runs out: the call fails, nothing leaks, the older checkpoint stays, and a second try
// succeeds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <giro/runtime/files/checkpoint_store.h>
#include <giro/runtime/files/load_into.h>
#include <giro/runtime/files/save_load.h>

#include "tests/runtime/sample_run.h"
#include "tests/support/failing_allocations.h"
#include "tests/support/temporary_directory.h"

namespace giro {
namespace {

using test::fail_each_allocation, test::Moment, test::SampleRun;

constexpr std::int64_t kSize = 3'000;  // elements of the largest leaf

// Saves a second checkpoint.
struct Save {
  Save() { run.save(store, {1, 0}); }

  test::TemporaryDirectory dir;
  SampleRun run{kSize};
  CheckpointStore store{dir / "model"};

  void call() { run.save(store, {2, 0}); }
  void check_failed() {
    const Moment found = load();
    EXPECT_TRUE(found == (Moment{1, 0}) || found == (Moment{2, 0})) << found.steps << " " << found.variant;
  }
  void check_done() { EXPECT_EQ(load(), (Moment{2, 0})); }
  Moment load() const {
    LoadedCheckpoint loaded = load_checkpoint(dir / "model");
    EXPECT_TRUE(loaded.skipped.empty());
    return SampleRun::moment_of(loaded);
  }
};

struct SaveAsync : Save {
  void call() {
    Moment moment{2, 0};
    Archive archive = store.archive();
    SampleRun::persist(archive, moment);
    store.save_async(run.snapshot_at(moment), SampleRun::record(moment), std::move(archive));
    store.wait();
  }
};

struct Load : Save {
  Moment loaded;

  void call() { loaded = load(); }
  void check_failed() { EXPECT_EQ(loaded, Moment()); }
  void check_done() { EXPECT_EQ(loaded, (Moment{1, 0})); }
};

// Loads weights from a file.
struct LoadInto {
  LoadInto() {
    std::vector<LeafSpec> specs;
    for (int i = 0; i < 50; ++i) specs.push_back({"layer" + std::to_string(i), DType::f32, {20}});
    state.add("params", specs);
    fill(3);
    giro::save(path, state);
    fill(5);
  }

  test::TemporaryDirectory dir;
  std::string path = dir / "weights.safetensors";
  State state{Device::cpu()};

  void call() { load_into(state, giro::load(path).tensors); }
  void check_failed() { EXPECT_EQ(values(), std::set<float>{5}); }
  void check_done() { EXPECT_EQ(values(), std::set<float>{3}); }
  void fill(float value) {
    for (const Leaf& leaf : state.flatten()) std::fill_n(leaf.value.data<float>(), leaf.value.count(), value);
  }
  std::set<float> values() const {
    std::set<float> values;
    for (const Leaf& leaf : state.flatten()) {
      values.insert(leaf.value.data<float>(), leaf.value.data<float>() + leaf.value.count());
    }
    return values;
  }
};

TEST(OutOfMemory, FailedSaveKeepsTheOlderCheckpoint) { fail_each_allocation<Save>(); }
TEST(OutOfMemory, AsynchronousSaveReportsToItsCaller) { fail_each_allocation<SaveAsync>(); }
TEST(OutOfMemory, LoadFails) { fail_each_allocation<Load>(); }
TEST(OutOfMemory, FailedLoadLeavesTheStateUnchanged) { fail_each_allocation<LoadInto>(); }

}  // namespace
}  // namespace giro
