#include <giro/runtime/leaf_files.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <giro/runtime/graph.h>

#include "tests/expect_error.h"
#include "tests/faulty_file_system.h"
#include "tests/runtime/device_test.h"
#include "tests/temporary_directory.h"

namespace giro {
namespace {

using test::expect_error;

class LeafFilesTest : public test::DeviceTest {
 protected:
  std::string path() const { return dir_ / "weights.safetensors"; }

  // On a GPU, the write of its step may still be queued when this returns.
  static State state_with(float weight) {
    State state{device()};
    state.add("params", {{"dense/kernel", DType::f32, {2, 3}}, {"dense/bias", DType::f32, {3}}});
    state.add("step", {{"", DType::i64, {}}});
    state.add("grads", {{"dense/kernel", DType::f32, {2, 3}}}, {.saved = false});
    from_host<float>(state.at("params/dense/kernel"), std::vector<float>(6, weight), state.stream());
    state.stream().fill(state.at("step").raw(), 1, sizeof(std::int64_t));
    return state;
  }

  test::TemporaryDirectory dir_;
};
INSTANTIATE_TEST_SUITE_P(Each, LeafFilesTest, test::kEachDevice, test::name_of_device);

std::vector<std::string> paths(const std::vector<Leaf>& leaves) {
  std::vector<std::string> result;
  for (const Leaf& leaf : leaves) result.push_back(leaf.path);
  return result;
}

TEST_P(LeafFilesTest, AStateIsSavedAfterWhatIsQueued) {
  const State state = state_with(1.5f);
  save(path(), state);
  const Safetensors file = load(path());
  EXPECT_EQ(paths(file.tensors), (std::vector<std::string>{"step", "params/dense/bias", "params/dense/kernel"}));
  EXPECT_EQ(file.tensors[0].value.data<std::int64_t>()[0], 0x0101010101010101);
  const Tensor& kernel = file.tensors[2].value;
  EXPECT_EQ(kernel.shape(), Shape({2, 3}));
  EXPECT_TRUE(kernel.device().is_cpu());
  EXPECT_EQ(std::vector<float>(kernel.data<float>(), kernel.data<float>() + 6), std::vector<float>(6, 1.5f));
}

TEST_P(LeafFilesTest, LeavesOfSeveralStatesAndDevices) {
  const State state = state_with(2), other = state_with(3);
  state.stream().synchronize();
  other.stream().synchronize();
  float host = 4;
  save(path(), {{"a", state.at("params/dense/kernel")},
                {"b", other.at("params/dense/kernel")},
                {"c", Tensor(&host, DType::f32, {}, Device::cpu())}});
  const Safetensors file = load(path());
  ASSERT_EQ(paths(file.tensors), (std::vector<std::string>{"a", "b", "c"}));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(file.tensors[i].value.data<float>()[0], 2.f + static_cast<float>(i));
}

TEST_P(LeafFilesTest, ASaveThatFailsLeavesTheFileAsItWas) {
  save(path(), state_with(1));
  const std::string before = test::read_text(path());
  const State next = state_with(2);
  test::FaultyFileSystem healthy;
  save(dir_ / "other", next, healthy);
  ASSERT_GT(healthy.calls.size(), 5u);
  for (std::size_t call = 1; call <= healthy.calls.size(); ++call) {
    SCOPED_TRACE(healthy.calls[call - 1]);
    test::FaultyFileSystem faulty(call);
    expect_error(ErrorCode::io, {"injected"}, [&] { save(path(), next, faulty); });
    const bool renamed = call == healthy.calls.size();  // the failing call is the sync of the directory
    EXPECT_EQ(test::read_text(path()) == before, !renamed);
    EXPECT_EQ(posix_file_system()->list(dir_.path()).size(), 2u) << "a temporary is left";
  }
  expect_error(ErrorCode::invalid_argument, {"\"a\"", "taken"}, [&] {
    save(path(), {{"a", next.at("step")}, {"a", next.at("step")}});
  });
}

TEST_P(LeafFilesTest, RefusesToSaveWhatIsBeingRecorded) {
  const State state = state_with(1);
  const auto refuses = [&](auto&& f) {
    expect_error(ErrorCode::invalid_argument, {"save: called in a step that is being recorded"},
                 [&] { Graph::record(state.stream(), f); });
  };
  refuses([&] { save(path(), state); });
  refuses([&] { save(path(), {{"a", state.at("step")}}); });
  EXPECT_TRUE(posix_file_system()->list(dir_.path()).empty());
}

TEST(LeafFilesErrorTest, LoadNamesTheFile) {
  const test::TemporaryDirectory dir;
  expect_error(ErrorCode::not_found, {dir / "none"}, [&] { load(dir / "none"); });
  test::write_text(dir / "bad", "not a file of tensors");
  expect_error(ErrorCode::corrupt_data, {dir / "bad"}, [&] { load(dir / "bad"); });
  save(dir / "empty", std::vector<Leaf>{});
  EXPECT_TRUE(load(dir / "empty").tensors.empty());
  test::FaultyFileSystem faulty(1);
  expect_error(ErrorCode::io, {"injected"}, [&] { load(dir / "empty", faulty); });
}

}  // namespace
}  // namespace giro
