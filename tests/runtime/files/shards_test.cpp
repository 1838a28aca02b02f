// States that are divided into shards, one on each process, and checkpoints that the processes save together.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <giro/runtime/files/checkpoint_store.h>
#include <giro/runtime/files/load_into.h>
#include <giro/runtime/files/save_load.h>
#include <giro/runtime/snapshot.h>
#include <giro/runtime/state.h>

#include "runtime/files/shard_files.h"
#include "tests/support/expect_error.h"
#include "tests/support/power_loss_file_system.h"
#include "tests/support/sanitized.h"
#include "tests/support/temporary_directory.h"

namespace giro {
namespace {

using test::expect_error;
using Specs = std::vector<LeafSpec>;

// "params" is complete on every process; each process holds one part of "moments".
State make_state(const Specs& specs, Shard shard = {}) {
  State state(Device::cpu());
  state.add("params", specs, {.parts = shard.count});
  state.add("grads", specs, {.saved = false, .parts = shard.count});
  state.add("moments", specs,
            {.parts = shard.count, .part = shard.count > 1 ? std::optional(shard.index) : std::nullopt});
  state.add("step", {{"", DType::i64, {}}});
  return state;
}

// Element i of a leaf is i plus an offset that depends on `salt` and the leaf.
void fill(State& state, std::int64_t salt) {
  for (const auto& collection : state.collections()) {
    for (const Leaf& leaf : collection->leaves()) {
      const std::int64_t first =
          salt + static_cast<std::int64_t>(leaf.path.size()) + (leaf.piece ? leaf.piece->begin : 0);
      if (leaf.value.dtype() == DType::i64) {
        std::iota(leaf.value.data<std::int64_t>(), leaf.value.data<std::int64_t>() + leaf.value.count(), first);
      } else {
        std::iota(leaf.value.data<float>(), leaf.value.data<float>() + leaf.value.count(), static_cast<float>(first));
      }
    }
  }
}

Specs random_specs(std::mt19937& random) {
  Specs specs;
  const int leaves = std::uniform_int_distribution(1, 6)(random);
  for (int i = 0; i < leaves; ++i) {
    std::vector<std::int64_t> shape;
    for (int axis = std::uniform_int_distribution(0, 3)(random); axis > 0; --axis) {
      shape.push_back(std::uniform_int_distribution(axis == 1 ? 0 : 1, 9)(random));
    }
    specs.push_back({fmt::format("layer{}/kernel", i), DType::f32, Shape(shape)});
  }
  return specs;
}

std::vector<Leaf> saved_leaves(const State& state) {
  std::vector<Leaf> leaves = state.flatten();
  std::erase_if(leaves, [](const Leaf& leaf) { return leaf.path.starts_with("grads"); });
  return leaves;
}

std::string bits(const Tensor& tensor) { return {static_cast<const char*>(tensor.raw()), tensor.bytes()}; }

// The shards together hold every element of every leaf exactly once.
TEST(Shards, HoldEachElementOnce) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const Specs specs = random_specs(random);
    const int count = std::uniform_int_distribution(2, 5)(random);
    State whole = make_state(specs);
    fill(whole, round);
    std::int64_t elements = 0;
    for (int index = 0; index < count; ++index) {
      State shard = make_state(specs, {index, count});
      load_into(shard, saved_leaves(whole));
      State filled = make_state(specs, {index, count});
      fill(filled, round);
      const Collection& moments = shard.collection("moments");
      EXPECT_EQ(bits(moments.flat()), bits(filled.collection("moments").flat()));
      EXPECT_EQ(moments.flat().count(), shard.collection("params").flat().count() / count);
      EXPECT_EQ(shard.collection("params").flat(Shard{index, count}).count(), moments.flat().count());
      for (const Leaf& leaf : moments.leaves()) {
        ASSERT_TRUE(leaf.piece);
        EXPECT_EQ(leaf.piece->whole, whole.at(leaf.path).shape());
        const auto* const expected = whole.at(leaf.path).data<float>() + leaf.piece->begin;
        EXPECT_TRUE(std::equal(expected, expected + leaf.value.count(), leaf.value.data<float>()));
        elements += leaf.value.count();
      }
      const State copy = shard.clone();
      EXPECT_EQ(bits(copy.collection("moments").flat()), bits(moments.flat()));
      Snapshot snapshot(shard, MemoryKind::pinned, Collections::saved_shards);
      snapshot.wait();
      ASSERT_EQ(snapshot.leaves().size(), moments.leaves().size());
      for (std::size_t i = 0; i < moments.leaves().size(); ++i) {
        EXPECT_EQ(snapshot.leaves()[i].piece, moments.leaves()[i].piece);
        EXPECT_EQ(bits(snapshot.leaves()[i].value), bits(moments.leaves()[i].value));
      }
    }
    std::int64_t expected = 0;
    for (const Leaf& leaf : whole.collection("moments").leaves()) expected += leaf.value.count();
    EXPECT_EQ(elements, expected);
  }
}

