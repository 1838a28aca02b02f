#include <giro/runtime/state.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tests/support/expect_error.h"

namespace giro {
namespace {

using test::expect_error;

std::vector<std::string> paths_of(const std::vector<Leaf>& leaves) {
  std::vector<std::string> result;
  for (const Leaf& leaf : leaves) result.push_back(leaf.path);
  return result;
}

class StateTest : public testing::Test {
 protected:
  StateTest() {
    state_.add("params", {{"dense0/kernel", DType::f32, {3, 5}},
                          {"dense0/bias", DType::f32, {5}},
                          {"dense1/kernel", DType::f32, {5, 2}}});
    state_.add("step", {{"", DType::i64, {}}});
    state_.add("mixed", {{"a", DType::f32, {1}}, {"b", DType::u8, {3}}}, {.saved = false});
  }

  std::vector<float> read(const State& state, const std::string& path) const {
    return to_host<float>(state.at(path), state.stream());
  }

  State state_{Device::cpu()};
};

TEST_F(StateTest, LeavesStartAsZeros) {
  for (const Leaf& leaf : state_.flatten()) {
    const Tensor bytes(leaf.value.raw(), DType::u8, {static_cast<std::int64_t>(leaf.value.bytes())}, Device::cpu());
    const auto values = to_host<std::uint8_t>(bytes, state_.stream());
    EXPECT_TRUE(std::all_of(values.begin(), values.end(), [](auto v) { return v == 0; })) << leaf.path;
  }
}

TEST_F(StateTest, CollectionIsOneBufferOfAlignedLeaves) {
  const Collection& params = state_.collection("params");
  const Tensor bytes = params.bytes();
  const char* const begin = static_cast<const char*>(bytes.raw());
  const char* end = begin;
  for (const Leaf& leaf : params.leaves()) {
    const char* const data = static_cast<const char*>(leaf.value.raw());
    EXPECT_EQ((data - begin) % static_cast<std::ptrdiff_t>(Collection::kLeafAlignment), 0);
    EXPECT_GE(data, end);
    end = data + leaf.value.bytes();
  }
  EXPECT_LE(end, begin + bytes.bytes());
  EXPECT_EQ(params.flat().raw(), bytes.raw());
  EXPECT_EQ(params.flat().dtype(), DType::f32);
  EXPECT_EQ(params.flat().bytes(), bytes.bytes());
}

TEST_F(StateTest, GapsBetweenLeavesHoldZeros) {
  const Collection& params = state_.collection("params");
  float* const flat = params.flat().data<float>();
  for (const Leaf& leaf : params.leaves()) {
    std::fill_n(leaf.value.data<float>(), leaf.value.count(), 1.f);
  }
  const std::ptrdiff_t ones = 15 + 5 + 10;
  EXPECT_EQ(std::count(flat, flat + params.flat().count(), 1.f), ones);
  EXPECT_EQ(std::count(flat, flat + params.flat().count(), 0.f), params.flat().count() - ones);
}

TEST_F(StateTest, FlatNeedsOneDtype) {
  expect_error(ErrorCode::dtype_mismatch, {"mixed/a", "f32", "mixed/b", "u8"},
               [&] { state_.collection("mixed").flat(); });
  EXPECT_EQ(state_.collection("mixed").bytes().bytes(), 2 * Collection::kLeafAlignment);
}

TEST_F(StateTest, FlattensInOrderOfInsertion) {
  EXPECT_EQ(paths_of(state_.flatten()),
            (std::vector<std::string>{"params/dense0/kernel", "params/dense0/bias", "params/dense1/kernel", "step",
                                      "mixed/a", "mixed/b"}));
  EXPECT_EQ(paths_of(state_.flatten("params/dense0")),
            (std::vector<std::string>{"params/dense0/kernel", "params/dense0/bias"}));
  EXPECT_EQ(paths_of(state_.flatten("step")), std::vector<std::string>{"step"});
  EXPECT_TRUE(state_.flatten("params/dense").empty()) << "a prefix ends where a level ends";
}

TEST_F(StateTest, PathsLeadToLeaves) {
  EXPECT_EQ(state_.at("params/dense1/kernel").shape(), Shape({5, 2}));
  EXPECT_EQ(state_.at("step").dtype(), DType::i64);
  EXPECT_EQ(state_.at("step").shape(), Shape({}));
  EXPECT_TRUE(state_.contains("mixed/b"));
  EXPECT_FALSE(state_.contains("mixed"));
  EXPECT_FALSE(state_.collection("mixed").saved());
  EXPECT_TRUE(state_.collection("params").saved());
}

TEST_F(StateTest, MissingPathNamesTheNearest) {
  expect_error(ErrorCode::not_found, {"params/dense0/kernl", "did you mean 'params/dense0/kernel'"},
               [&] { state_.at("params/dense0/kernl"); });
  expect_error(ErrorCode::not_found, {"param", "did you mean 'params'"}, [&] { state_.collection("param"); });
  expect_error(ErrorCode::not_found, {"x"}, [] { State(Device::cpu()).at("x"); });
}

TEST_F(StateTest, NamesAreUnique) {
  expect_error(ErrorCode::invalid_argument, {"params"}, [&] { state_.add("params", {}); });
  expect_error(ErrorCode::invalid_argument, {"''"}, [&] { state_.add("", {}); });
  expect_error(ErrorCode::invalid_argument, {"grads/a"}, [&] {
    state_.add("grads", {{"a", DType::f32, {}}, {"a", DType::f32, {}}});
  });
  expect_error(ErrorCode::invalid_argument, {"params/dense0/bias"}, [&] {
    state_.add("params/dense0", {{"bias", DType::f32, {}}});
  });
  EXPECT_EQ(state_.collections().size(), 3u) << "a refused collection leaves nothing behind";
}

TEST_F(StateTest, CloneIsEqualAndIndependent) {
  from_host<float>(state_.at("params/dense0/bias"), {1, 2, 3, 4, 5}, state_.stream());
  const State copy = state_.clone();
  from_host<float>(state_.at("params/dense0/bias"), {0, 0, 0, 0, 0}, state_.stream());
  EXPECT_EQ(read(copy, "params/dense0/bias"), (std::vector<float>{1, 2, 3, 4, 5}));
  EXPECT_EQ(paths_of(copy.flatten()), paths_of(state_.flatten()));
  EXPECT_FALSE(copy.collection("mixed").saved());
  EXPECT_NE(copy.identity(), state_.identity());
}

TEST_F(StateTest, MapWritesEveryLeafOfANewState) {
  std::vector<std::string> seen;
  const State filled = state_.map([&](const std::string& path, const Tensor& out, const Tensor& in, const Stream& s) {
    seen.push_back(path);
    EXPECT_EQ(in.raw(), state_.at(path).raw());
    EXPECT_NE(out.raw(), in.raw());
    s.fill(out.raw(), 1, out.bytes());
  });
  EXPECT_EQ(seen, paths_of(state_.flatten()));
  EXPECT_EQ(to_host<std::int64_t>(filled.at("step"), filled.stream()), std::vector<std::int64_t>{0x0101010101010101});
  EXPECT_EQ(to_host<std::int64_t>(state_.at("step"), state_.stream()), std::vector<std::int64_t>{0});
}

TEST_F(StateTest, UnflattenTakesTheValuesOfAnother) {
  from_host<float>(state_.at("params/dense0/bias"), {1, 2, 3, 4, 5}, state_.stream());
  const State other = state_.unflatten(state_.flatten());
  EXPECT_EQ(read(other, "params/dense0/bias"), (std::vector<float>{1, 2, 3, 4, 5}));
}

TEST(StateCudaTest, UnflattenWaitsForTheStatesStream) {
  const Discovery discovery = discover_devices();
  if (discovery.best().is_cpu()) GTEST_SKIP() << "no CUDA device: " << discovery.no_cuda_reason;
  State state(discovery.best());
  constexpr std::int64_t kCount = std::int64_t{1} << 22;
  const Tensor leaf = state.add("params", {{"a", DType::u8, {kCount}}}).leaves().front().value;
  for (unsigned char value = 1; value < 20; ++value) state.stream().fill(leaf.raw(), value, leaf.bytes());
  const State other = state.unflatten(state.flatten());
  EXPECT_EQ(to_host<std::uint8_t>(other.at("params/a"), other.stream()), std::vector<std::uint8_t>(kCount, 19));
}

TEST_F(StateTest, UnflattenRejectsOtherStructures) {
  std::vector<Leaf> leaves = state_.flatten();
  leaves.pop_back();
  expect_error(ErrorCode::not_found, {"mixed/b", "missing"}, [&] { state_.unflatten(leaves); });
  leaves = state_.flatten();
  leaves.push_back({"more", leaves[0].value});
  expect_error(ErrorCode::not_found, {"more", "no more leaves"}, [&] { state_.unflatten(leaves); });
  leaves = state_.flatten();
  std::swap(leaves[0], leaves[1]);
  expect_error(ErrorCode::not_found, {"params/dense0/kernel", "params/dense0/bias"}, [&] { state_.unflatten(leaves); });
  leaves = state_.flatten();
  leaves[0].value = leaves[0].value.reshape({5, 3});
  expect_error(ErrorCode::shape_mismatch, {"params/dense0/kernel", "(3, 5)", "(5, 3)"},
               [&] { state_.unflatten(leaves); });
  leaves = state_.flatten();
  leaves[3].value = Tensor(leaves[3].value.raw(), DType::f64, {}, Device::cpu());
  expect_error(ErrorCode::dtype_mismatch, {"step", "i64", "f64"}, [&] { state_.unflatten(leaves); });
}

TEST_F(StateTest, AddressesAndIdentitySurviveAMoveAndEndWithTheState) {
  const void* const address = state_.at("params/dense0/bias").raw();
  std::weak_ptr<const void> identity = state_.identity();
  {
    const State moved = std::move(state_);
    EXPECT_EQ(moved.at("params/dense0/bias").raw(), address);
    EXPECT_EQ(moved.identity(), identity.lock());
  }
  EXPECT_TRUE(identity.expired());
}

TEST_F(StateTest, MovedFromStateReportsIt) {
  EXPECT_FALSE(state_.moved_from());
  State moved = std::move(state_);
  EXPECT_TRUE(state_.moved_from());
  EXPECT_FALSE(moved.moved_from());
  EXPECT_EQ(state_.context(), moved.context());
  state_.stream().synchronize();
  const auto expect_rejected = [](const std::function<void()>& use) {
    expect_error(ErrorCode::invalid_argument, {"this state was moved from"}, use);
  };
  expect_rejected([&] { state_.identity(); });
  expect_rejected([&] { state_.at("step"); });
  expect_rejected([&] { (void)state_.contains("step"); });
  expect_rejected([&] { state_.collection("params"); });
  expect_rejected([&] { (void)state_.contains_collection("params"); });
  expect_rejected([&] { state_.collections(); });
  expect_rejected([&] { state_.flatten(); });
  expect_rejected([&] { state_.add("more", {}); });
  expect_rejected([&] { state_.unflatten(moved.flatten()); });
  expect_rejected([&] { state_.map([](const auto&, const auto&, const auto&, const auto&) {}); });
  expect_rejected([&] { state_.clone(); });
  expect_rejected([&] { state_.assign(moved); });
  expect_rejected([&] { state_.assign(state_); });
  expect_rejected([&] { moved.assign(state_); });
  state_ = std::move(moved);
  EXPECT_TRUE(state_.contains("step"));
}

TEST_F(StateTest, SelfMoveChangesNothing) {
  State& same = state_;
  state_ = std::move(same);
  EXPECT_FALSE(state_.moved_from());
  EXPECT_EQ(state_.flatten().size(), 6u);
}

TEST_F(StateTest, AttachedStateIsPartOfTheTree) {
  State part(state_.context());
  part.add("params", {{"kernel", DType::f32, {2}}});
  part.add("grads", {{"kernel", DType::f32, {2}}}, {.saved = false});
  state_.attach("part", part);
  EXPECT_EQ(paths_of(state_.flatten("part")), (std::vector<std::string>{"part/params/kernel", "part/grads/kernel"}));
  EXPECT_EQ(state_.at("part/params/kernel").raw(), part.at("params/kernel").raw());
  EXPECT_FALSE(state_.collection("part/grads").saved());
  from_host<float>(part.at("params/kernel"), {1, 2}, part.stream());
  State copy = state_.clone();
  EXPECT_EQ(read(copy, "part/params/kernel"), (std::vector<float>{1, 2}));
  State moved = std::move(state_), moved_part = std::move(part);
  EXPECT_EQ(moved.at("part/params/kernel").raw(), moved_part.at("params/kernel").raw());
  // A copy has its own memory for the whole tree, until the part itself is attached to it.
  copy.attach("part", moved_part);
  EXPECT_EQ(copy.at("part/params/kernel").raw(), moved_part.at("params/kernel").raw());
  EXPECT_EQ(copy.flatten().size(), moved.flatten().size());
  moved_part = State(copy.context());
  for (State* state : {&copy, &moved}) {
    expect_error(ErrorCode::invalid_argument, {"'part'", "was destroyed or replaced", "attach()"},
                 [&] { state->flatten(); });
    state->attach("part", moved_part);
    EXPECT_EQ(state->flatten().size(), 6u);
  }
}

TEST_F(StateTest, AttachRejectsInvalidStates) {
  State part(state_.context()), apart(Device::cpu());
  part.add("params", {{"kernel", DType::f32, {2}}});
  for (const char* name : {"", "params", "mixed"}) {
    expect_error(ErrorCode::invalid_argument, {"attach", "a name of its own", name},
                 [&] { state_.attach(name, part); });
  }
  expect_error(ErrorCode::invalid_argument, {"attach 'self'", "a part of that one"},
               [&] { state_.attach("self", state_); });
  expect_error(ErrorCode::invalid_argument, {"attach 'apart'", "context"}, [&] { state_.attach("apart", apart); });
  EXPECT_EQ(state_.flatten().size(), 6u);
}

TEST_F(StateTest, PartIsAttachedOnceAndNotAroundItsWhole) {
  const auto make = [&] {
    State state(state_.context());
    state.add("params", {{"kernel", DType::f32, {2}}});
    return state;
  };
  State inner = make(), middle = make();
  state_.attach("middle", middle);
  middle.attach("inner", inner);  // after the whole took it in, which does not know of it
  const auto rejects = [&](State& whole, const char* name, const State& part, const std::string& why) {
    const std::size_t leaves = whole.flatten().size();
    expect_error(ErrorCode::invalid_argument, {"attach '" + std::string(name) + "'", why},
                 [&] { whole.attach(name, part); });
    EXPECT_EQ(whole.flatten().size(), leaves);
  };
  rejects(inner, "whole", state_, "a part of that one");
  rejects(middle, "whole", state_, "a part of that one");
  rejects(state_, "again", middle, "in the tree as 'middle'");
  state_.attach("middle", middle);
  rejects(state_, "inner", inner, "in the tree as 'middle/inner'");
  State other = make();
  other.attach("inner", inner);  // a tree of its own
  rejects(state_, "other", other, "in the tree as 'middle/inner'");
  const std::size_t leaves = state_.flatten().size();
  state_.attach("middle", middle);  // the same again
  EXPECT_EQ(state_.flatten().size(), leaves);
  State moved = std::move(middle);
  rejects(moved, "whole", state_, "a part of that one");
}

TEST_F(StateTest, DeclarationsStayWithTheState) {
  const auto texts = [](const State& state) {
    std::string all;
    for (const State::Declared& each : state.declared()) {
      all += each.name + "=" + each.value + (each.may_differ ? "?" : "") + " ";
    }
    return all;
  };
  EXPECT_EQ(texts(state_), "");
  state_.declare("unit", "steps");
  state_.declare("unit", "updates");
  state_.declare("order", "1");
  State part(state_.context());
  part.add("params", {{"kernel", DType::f32, {2}}});
  part.declare("kind", "a");
  state_.attach("part", part);
  state_.may_differ("part/kind");
  const std::string expected = "unit=updates order=1 part/kind=a? ";
  EXPECT_EQ(texts(state_), expected);
  State copy = state_.clone();
  EXPECT_EQ(texts(copy), expected);
  State moved = std::move(state_);
  EXPECT_EQ(texts(moved), expected);
  part.declare("kind", "b");
  for (State* state : {&copy, &moved}) {
    state->attach("part", part);
    EXPECT_EQ(texts(*state), "unit=updates order=1 part/kind=b ");
  }
  expect_error(ErrorCode::not_found, {"'oder'", "did you mean 'order'?"}, [&] { moved.may_differ("oder"); });
  expect_error(ErrorCode::invalid_argument, {"moved from"}, [&] { state_.declare("unit", "steps"); });
}

TEST_F(StateTest, StateWithinAnotherIsFound) {
  struct Both : State {
    using State::State;
    std::vector<int> between = {1};
    State part{context()};
  } both{Device::cpu()};
  both.add("params", {{"a", DType::f32, {1}}});
  both.part.add("params", {{"a", DType::f32, {1}}});
  const State other = both.clone();
  expect_error(ErrorCode::invalid_argument, {"holds another", "attach(name, it)"},
               [&] { both.expect_one_tree(&both, sizeof both); });
  both.expect_one_tree(&both, sizeof(State));
  both.attach("part", both.part);
  both.expect_one_tree(&both, sizeof both);
  Both moved = std::move(both);
  moved.expect_one_tree(&moved, sizeof moved);
  moved.part.add("late", {{"", DType::f32, {1}}});  // after the attach
  expect_error(ErrorCode::invalid_argument, {"holds another"}, [&] { moved.expect_one_tree(&moved, sizeof moved); });
}

TEST_F(StateTest, DerivedStatesShareTheContext) {
  const State cloned = state_.clone(), put_together = state_.unflatten(state_.flatten());
  const State mapped = state_.map([](const auto&, const auto&, const auto&, const auto&) {});
  for (const State* state : {&cloned, &put_together, &mapped}) {
    EXPECT_EQ(state->context(), state_.context());
    EXPECT_EQ(state->stream(), state_.stream());
  }
  const State apart(Device::cpu());
  EXPECT_NE(apart.context(), state_.context());
  EXPECT_NE(apart.stream(), state_.stream());
  EXPECT_EQ(state_.clone(apart.context()).context(), apart.context());
}

TEST_F(StateTest, AssignCopiesValuesAndKeepsAddresses) {
  State other = state_.clone(DeviceContext(Device::cpu()));
  from_host<float>(other.at("params/dense0/bias"), {1, 2, 3, 4, 5}, other.stream());
  from_host<std::uint8_t>(other.at("mixed/b"), {6, 7, 8}, other.stream());
  const void* const address = state_.at("params/dense0/bias").raw();
  const auto identity = state_.identity();
  state_.assign(other);
  EXPECT_EQ(read(state_, "params/dense0/bias"), (std::vector<float>{1, 2, 3, 4, 5}));
  EXPECT_EQ(to_host<std::uint8_t>(state_.at("mixed/b"), state_.stream()), (std::vector<std::uint8_t>{6, 7, 8}));
  EXPECT_EQ(state_.at("params/dense0/bias").raw(), address);
  EXPECT_EQ(state_.identity(), identity);
  state_.assign(state_);
  EXPECT_EQ(read(state_, "params/dense0/bias"), (std::vector<float>{1, 2, 3, 4, 5}));
}

TEST_F(StateTest, AssignRejectsOtherStructuresNamingTheFirstLeaf) {
  State other(Device::cpu());
  other.add(
      "params",
      {{"dense0/kernel", DType::f32, {3, 5}}, {"dense0/bias", DType::f64, {5}}, {"dense1/kernel", DType::f32, {2, 5}}});
  expect_error(ErrorCode::dtype_mismatch, {"assign", "params/dense0/bias", "f64", "f32"},
               [&] { state_.assign(other); });
  State fewer(Device::cpu());
  expect_error(ErrorCode::not_found, {"assign", "params/dense0/kernel", "missing"}, [&] { state_.assign(fewer); });
}

}  // namespace
}  // namespace giro
