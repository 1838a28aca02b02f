#include <giro/runtime/files/save_load.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <giro/runtime/files/load_into.h>
#include <giro/runtime/program/graph.h>

#include "tests/runtime/device_test.h"
#include "tests/support/expect_error.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/temporary_directory.h"

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

TEST_P(LeafFilesTest, StateIsSavedAfterQueuedWork) {
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

template <class T>
std::vector<std::uint16_t> bits_of(const Tensor& tensor) {
  std::vector<std::uint16_t> bits;
  for (std::int64_t i = 0; i < tensor.count(); ++i) bits.push_back(tensor.data<T>()[i].bits);
  return bits;
}

// A value halfway between two values of the dtype rounds to the even one. The expected bits are those of torch's
// Tensor.to.
TEST_P(LeafFilesTest, FloatingLeavesOfAnotherPrecision) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
  State state{device()};
  state.add("params", {{"a", DType::f32, {10}}, {"wide", DType::f64, {2}}, {"none", DType::f32, {0}}});
  state.add("step", {{"", DType::i64, {}}});
  from_host<float>(state.at("params/a"),
                   {0.f, -0.f, 0x1.01p0f, 0x1.03p0f, 0x1.0101p0f, 0x1.002p0f, 65504.f, kNaN, -kInfinity, 0x1p-24f},
                   state.stream());
  from_host<double>(state.at("params/wide"), {1, -0x1.8p3}, state.stream());
  from_host<std::int64_t>(state.at("step"), {7}, state.stream());
  state.stream().synchronize();
  for (const bool whole : {true, false}) {
    const auto save_as = [&](DType dtype) {
      const SaveOptions options{.dtype = dtype, .metadata = {{"format", "pt"}}};
      if (whole) {
        save(path(), state, options);
      } else {
        save(path(), state.flatten(), options);
      }
    };
    save_as(DType::bf16);
    Safetensors file = load(path());
    EXPECT_EQ(file.metadata.at("format"), "pt");
    ASSERT_EQ(paths(file.tensors), (std::vector<std::string>{"step", "params/a", "params/none", "params/wide"}));
    EXPECT_EQ(file.tensors[0].value.data<std::int64_t>()[0], 7);
    EXPECT_EQ(bits_of<BFloat16>(file.tensors[1].value),
              (std::vector<std::uint16_t>{0, 0x8000, 0x3F80, 0x3F82, 0x3F81, 0x3F80, 0x4780, 0x7FC0, 0xFF80, 0x3380}));
    EXPECT_EQ(bits_of<BFloat16>(file.tensors[3].value), (std::vector<std::uint16_t>{0x3F80, 0xC140}));
    EXPECT_EQ(file.tensors[2].value.shape(), Shape({0}));

    save_as(DType::f16);
    file = load(path());
    EXPECT_EQ(bits_of<Float16>(file.tensors[1].value),
              (std::vector<std::uint16_t>{0, 0x8000, 0x3C04, 0x3C0C, 0x3C04, 0x3C00, 0x7BFF, 0x7E00, 0xFC00, 1}));

    State back{device()};
    back.add("params", {{"a", DType::f32, {10}}, {"wide", DType::f64, {2}}, {"none", DType::f32, {0}}});
    back.add("step", {{"", DType::i64, {}}});
    expect_error(ErrorCode::dtype_mismatch, {"params/a is f16(10,), expected f32(10,)", "LoadOptions::convert"},
                 [&] { load_into(back, file.tensors); });
    load_into(back, file.tensors, {.convert = true});
    const std::vector<float> values = to_host<float>(back.at("params/a"), back.stream());
    EXPECT_EQ(values[2], 0x1.01p0f);
    EXPECT_EQ(values[6], 65504.f);
    EXPECT_TRUE(std::isnan(values[7]));
    EXPECT_EQ(values[8], -kInfinity);
    EXPECT_EQ(values[9], 0x1p-24f);
    EXPECT_EQ(to_host<double>(back.at("params/wide"), back.stream()), (std::vector<double>{1, -12}));
  }
}

// More values than are converted at a time.
TEST(LeafFilesPrecisionTest, LongLeafIsConvertedInParts) {
  std::vector<float> values(150'001);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
  const auto count = static_cast<std::int64_t>(values.size());
  const Tensor tensor(values.data(), DType::f32, {count}, Device::cpu());
  const test::TemporaryDirectory dir;
  save(dir / "a", {{"w", tensor}, {"x", tensor}}, {.dtype = DType::f16});
  const Safetensors file = load(dir / "a");
  for (const Leaf& leaf : file.tensors) {
    const auto* const stored = leaf.value.data<Float16>();
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(stored[i].bits, Float16(values[i]).bits) << i;
  }
}

TEST(LeafFilesPrecisionTest, RejectsValuesOutOfRangeOfTheDType) {
  const test::TemporaryDirectory dir;
  float large = 65520;  // f16 would round it to infinity
  const std::vector<Leaf> leaves{{"w", Tensor(&large, DType::f32, {}, Device::cpu())}};
  expect_error(ErrorCode::invalid_argument, {"tensor \"w\" holds 65520, which f16 cannot hold"},
               [&] { save(dir / "a", leaves, {.dtype = DType::f16}); });
  save(dir / "b", leaves, {.dtype = DType::bf16});
  large = std::numeric_limits<float>::max();
  expect_error(ErrorCode::invalid_argument, {"which bf16 cannot hold"},
               [&] { save(dir / "b", leaves, {.dtype = DType::bf16}); });
  expect_error(ErrorCode::invalid_argument, {"the dtype to store is i32", "floating"},
               [&] { save(dir / "a", leaves, {.dtype = DType::i32}); });
  EXPECT_EQ(posix_file_system()->list(dir.path()), std::vector<std::string>{"b"});
}

TEST_P(LeafFilesTest, FailedSaveKeepsTheFile) {
  save(path(), state_with(1));
  const std::string before = test::read_text(path());
  const State next = state_with(2);
  test::FaultyFileSystem healthy;
  save(dir_ / "other", next, {}, healthy);
  ASSERT_GT(healthy.calls.size(), 5u);
  for (std::size_t call = 1; call <= healthy.calls.size(); ++call) {
    SCOPED_TRACE(healthy.calls[call - 1]);
    test::FaultyFileSystem faulty(call);
    expect_error(ErrorCode::io, {"injected"}, [&] { save(path(), next, {}, faulty); });
    const bool renamed = call == healthy.calls.size();  // the failing call is the sync of the directory
    EXPECT_EQ(test::read_text(path()) == before, !renamed);
    EXPECT_EQ(posix_file_system()->list(dir_.path()).size(), 2u) << "a temporary is left";
  }
  expect_error(ErrorCode::invalid_argument, {"\"a\"", "taken"}, [&] {
    save(path(), {{"a", next.at("step")}, {"a", next.at("step")}});
  });
}

TEST_P(LeafFilesTest, RejectsSavingWhileRecording) {
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