TEST(Shards, ConvertOnlyTheirPieces) {
  const Specs specs{{"a", DType::f32, {5, 9}}};
  State whole = make_state(specs);
  fill(whole, 3);
  std::vector<BFloat16> half(whole.at("moments/a").data<float>(), whole.at("moments/a").data<float>() + 45);
  const std::vector<Leaf> given{{"moments/a", Tensor(half.data(), DType::bf16, {5, 9}, Device::cpu())}};
  for (int index = 0; index < 3; ++index) {
    State shard = make_state(specs, {index, 3});
    load_into(shard, given, {.only = {"moments"}, .convert = true});
    for (const Leaf& leaf : shard.collection("moments").leaves()) {
      for (std::int64_t i = 0; i < leaf.value.count(); ++i) {
        EXPECT_EQ(leaf.value.data<float>()[i],
                  static_cast<float>(half[static_cast<std::size_t>(leaf.piece->begin + i)]));
      }
    }
  }
}

TEST(Shards, RejectMismatches) {
  State state(Device::cpu());
  for (const CollectionOptions& options :
       {CollectionOptions{.parts = 0}, CollectionOptions{.parts = 2, .part = 2}, CollectionOptions{.part = -1}}) {
    expect_error(ErrorCode::invalid_argument, {"collection 'x'", "no part"}, [&] {
      state.add("x", {{"a", DType::f32, {4}}}, options);
    });
  }
  const Specs specs{{"a", DType::f32, {4, 40}}};
  State first = make_state(specs, {0, 2}), second = make_state(specs, {1, 2}), whole = make_state(specs);
  expect_error(ErrorCode::invalid_argument, {"'params'", "2 parts", "shard 0 of 3"}, [&] {
    (void)first.collection("params").flat(Shard{0, 3});
  });
  expect_error(ErrorCode::invalid_argument, {"'moments'", "one of which is here"}, [&] {
    (void)first.collection("moments").flat(Shard{0, 2});
  });
  // Even without moments the number of shards matters: the buffers differ in length.
  State for_two(Device::cpu()), for_three(Device::cpu());
  for_two.add("params", specs, {.parts = 2});
  for_three.add("params", specs, {.parts = 3});
  const Snapshot of_two(for_two);
  EXPECT_FALSE(of_two.fits(for_three));
  expect_error(ErrorCode::shape_mismatch, {"'params' has 640 bytes, expected 768", "a different number of shards"},
               [&] { for_three.assign(for_two); });
  expect_error(ErrorCode::shape_mismatch,
               {"moments/a", "starting at element 80 of (4, 40)", "starting at element 0 of"},
               [&] { first.assign(second); });
  expect_error(ErrorCode::shape_mismatch, {"moments/a is f32(80,), expected f32(4, 40)"},
               [&] { load_into(first, saved_leaves(second)); });
  const test::TemporaryDirectory dir;
  expect_error(ErrorCode::invalid_argument, {"moments/a", "80 elements of (4, 40)", "use a checkpoint"},
               [&] { save(dir.path() + "/weights.safetensors", first); });
  // A leaf that lies completely on other shards still belongs to the state.
  State small = make_state({{"a", DType::f32, {2}}}, {1, 2});
  EXPECT_TRUE(small.collection("moments").leaves().empty());
  expect_error(ErrorCode::shape_mismatch, {"moments/a is f32(3,), expected f32(2,)"}, [&] {
    load_into(small, make_state({{"a", DType::f32, {3}}}).flatten("moments"), {.only = {"moments"}});
  });
}

const Specs kSpecs{
    {"dense0/kernel", DType::f32, {7, 30}}, {"dense0/bias", DType::f32, {30}}, {"scale", DType::f32, {}}};

// `count` stores for one directory, and the states they save.
struct Group {
  explicit Group(const std::string& dir, int count, std::shared_ptr<FileSystem> files = posix_file_system(),
                 std::int64_t keep = 1, double timeout = 0.02) {
    for (int index = 0; index < count; ++index) {
      stores.emplace_back(dir,
                          CheckpointStoreOptions{.keep = keep, .files = files, .group = {{index, count}, timeout}});
      states.push_back(make_state(kSpecs, {index, count}));
    }
  }

