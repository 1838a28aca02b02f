// A process that holds one shard of a state reads only that shard from a checkpoint.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <giro/runtime/files/checkpoint_store.h>
#include <giro/runtime/files/load_into.h>
#include <giro/runtime/snapshot.h>
#include <giro/runtime/state.h>

#include "runtime/files/manifest.h"
#include "runtime/files/stored_checkpoints.h"
#include "tests/support/expect_error.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/temporary_directory.h"

namespace giro {
namespace {

using test::expect_error;

constexpr std::int64_t kMiB = 1 << 20;

// Counts the bytes read.
class CountingFileSystem final : public test::FaultyFileSystem {
 public:
  std::int64_t bytes = 0;

  std::unique_ptr<Reader> open(const std::string& path) override {
    return std::make_unique<CountingReader>(FaultyFileSystem::open(path), bytes);
  }

 private:
  class CountingReader final : public Reader {
   public:
    CountingReader(std::unique_ptr<Reader> reader, std::int64_t& bytes) : reader_(std::move(reader)), bytes_(bytes) {}
    std::size_t size() override { return reader_->size(); }
    std::size_t read(void* data, std::size_t bytes) override { return count(reader_->read(data, bytes)); }
    std::size_t read_at(std::uint64_t offset, void* data, std::size_t bytes) const override {
      return count(reader_->read_at(offset, data, bytes));
    }

