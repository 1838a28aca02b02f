#include <giro/runtime/tensor.h>

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include <giro/runtime/buffer.h>
#include <giro/runtime/stream.h>

#include "tests/support/expect_error.h"

namespace giro {
namespace {

using test::expect_error;

class TensorTest : public testing::Test {
 protected:
  template <class T>
  Tensor make(const Shape& shape) {
    buffers_.push_back(Buffer::allocate(Device::cpu(), static_cast<std::size_t>(shape.count()) * sizeof(T)));
    return Tensor(buffers_.back().data(), dtype_of<T>, shape, Device::cpu());
  }

  const Stream stream_{Device::cpu()};
  std::vector<Buffer> buffers_;
};

TEST_F(TensorTest, DescribesItsElements) {
  const Tensor t = make<float>({2, 3});
  EXPECT_EQ(t.count(), 6);
  EXPECT_EQ(t.bytes(), 24u);
  EXPECT_EQ(to_string(t), "f32(2, 3) on cpu");
  EXPECT_EQ(t.data<float>(), t.raw());
  expect_error(ErrorCode::dtype_mismatch, {"f32(2, 3)", "i32"}, [&] { t.data<std::int32_t>(); });
  EXPECT_FALSE(Tensor());
  EXPECT_TRUE(t);
}

TEST_F(TensorTest, CopiesToTheHostAndBack) {
  const Tensor t = make<std::int64_t>({2, 2});
  from_host<std::int64_t>(t, {1, -2, 3, -4}, stream_);
  EXPECT_EQ(to_host<std::int64_t>(t, stream_), (std::vector<std::int64_t>{1, -2, 3, -4}));
  expect_error(ErrorCode::shape_mismatch, {"24", "32"}, [&] { from_host<std::int64_t>(t, {1, 2, 3}, stream_); });
  expect_error(ErrorCode::dtype_mismatch, {"i64", "f32"}, [&] { from_host<float>(t, {1, 2, 3, 4}, stream_); });
  expect_error(ErrorCode::dtype_mismatch, {"i64", "f32"}, [&] { to_host<float>(t, stream_); });
}

TEST_F(TensorTest, ReshapeSharesTheElements) {
  const Tensor t = make<float>({2, 3});
  const Tensor flat = t.reshape({6});
  EXPECT_EQ(flat.raw(), t.raw());
  EXPECT_EQ(flat.shape(), Shape({6}));
  expect_error(ErrorCode::shape_mismatch, {"(2, 3)", "(7,)"}, [&] { t.reshape({7}); });
}

TEST_F(TensorTest, RowsAreAView) {
  const Tensor t = make<std::int32_t>({4, 2});
  from_host<std::int32_t>(t, {0, 1, 10, 11, 20, 21, 30, 31}, stream_);
  EXPECT_EQ(to_host<std::int32_t>(t.rows(1, 3), stream_), (std::vector<std::int32_t>{10, 11, 20, 21}));
  EXPECT_EQ(t.rows(4, 4).shape(), Shape({0, 2}));
  for (const auto& [begin, end] : {std::pair{-1, 2}, {2, 1}, {0, 5}}) {
    expect_error(ErrorCode::invalid_argument, {"(4, 2)"}, [&] { t.rows(begin, end); });
  }
  expect_error(ErrorCode::invalid_argument, {}, [&] { make<float>({}).rows(0, 0); });
}

TEST_F(TensorTest, CopyNeedsOneShapeAndDtype) {
  const Tensor a = make<float>({3}), b = make<float>({3});
  from_host<float>(a, {1, 2, 3}, stream_);
  copy(b, a, stream_);
  EXPECT_EQ(to_host<float>(b, stream_), (std::vector<float>{1, 2, 3}));
  expect_error(ErrorCode::shape_mismatch, {"(3,)", "(3, 1)"}, [&] { copy(make<float>({3, 1}), a, stream_); });
  expect_error(ErrorCode::dtype_mismatch, {"i32", "f32"}, [&] { copy(make<std::int32_t>({3}), a, stream_); });
}

TEST_F(TensorTest, CpuStreamCopiesOnlyHostTensors) {
  const Tensor here = make<float>({3});
  const Tensor there(here.raw(), DType::f32, {3}, Device::cuda(1));
  const auto refuses = [](const std::function<void()>& call) {
    expect_error(ErrorCode::device_mismatch, {"f32(3,) on cuda:1", "cpu"}, call);
  };
  refuses([&] { copy(there, here, stream_); });
  refuses([&] { copy(here, there, stream_); });
  refuses([&] { to_host<float>(there, stream_); });
  refuses([&] { from_host<float>(there, {1, 2, 3}, stream_); });
}

TEST_F(TensorTest, EmptyTensorsCopyNothing) {
  const Tensor a = make<float>({0, 3}), b = make<float>({0, 3});
  copy(b, a, stream_);
  EXPECT_TRUE(to_host<float>(b, stream_).empty());
}

}  // namespace
}  // namespace giro