  void save(int index, std::int64_t steps, const std::string& id) {
    const auto i = static_cast<std::size_t>(index);
    fill(states[i], steps);
    const Collections saved = index == 0 ? Collections::saved : Collections::saved_shards;
    const Snapshot snapshot(states[i], MemoryKind::pinned, saved);
    snapshot.wait();
    Archive archive = stores[i].archive();
    persist(archive, states[i].flatten("moments"), steps);
    stores[i].save(snapshot, {.steps = steps}, std::move(archive), id);
  }
  // Saves as if all processes did so at once. Shard 0 comes last, so that it does not wait for the others.
  void save(std::int64_t steps, const std::string& id = new_save_id()) {
    for (int index = static_cast<int>(stores.size()) - 1; index >= 0; --index) save(index, steps, id);
  }
  // A callback's memory: a number, arrays and lines.
  static void persist(Archive& archive, std::vector<Leaf> best, std::int64_t& steps) {
    std::shared_ptr<const void> owner;
    archive("steps", steps).arrays("best", best, owner);
    archive.lines(
        "history", static_cast<std::size_t>(steps),
        [&](std::size_t first) { return std::string(static_cast<std::size_t>(steps) - first, '\n'); },
        [](std::string_view) {});
  }

  std::vector<CheckpointStore> stores;
  std::vector<State> states;
};

// Expects the checkpoint that any number of processes would save at its step.
void expect_whole(LoadedCheckpoint& loaded) {
  State expected = make_state(kSpecs);
  fill(expected, loaded.record.steps);
  State found = make_state(kSpecs);
  load_into(found, loaded.leaves);
  for (const char* name : {"params", "moments", "step"}) {
    EXPECT_EQ(bits(found.collection(name).bytes()), bits(expected.collection(name).bytes())) << name;
  }
  std::int64_t steps = 0;
  std::vector<Leaf> best;
  std::shared_ptr<const void> owner;
  loaded.archive("steps", steps).arrays("best", best, owner);
  EXPECT_EQ(steps, loaded.record.steps);
  ASSERT_EQ(best.size(), expected.collection("moments").leaves().size());
  for (const Leaf& leaf : best) EXPECT_EQ(bits(leaf.value), bits(expected.at(leaf.path)));
}

TEST(ShardedCheckpoints, HoldTheWholeStateForAnyNumberOfShards) {
  for (const int count : {1, 2, 3, 5}) {
    const auto files = std::make_shared<test::PowerLossFileSystem>();
    LoadedCheckpoint loaded;
    {
      Group group("/model", count, files, 2);
      for (const std::int64_t steps : {1, 2, 3}) group.save(steps);
      group.save(3);  // replaces the last one
      EXPECT_EQ(group.stores[0].all().size(), 2u);
      loaded = load_checkpoint("/model", *files->after_power_loss(static_cast<std::uint32_t>(count)));
      EXPECT_EQ(loaded.record.steps, 3);
      EXPECT_EQ(loaded.version, count == 1 ? 2 : 3);
      expect_whole(loaded);
    }
    Group others("/model", count == 1 ? 4 : count - 1, files, 1);
    for (State& state : others.states) load_into(state, loaded.leaves);
    others.save(4);
    LoadedCheckpoint later = load_checkpoint("/model", *files);
    EXPECT_EQ(later.record.steps, 4);
    expect_whole(later);
    EXPECT_EQ(files->list("/model").size(), 3u);  // the checkpoint, the lines and the lock
  }
}

TEST(ShardedCheckpoints, WaitForEachOther) {
  const test::TemporaryDirectory dir;
  constexpr int kCount = 3;
  Group group(dir.path(), kCount, posix_file_system(), 100, 60);
  std::vector<std::string> ids(31);
  for (std::string& id : ids) id = new_save_id();
  std::barrier all_are_done(kCount);
  std::vector<std::jthread> processes;
  for (int index = 0; index < kCount; ++index) {
    processes.emplace_back([&, index] {
      for (std::int64_t steps = 1; steps <= 30; ++steps) {
        group.save(index, steps, ids[static_cast<std::size_t>(steps)]);
        all_are_done.arrive_and_wait();
      }
    });
  }
  processes.clear();
  const std::vector<StoredCheckpoint> all = group.stores[0].all();
  ASSERT_EQ(all.size(), 30u);
  for (const StoredCheckpoint& stored : all) {
    LoadedCheckpoint loaded = load_checkpoint(stored.path);
    expect_whole(loaded);
  }
}

