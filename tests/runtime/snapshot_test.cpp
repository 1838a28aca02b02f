#include <giro/runtime/snapshot.h>

#include <optional>
#include <utility>

#include <giro/runtime/program/graph.h>

#include "tests/runtime/device_test.h"
#include "tests/support/expect_error.h"

namespace giro {
namespace {

using test::expect_error;

class SnapshotTest : public test::DeviceTest {
 protected:
  static constexpr std::int64_t kCount = 1 << 16;

  State make_state(std::int64_t count = kCount) const {
    State state(device());
    state.add("params", {{"a", DType::u8, {count}}, {"b", DType::i32, {3}}});
    state.add("grads", {{"a", DType::u8, {count}}}, {.saved = false});
    state.add("step", {{"", DType::i64, {}}});
    return state;
  }
  static void fill(const State& state, unsigned char value) {
    for (const Leaf& leaf : state.flatten()) state.stream().fill(leaf.value.raw(), value, leaf.value.bytes());
  }
  State filled(unsigned char value) const {
    State state = make_state();
    fill(state, value);
    return state;
  }
  static int last(const State& state, const std::string& path) {
    return to_host<std::uint8_t>(state.at(path), state.stream()).back();
  }
  static std::vector<std::string> paths(const Snapshot& snapshot) {
    std::vector<std::string> paths;
    for (const Leaf& leaf : snapshot.leaves()) paths.push_back(leaf.path);
    return paths;
  }
};

TEST_P(SnapshotTest, HoldsWhatTheStateHeld) {
  const State state = filled(1);
  const Snapshot snapshot(state);
  fill(state, 2);
  snapshot.write_back(state);
  EXPECT_EQ(last(state, "grads/a"), 2) << "which is not saved";
  EXPECT_EQ(last(state, "params/a"), 1);
  EXPECT_EQ(to_host<std::int64_t>(state.at("step"), state.stream()).front(), 0x0101010101010101);
  snapshot.wait();
  EXPECT_TRUE(snapshot.ready());
}

TEST_P(SnapshotTest, TakesAllCollectionsOnRequest) {
  const State state = filled(1);
  const Snapshot snapshot(state, MemoryKind::device, Collections::all);
  fill(state, 2);
  snapshot.write_back(state);
  EXPECT_EQ(last(state, "grads/a"), 1);
  EXPECT_EQ(paths(snapshot), (std::vector<std::string>{"params/a", "params/b", "grads/a", "step"}));
}

TEST_P(SnapshotTest, IsReadableOnTheHostInPinnedMemory) {
  const State state = filled(3);
  Snapshot snapshot(state, MemoryKind::pinned);
  fill(state, 4);
  snapshot.wait();
  EXPECT_EQ(paths(snapshot), (std::vector<std::string>{"params/a", "params/b", "step"}));
  const Tensor &a = snapshot.leaves()[0].value, &b = snapshot.leaves()[1].value;
  EXPECT_EQ(a.device(), Device::cpu());
  EXPECT_EQ(a.shape(), Shape({kCount}));
  EXPECT_EQ(a.data<std::uint8_t>()[kCount - 1], 3);
  EXPECT_EQ(b.data<std::int32_t>()[2], 0x03030303);
  snapshot.update(state);
  snapshot.wait();
  EXPECT_EQ(snapshot.leaves()[0].value.raw(), a.raw());
  EXPECT_EQ(a.data<std::uint8_t>()[kCount - 1], 4);
  fill(state, 5);
  snapshot.write_back(state);
  EXPECT_EQ(last(state, "params/a"), 4);
}

TEST_P(SnapshotTest, OrdersTheStreamsOfSeveralStates) {
  const State one = make_state(), other = make_state();
  fill(one, 1);
  fill(other, 2);
  Snapshot snapshot(one);
  fill(one, 3);
  snapshot.write_back(other);  // waits for the copy on the stream of `one`
  snapshot.update(one);        // waits for the read on the stream of `other`
  snapshot.write_back(one);
  EXPECT_EQ(last(other, "params/a"), 1);
  EXPECT_EQ(last(one, "params/a"), 3);
  snapshot.update(other);
  snapshot.write_back(one);
  EXPECT_EQ(last(one, "params/a"), 1);
}

TEST_P(SnapshotTest, MayBeDestroyedBeforeItsCopiesAreDone) {
  const State state = filled(1);
  {
    const Snapshot snapshot(state);
    fill(state, 2);
    snapshot.write_back(state);
  }
  EXPECT_EQ(last(state, "params/a"), 1);
}

TEST_P(SnapshotTest, RejectsAnotherStructure) {
  const State state = make_state(), longer = make_state(kCount + 1);
  Snapshot snapshot(state);
  expect_error(ErrorCode::shape_mismatch, {"params/a", "65537", "65536"}, [&] { snapshot.update(longer); });
  expect_error(ErrorCode::shape_mismatch, {"write_back", "params/a"}, [&] { snapshot.write_back(longer); });
  State more = make_state();
  more.add("more", {{"leaf", DType::f32, {1}}});
  expect_error(ErrorCode::not_found, {"more/leaf", "no more leaves"}, [&] { snapshot.write_back(more); });
  State apart(device());
  apart.add("params/a", {{"", DType::u8, {kCount}}});
  apart.add("params", {{"b", DType::i32, {3}}});
  apart.add("step", {{"", DType::i64, {}}});
  expect_error(ErrorCode::not_found, {"collection 0", "'params/a'", "'params'"}, [&] { snapshot.write_back(apart); });
}

TEST_P(SnapshotTest, MovedFromSnapshotReportsIt) {
  State state = make_state();
  fill(state, 1);
  Snapshot snapshot(state);
  Snapshot moved = std::move(snapshot);
  fill(state, 2);
  moved.write_back(state);
  EXPECT_EQ(last(state, "params/a"), 1);
  const auto invalid = ErrorCode::invalid_argument;
  expect_error(invalid, {"snapshot was moved from"}, [&] { snapshot.write_back(state); });
  expect_error(invalid, {"snapshot was moved from"}, [&] { snapshot.update(state); });
  expect_error(invalid, {"snapshot was moved from"}, [&] { (void)snapshot.ready(); });
  expect_error(invalid, {"snapshot was moved from"}, [&] { snapshot.wait(); });
  expect_error(invalid, {"snapshot was moved from"}, [&] { (void)snapshot.leaves(); });
  const State elsewhere = std::move(state);
  expect_error(invalid, {"state was moved from"}, [&] { Snapshot none(state); });
  expect_error(invalid, {"state was moved from"}, [&] { moved.update(state); });
  expect_error(invalid, {"state was moved from"}, [&] { moved.write_back(state); });
}

TEST_P(SnapshotTest, CannotBeRecorded) {
  const State state = make_state();
  Snapshot snapshot(state);
  const auto expect_rejected = [&](const std::function<void()>& call) {
    expect_error(ErrorCode::invalid_argument, {"is recording"}, [&] { Graph::record(state.stream(), call); });
  };
  expect_rejected([&] { Snapshot another(state); });
  expect_rejected([&] { snapshot.update(state); });
  expect_rejected([&] { snapshot.write_back(state); });
}

INSTANTIATE_TEST_SUITE_P(Devices, SnapshotTest, test::kEachDevice, test::name_of_device);

}  // namespace
}  // namespace giro
