#include <giro/runtime/host_array.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "tests/expect_error.h"

namespace giro {
namespace {

using test::expect_error;

template <class T>
std::vector<T> values_of(const HostArray& array) {
  const Tensor tensor = array.tensor();
  return {tensor.data<T>(), tensor.data<T>() + tensor.count()};
}

TEST(HostArray, OwnsTheValuesOfAVector) {
  const auto make = [] {
    std::vector<float> values{1, 2, 3, 4, 5, 6};
    HostArray array(values, {3, 2});
    values.assign(6, -1);  // the array has its own
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

TEST(HostArray, TakesAVectorOverWithoutACopy) {
  std::vector<double> values(100, 0.5);
  const double* const data = values.data();
  EXPECT_EQ(HostArray(std::move(values), {10, 10}).tensor().data<double>(), data);
}

TEST(HostArray, HoldsBits) {
  const HostArray array(std::vector<bool>{true, false, true});
  EXPECT_EQ(array.dtype(), DType::boolean);
  const bool* const data = array.tensor().data<bool>();
  EXPECT_TRUE(data[0] && !data[1] && data[2]);
}

TEST(HostArray, RefusesAShapeOfAnotherCount) {
  expect_error(ErrorCode::shape_mismatch, {"HostArray", "5 values", "expected 6", "(3, 2)"}, [] {
    HostArray(std::vector<float>(5), {3, 2});
  });
}

TEST(HostArray, LiesOnTheHost) {
  const Tensor elsewhere(nullptr, DType::f32, {2}, Device::cuda(0));
  expect_error(ErrorCode::device_mismatch, {"HostArray", "f32(2,) on cuda:0", "host"},
               [&] { HostArray(elsewhere, nullptr); });
}

}  // namespace
}  // namespace giro