TEST(ShardedCheckpoints, DoNotExistUntilAllShardsDo) {
  const test::TemporaryDirectory dir;
  {
    Group died(dir.path(), 3);
    died.save(5);
    const std::string id = new_save_id();
    died.save(1, 6, id);
    died.save(2, 6, id);  // shard 0 never saves
  }
  Group group(dir.path(), 3);
  const std::string id = new_save_id();
  group.save(2, 6, id);
  expect_error(ErrorCode::communication, {"checkpoint", "shard(s) 1 of 3 did not arrive within 0.02 s"},
               [&] { group.save(0, 6, id); });
  EXPECT_EQ(load_checkpoint(dir.path()).record.steps, 5);
  group.save(1, 6, id);
  group.save(0, 6, id);
  LoadedCheckpoint loaded = load_checkpoint(dir.path());
  EXPECT_EQ(loaded.record.steps, 6);
  expect_whole(loaded);
}

TEST(ShardedCheckpoints, RejectInvalidGroups) {
  const test::TemporaryDirectory dir;
  expect_error(ErrorCode::invalid_argument, {"no shard 2 of 2"}, [&] {
    CheckpointStore(dir.path(), {.group = {{2, 2}}});
  });
  Group group(dir.path(), 2);
  expect_error(ErrorCode::invalid_argument, {"a save of 2 shards has the id ''"}, [&] { group.save(1, 1, ""); });
  // A store without a group would lose the other shards, of the state or of a callback's memory.
  CheckpointStore alone(dir.path());
  const Snapshot snapshot(group.states[0], MemoryKind::pinned);
  expect_error(ErrorCode::invalid_argument, {"of leaf 'moments/", "expected a save group"},
               [&] { alone.save(snapshot, {.steps = 1}, alone.archive()); });
  Archive archive = alone.archive();
  std::int64_t steps = 1;
  Group::persist(archive, group.states[0].flatten("moments"), steps);
  const State whole = make_state(kSpecs);
  const Snapshot of_whole(whole, MemoryKind::pinned);
  expect_error(ErrorCode::invalid_argument, {"of leaf 'best/moments/", "expected a save group"},
               [&] { alone.save(of_whole, {.steps = 1}, std::move(archive)); });
  EXPECT_TRUE(alone.all().empty());
}

// Any call of either process fails, or all die at it. After a power loss a checkpoint can still be loaded, and the next
// processes can save over the remains. A surviving process tries again.
TEST(ShardedCheckpoints, SurviveFailureOfAnyCall) {
  for (const bool crash : {false, true}) {
    int failures = 0;
    for (bool failed = true; failed; ++failures) {
      auto files = std::make_shared<test::PowerLossFileSystem>();
      failed = false;
      Group group("/model", 2, files, 1, 0.001);
      group.save(1);
      files->fail_at = files->calls.size() + 1 + static_cast<std::size_t>(failures);
      files->crash = crash;
      const std::string id = new_save_id();
      for (const int index : {1, 0}) {
        try {
          group.save(index, 2, id);
        } catch (const Error&) {
          failed = true;
          if (crash) break;
          group.save(index, 2, id);
        }
      }
      files->fail_at = 0;
      const int seeds = test::kSanitized ? 1 : 8;
      for (int i = 0; i < seeds; ++i) {
        const auto seed = static_cast<std::uint32_t>(failures * seeds + i);
        const auto disk = files->after_power_loss(seed);
        LoadedCheckpoint loaded = load_checkpoint("/model", *disk);
        EXPECT_TRUE(loaded.record.steps == 2 || (crash && failed && loaded.record.steps == 1))
            << failures << " " << seed;
        expect_whole(loaded);
        Group after("/model", 3, disk);
        after.save(3);
        expect_whole(loaded = load_checkpoint("/model", *disk));
        EXPECT_EQ(loaded.record.steps, 3);
      }
    }
    EXPECT_GT(failures, 40);
  }
}

// A flipped bit, a truncated file or a missing file: the previous checkpoint is loaded instead.
TEST(ShardedCheckpoints, DamageIsFound) {
  auto files = std::make_shared<test::PowerLossFileSystem>();
  Group group("/model", 2, files, 2);
  group.save(1);
  group.save(2);
  const std::string unit = "/model/checkpoint_0000000002";
  const std::vector<std::string> names = files->list(unit);
  EXPECT_EQ(names, (std::vector<std::string>{"checkpoint.json", "memory-00001-of-00002.safetensors",
                                             "memory-00002-of-00002.safetensors", "state-00001-of-00002.safetensors",
                                             "state-00002-of-00002.safetensors", "state.safetensors"}));
  for (const std::string& name : names) {
    const std::string whole = files->content(unit + "/" + name);
    const auto expect_older = [&] { EXPECT_EQ(load_checkpoint("/model", *files).record.steps, 1) << name; };
    for (std::size_t at = 0; at < whole.size(); at += 1 + whole.size() / (test::kSanitized ? 8 : 40)) {
      files->content(unit + "/" + name)[at] ^= 4;
      expect_older();
      files->content(unit + "/" + name) = whole.substr(0, at);
      expect_older();
      files->content(unit + "/" + name) = whole;
    }
    files->rename(unit + "/" + name, unit + "/gone");
    expect_older();
    files->rename(unit + "/gone", unit + "/" + name);
  }
  EXPECT_EQ(load_checkpoint("/model", *files).record.steps, 2);
}