   private:
    std::size_t count(std::size_t got) const {
      bytes_ += static_cast<std::int64_t>(got);
      return got;
    }
    std::unique_ptr<Reader> reader_;
    std::int64_t& bytes_;
  };
};

// 24 MiB of moments in leaves of several sizes, sharded, and a little that each process holds whole.
const std::vector<LeafSpec> kMoments{{"z/kernel", DType::f32, {1'500, 1'024}}, {"z/bias", DType::f32, {1'024}},
                                     {"a/kernel", DType::f32, {3, 7, 131}},    {"m/kernel", DType::f32, {4'641, 1'000}},
                                     {"m/none", DType::f32, {0, 5}},           {"m/scale", DType::f32, {}}};

// Every element of a leaf tells its place in it.
void number_elements(State& state, std::int64_t steps) {
  for (const Leaf& leaf : state.flatten()) {
    if (leaf.path == "step") {
      *leaf.value.data<std::int64_t>() = steps;
    } else {
      const std::int64_t first =
          steps + static_cast<std::int64_t>(leaf.path.size()) + (leaf.piece ? leaf.piece->begin : 0);
      std::iota(leaf.value.data<float>(), leaf.value.data<float>() + leaf.value.count(), static_cast<float>(first));
    }
  }
}

State make_sharded_state(const Shard& shard, const std::vector<LeafSpec>& moments = kMoments) {
  State state(Device::cpu());
  state.add("params", {{"w", DType::f32, {100}}});
  state.add("moments", moments,
            {.parts = shard.count, .part = shard.count > 1 ? std::optional(shard.index) : std::nullopt});
  state.add("step", {{"", DType::i64, {}}});
  return state;
}

class ShardedLoad : public testing::Test {
 protected:
  static std::string name_of(std::int64_t steps) { return fmt::format("checkpoint_{:010}", steps); }

  // As if `count` processes saved together.
  void save(int count, std::int64_t steps) {
    const std::string id = new_save_id();
    for (int index = count - 1; index >= 0; --index) {  // shard 0 waits for the others
      CheckpointStore store(dir_.path(), {.keep = 2, .group = {{index, count}, 10}});
      State state = make_sharded_state({index, count});
      number_elements(state, steps);
      const Snapshot snapshot(state, MemoryKind::pinned, index == 0 ? Collections::saved : Collections::saved_shards);
      store.save(snapshot, {.steps = steps}, store.archive(), id);
    }
  }
  LoadedCheckpoint load(const State& state) {
    files_.bytes = 0;
    return detail::load_checkpoint(files_, dir_.path(), {detail::Needed::state, detail::held_parts(state)});
  }

  const test::TemporaryDirectory dir_;
  CountingFileSystem files_;
};

TEST_F(ShardedLoad, EachProcessReadsOnlyItsPart) {
  std::int64_t whole = 0;
  for (const LeafSpec& spec : kMoments) whole += spec.shape.count() * 4;
  ASSERT_GT(whole, 23 * kMiB);
  std::int64_t steps = 0;
  for (const int saved : {1, 3}) {
    save(saved, ++steps);
    for (const int count : {1, 2, 5}) {
      for (int index = 0; index < count; ++index) {
        SCOPED_TRACE(fmt::format("saved by {}, loaded by {} of {}", saved, index, count));
        State state = make_sharded_state({index, count}), expected = make_sharded_state({index, count});
        const LoadedCheckpoint loaded = load(state);
        load_into(state, loaded.leaves);
        number_elements(expected, steps);
        for (const char* name : {"params", "moments", "step"}) {
          const Tensor found = state.collection(name).bytes(), wanted = expected.collection(name).bytes();
          ASSERT_EQ(found.bytes(), wanted.bytes());
          EXPECT_EQ(std::memcmp(found.raw(), wanted.raw(), wanted.bytes()), 0) << name;
        }
        std::int64_t in_memory = 0;
        for (const Leaf& leaf : loaded.leaves) in_memory += static_cast<std::int64_t>(leaf.value.bytes());
        EXPECT_LE(in_memory, (whole + kMiB) / count + kMiB / 4);
        // At most one part at each end of a piece of the two large leaves, and one for the header of each file.
        EXPECT_LE(files_.bytes, whole / count + (4 + saved + 1) * kMiB);
        EXPECT_GE(files_.bytes, whole / count);
      }
    }
  }
}

TEST_F(ShardedLoad, DamageAffectsOnlyProcessesThatReadIt) {
  save(2, 1);
  save(2, 2);
  const std::string path = dir_.path() + "/" + name_of(2) + "/state-00002-of-00002.safetensors";
  std::string content = test::read_text(path);
  content[content.size() - 9] ^= 1;
  test::write_text(path, content);
  State first = make_sharded_state({0, 2}), last = make_sharded_state({1, 2});
  EXPECT_EQ(load(first).record.steps, 2);
  const LoadedCheckpoint loaded = load(last);
  EXPECT_EQ(loaded.record.steps, 1);
  ASSERT_EQ(loaded.skipped.size(), 1u);
  EXPECT_NE(loaded.skipped[0].find("state-00002-of-00002.safetensors': the checksum of its bytes "), std::string::npos)
      << loaded.skipped[0];
  EXPECT_EQ(load_checkpoint(dir_.path()).record.steps, 1);  // reads everything
  // A process that knows of others' damage can ask for the older one.
  EXPECT_EQ(
      detail::load_checkpoint(files_, dir_.path(), {detail::Needed::state, detail::held_parts(first), 1}).record.steps,
      1);
  expect_error(ErrorCode::not_found, {"no checkpoint"}, [&] {
    (void)detail::load_checkpoint(files_, dir_.path(), {detail::Needed::state, detail::held_parts(first), 0});
  });
}

TEST_F(ShardedLoad, AnyDamageOfAPartIsFound) {
  save(1, 1);
  const std::string path = dir_.path() + "/" + name_of(1) + "/state.safetensors";
  const std::string whole = test::read_text(path);
  for (std::size_t at = 5; at < whole.size(); at += 6 * kMiB - 1) {
    std::string content = whole;
    content[at] ^= 2;
    test::write_text(path, content);
    expect_error(ErrorCode::corrupt_data, {"state.safetensors"}, [&] { (void)load_checkpoint(dir_.path()); });
  }
}

// Their checksum covers the whole file, so they are read to the end, but not kept.
TEST_F(ShardedLoad, OlderCheckpointsHaveNoParts) {
  save(3, 1);
  const std::string unit = dir_.path() + "/" + name_of(1), path = unit + "/checkpoint.json";
  detail::Manifest manifest = detail::read_manifest(*posix_file_system(), unit);
  for (auto& file : manifest.files) {
    EXPECT_EQ(file.parts.empty(), file.name == "state.safetensors") << file.name;
    file.parts.clear();
  }
  test::write_text(path, detail::manifest_text(manifest));
  State state = make_sharded_state({1, 4}), expected = make_sharded_state({1, 4});
  const LoadedCheckpoint loaded = load(state);
  load_into(state, loaded.leaves);
  number_elements(expected, 1);
  const Tensor found = state.collection("moments").bytes(), wanted = expected.collection("moments").bytes();
  EXPECT_EQ(std::memcmp(found.raw(), wanted.raw(), wanted.bytes()), 0);
  // Parts that do not make up the file.
  for (const std::uint64_t bytes : {std::uint64_t{1}, ~std::uint64_t{0}}) {
    detail::Manifest wrong = manifest;
    wrong.files[1].parts.push_back({bytes, "0123456789abcdef"});
    test::write_text(path, detail::manifest_text(wrong));
    expect_error(ErrorCode::corrupt_data, {"state-00001-of-00003.safetensors", "its parts have"},
                 [&] { (void)load(state); });
  }
}

TEST_F(ShardedLoad, DifferentShapeIsAnErrorThatNamesIt) {
  save(2, 1);
  std::vector<LeafSpec> others = kMoments;
  others[1].shape = {2, 512};
  State state = make_sharded_state({0, 2}, others);
  const LoadedCheckpoint loaded = load(state);
  expect_error(ErrorCode::shape_mismatch, {"1 mismatched", "moments/z/bias is f32(1024,), expected f32(2, 512)"},
               [&] { load_into(state, loaded.leaves); });
}

}  // namespace
}  // namespace giro
