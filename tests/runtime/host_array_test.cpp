#include <giro/runtime/host_array.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <giro/runtime/buffer.h>
#include <giro/runtime/program/graph.h>
#include <giro/runtime/stream.h>

#include "tests/kernels/op_test.h"

namespace giro {
namespace {

using test::expect_error;

template <class T = float>
std::vector<T> values_of(const HostArray& array) {
  const Tensor tensor = array.tensor();
  return {tensor.data<T>(), tensor.data<T>() + tensor.count()};
}

TEST(HostArray, KeepsItsMemory) {
  std::weak_ptr<const void> memory;
  {
    std::vector<HostArray> copies;
    {
      const auto numbers = std::make_shared<std::vector<float>>(std::vector{1.f, 2.f});
      memory = numbers;
      const HostArray array(Tensor(numbers->data(), DType::f32, {2}, Device::cpu()), numbers);
      copies.assign(2, array);
    }
    copies.pop_back();
    EXPECT_FALSE(memory.expired());
    EXPECT_EQ(values_of(copies.front()), (std::vector<float>{1, 2}));
  }
  EXPECT_TRUE(memory.expired());
}

TEST(HostArray, OwnsTheValuesOfAVector) {
  const auto make = [] {
    std::vector<float> values{1, 2, 3, 4, 5, 6};
    HostArray array(values, {3, 2});
    values.assign(6, -1);  // the array has its own copy
    return array;
  };
  const HostArray array = make();
  EXPECT_EQ(array.shape(), (Shape{3, 2}));
  EXPECT_EQ(array.dtype(), DType::f32);
  EXPECT_TRUE(array.ready());
  EXPECT_EQ(values_of<float>(array), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  const HostArray flat = std::vector<std::int64_t>{7, 8};
  EXPECT_EQ(flat.shape(), Shape{2});
  EXPECT_EQ(values_of<std::int64_t>(flat), (std::vector<std::int64_t>{7, 8}));
}

TEST(HostArray, TakesAVectorWithoutACopy) {
  std::vector<double> values(100, 0.5);
  const double* const data = values.data();
  EXPECT_EQ(HostArray(std::move(values), {10, 10}).tensor().data<double>(), data);
}

TEST(HostArray, HoldsBooleans) {
  const HostArray array(std::vector<bool>{true, false, true});
  EXPECT_EQ(array.dtype(), DType::boolean);
  const bool* const data = array.tensor().data<bool>();
  EXPECT_TRUE(data[0] && !data[1] && data[2]);
}

TEST(HostArray, RejectsShapeOfAnotherCount) {
  expect_error(ErrorCode::shape_mismatch, {"HostArray", "5 values", "expected 6", "(3, 2)"}, [] {
    HostArray(std::vector<float>(5), {3, 2});
  });
}

TEST(HostArray, LiesOnTheHost) {
  float memory[2];
  const Tensor elsewhere(memory, DType::f32, {2}, Device::cuda(0));
  expect_error(ErrorCode::device_mismatch, {"HostArray", "f32(2,) on cuda:0", "host"},
               [&] { HostArray(elsewhere, nullptr); });
}

class HostArrayTest : public test::OpTest {};

TEST_P(HostArrayTest, CopiesResultsOfQueuedWork) {
  const Tensor source = tensor({2, 3});
  const std::vector<float> before{1, 2, 3, 4, 5, 6};
  from_host(source, before, stream());
  const HostArray array = HostArray::copy_of(source, stream());
  stream().fill(source.raw(), 0, source.bytes());  // queued behind the copy
  EXPECT_EQ(values_of(array), before);
  EXPECT_TRUE(array.ready());
  EXPECT_EQ(array.shape(), (Shape{2, 3}));
  EXPECT_EQ(array.dtype(), DType::f32);
  EXPECT_TRUE(array.tensor().device().is_cpu());
}

TEST_P(HostArrayTest, OneEventForSeveralArrays) {
  const Tensor source = tensor({4});
  from_host(source, std::vector<float>{1, 2, 3, 4}, stream());
  const auto memory = std::make_shared<const Buffer>(Buffer::allocate(device(), 16, MemoryKind::pinned));
  const Tensor host(memory->data(), DType::f32, {4}, Device::cpu());
  copy(host, source, stream());
  const auto arrived = std::make_shared<Event>(stream());
  arrived->record(stream());
  const HostArray first(host.rows(0, 2), memory, arrived), second(host.rows(2, 4), memory, arrived);
  EXPECT_EQ(values_of(first), (std::vector<float>{1, 2}));
  EXPECT_EQ(values_of(second), (std::vector<float>{3, 4}));
}

TEST_P(HostArrayTest, CannotBeMadeWhileRecording) {
  const Tensor source = tensor({2});
  test::expect_error(ErrorCode::invalid_argument, {"f32(2,)", "recorded"},
                     [&] { Graph::record(stream(), [&] { HostArray::copy_of(source, stream()); }); });
}

INSTANTIATE_TEST_SUITE_P(Devices, HostArrayTest, test::kDevices, test::device_name);

}  // namespace
}  // namespace giro