// The files have matching checksums, but contradict themselves or each other.
TEST(ShardedCheckpoints, PiecesMustCoverTheirLeaves) {
  const std::vector<float> values(20);
  const auto piece = [&](std::int64_t begin, std::int64_t count, const Shape& whole, const char* path = "a") {
    return Leaf{path, Tensor(const_cast<float*>(values.data()), DType::f32, {count}, Device::cpu()),
                Piece{whole, begin}};
  };
  const auto file = [](const std::vector<Leaf>& pieces) {
    return Safetensors{pieces, detail::piece_metadata(pieces), nullptr};
  };
  const auto layout = [](const Safetensors& file) {
    detail::safetensors::Layout layout{{}, file.metadata};
    for (const Leaf& leaf : file.tensors) layout.tensors.push_back({leaf.path, DType::f32, leaf.value.shape(), 0});
    return layout;
  };
  const auto zeros = [](std::uint64_t, std::size_t size, void* data) { std::memset(data, 0, size); };
  const auto add = [&](detail::ShardReader& joiner, const Safetensors& shard) {
    joiner.add_shard(layout(shard), zeros, "shard");
  };
  const auto expect = [&](std::initializer_list<std::string> words, const std::vector<Safetensors>& shards,
                          std::uint64_t bytes = 1'000) {
    expect_error(ErrorCode::corrupt_data, words, [&] {
      detail::ShardReader joiner(bytes);
      for (const Safetensors& shard : shards) add(joiner, shard);
      (void)joiner.finish("unit");
    });
  };
  const Shape whole{2, 5};
  detail::ShardReader good(1'000);
  for (const auto& [begin, count] : {std::pair<std::int64_t, std::int64_t>{0, 4}, {4, 6}}) {
    add(good, file({piece(begin, count, whole)}));
  }
  EXPECT_EQ(good.finish("unit").at(0).value.shape(), whole);

  expect({"'shard'", "no metadata 'pieces'"}, {{{piece(0, 4, whole)}, {}, nullptr}});
  expect({"shard", "does not continue the 0 elements"}, {file({piece(4, 6, whole)})});
  expect({"does not continue the 4 elements"}, {file({piece(0, 4, whole)}), file({piece(5, 5, whole)})});
  expect({"does not continue the 4 elements"}, {file({piece(0, 4, whole)}), file({piece(4, 6, {10})})});
  expect({"does not continue the 4 elements"}, {file({piece(0, 4, whole)}), file({piece(4, 7, whole)})});
  expect({"'unit'", "have 4 elements of \"a\"", "(2, 5)"}, {file({piece(0, 4, whole)})});
  expect({"too small for the leaf \"a\"", "(2, 5)"}, {file({piece(0, 4, whole)})}, 39);
  Safetensors more = file({piece(0, 10, whole)});
  more.tensors.push_back(piece(0, 1, {1}, "b"));
  expect({"does not say what \"b\" is a piece of"}, {more});
  Safetensors fewer = file({piece(0, 10, whole), piece(0, 1, {1}, "b")});
  fewer.tensors.pop_back();
  expect({"no tensor \"b\""}, {fewer});
  Safetensors negative = file({piece(0, 10, whole)});
  negative.metadata["pieces"] = R"({"pieces": [{"path": "a", "begin": 0, "shape": [2, -5]}]})";
  expect({"\"a\"", "negative size -5"}, {negative});
  negative.metadata["pieces"] = R"({"pieces": 3})";
  expect({"'shard'", "pieces"}, {negative});
  expect_error(ErrorCode::corrupt_data, {"'shard'", "\"a\" appears both whole and in shards"}, [&] {
    detail::ShardReader joiner(1'000);
    joiner.add_whole_leaves(layout({{piece(0, 10, {10})}, {}, nullptr}), zeros, "whole");
    add(joiner, file({piece(0, 10, {10})}));
  });
}

}  // namespace
}  // namespace giro
