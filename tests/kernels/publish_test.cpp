#include <giro/kernels/publish.h>

#include <bit>
#include <cmath>
#include <iterator>
#include <limits>

#include <giro/kernels/elementwise.h>

#include "tests/kernels/op_test.h"

namespace giro {
namespace {

class PublishTest : public test::OpTest {
 protected:
  static constexpr double kPoison = -12345.5;

  // An empty ring between guards.
  RowRing ring(std::int64_t capacity, std::int64_t columns) {
    values_ = Buffer::allocate(device(), static_cast<std::size_t>(capacity * columns + 2 * kGuard) * sizeof(double),
                               MemoryKind::pinned);
    published_ = Buffer::allocate(device(), sizeof(std::int64_t), MemoryKind::pinned);
    std::fill_n(static_cast<double*>(values_.data()), capacity * columns + 2 * kGuard, kPoison);
    RowRing ring{.values = static_cast<double*>(values_.data()) + kGuard,
                 .published = static_cast<std::int64_t*>(published_.data()),
                 .capacity = capacity};
    *ring.published = 0;
    return ring;
  }

  void expect_guards_whole(const RowRing& ring, std::int64_t columns) {
    for (std::int64_t i = 0; i < kGuard; ++i) {
      EXPECT_EQ(ring.values[-1 - i], kPoison);
      EXPECT_EQ(ring.values[ring.capacity * columns + i], kPoison);
    }
  }

 private:
  static constexpr std::int64_t kGuard = 8;
  Buffer values_, published_;
};
INSTANTIATE_TEST_SUITE_P(Devices, PublishTest, test::kDevices, test::device_name);

TEST_P(PublishTest, MixedDTypesWrapAroundTheRing) {
  constexpr std::int64_t kColumns = 5, kCapacity = 4, kRows = 11;
  const RowRing out = ring(kCapacity, kColumns);
  const Tensor row = tensor({}, DType::i64), f = tensor({}), d = tensor({}, DType::f64), i = tensor({}, DType::i32),
               l = tensor({}, DType::i64);
  from_host<std::int64_t>(row, {0}, stream());
  double wanted[kCapacity][kColumns];
  std::fill_n(&wanted[0][0], kCapacity * kColumns, kPoison);
  for (std::int64_t r = 0; r < kRows; ++r) {
    const float f_value = 0.1f * static_cast<float>(r) - 0.5f;
    const double d_value = 1 / (3.0 + static_cast<double>(r));
    const auto i_value = static_cast<std::int32_t>(-7 * r);
    const std::int64_t l_value = (std::int64_t{1} << 53) - r;
    from_host<float>(f, {f_value}, stream());
    from_host<double>(d, {d_value}, stream());
    from_host<std::int32_t>(i, {i_value}, stream());
    from_host<std::int64_t>(l, {l_value}, stream());
    publish_row(out, row, {f, d, i, l, f}, stream());
    stream().synchronize();

    const double values[] = {f_value, d_value, static_cast<double>(i_value), static_cast<double>(l_value), f_value};
    std::copy_n(values, kColumns, wanted[r % kCapacity]);
    EXPECT_EQ(*out.published, r + 1);
    EXPECT_EQ(to_host<std::int64_t>(row, stream())[0], r + 1);
    for (std::int64_t k = 0; k < kCapacity * kColumns; ++k) {
      EXPECT_EQ(out.values[k], wanted[k / kColumns][k % kColumns]) << "row " << r << ", value " << k;
    }
  }
  expect_guards_whole(out, kColumns);
}

TEST_P(PublishTest, ScalarsOfEveryDType) {
  constexpr DType kDTypes[] = {DType::f32, DType::bf16, DType::f16, DType::f64,
                               DType::i32, DType::i64,  DType::u8,  DType::boolean};
  constexpr auto kCount = static_cast<std::int64_t>(std::size(kDTypes));
  const RowRing out = ring(1, kCount);
  const Tensor row = tensor({}, DType::i64), one = tensor({});
  from_host<std::int64_t>(row, {0}, stream());
  from_host<float>(one, {1}, stream());
  std::vector<Tensor> scalars;
  for (const DType dtype : kDTypes) {
    scalars.push_back(tensor({}, dtype));
    cast(scalars.back(), one, stream());
  }
  publish_row(out, row, scalars, stream());
  stream().synchronize();
  for (std::int64_t i = 0; i < kCount; ++i) EXPECT_EQ(out.values[i], 1.0) << name_of(kDTypes[i]);
}

TEST_P(PublishTest, NaNsAreOneAndTheSame) {
  const RowRing out = ring(1, 3);
  const Tensor row = tensor({}, DType::i64), f = tensor({}), d = tensor({}, DType::f64), b = tensor({}, DType::bf16);
  from_host<std::int64_t>(row, {0}, stream());
  from_host<float>(f, {-std::nanf("7")}, stream());
  from_host<double>(d, {-std::nan("7")}, stream());
  cast(b, f, stream());
  publish_row(out, row, {f, d, b}, stream());
  stream().synchronize();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(std::bit_cast<std::uint64_t>(out.values[i]),
              std::bit_cast<std::uint64_t>(std::numeric_limits<double>::quiet_NaN()))
        << i;
  }
}

TEST_P(PublishTest, RecordedRowsFollowOneAnother) {
  for (const std::int64_t capacity : {1, 3, 64}) {
    const RowRing out = ring(capacity, 2);
    const Tensor row = tensor({}, DType::i64), step = tensor({}, DType::i64), loss = tensor({});
    from_host<std::int64_t>(row, {0}, stream());
    from_host<std::int64_t>(step, {100}, stream());
    from_host<float>(loss, {2.5f}, stream());
    const Graph graph = Graph::record(stream(), [&] {
      increment(step, 1, stream());
      publish_row(out, row, {step, loss}, stream());
    });
    stream().synchronize();
    EXPECT_EQ(*out.published, 0) << "recording published";
    for (int r = 0; r < 10; ++r) graph.replay(stream());
    stream().synchronize();
    EXPECT_EQ(*out.published, 10);
    EXPECT_EQ(to_host<std::int64_t>(row, stream())[0], 10);
    for (std::int64_t r = std::max<std::int64_t>(0, 10 - capacity); r < 10; ++r) {
      EXPECT_EQ(out.values[(r % capacity) * 2], static_cast<double>(101 + r));
      EXPECT_EQ(out.values[(r % capacity) * 2 + 1], 2.5);
    }
    expect_guards_whole(out, 2);
  }
}

TEST_P(PublishTest, GoesOnFromAResumedRow) {
  const RowRing out = ring(4, 1);
  const Tensor row = tensor({}, DType::i64), loss = tensor({});
  from_host<std::int64_t>(row, {1'000'000'000'007}, stream());
  from_host<float>(loss, {0.25f}, stream());
  publish_row(out, row, {loss}, stream());
  stream().synchronize();
  EXPECT_EQ(*out.published, 1'000'000'000'008);
  EXPECT_EQ(out.values[3], 0.25);
}

TEST_P(PublishTest, NaNAndInfinityArrive) {
  const RowRing out = ring(2, 3);
  const Tensor row = tensor({}, DType::i64), a = tensor({}), b = tensor({}), c = tensor({}, DType::f64);
  from_host<std::int64_t>(row, {0}, stream());
  from_host<float>(a, {std::numeric_limits<float>::quiet_NaN()}, stream());
  from_host<float>(b, {std::numeric_limits<float>::infinity()}, stream());
  from_host<double>(c, {-test::kInfinity}, stream());
  publish_row(out, row, {a, b, c}, stream());
  stream().synchronize();
  EXPECT_TRUE(std::isnan(out.values[0]));
  EXPECT_EQ(out.values[1], test::kInfinity);
  EXPECT_EQ(out.values[2], -test::kInfinity);
}

// More columns than a kernel takes at once, just as many, and none.
TEST_P(PublishTest, TakesAnyNumberOfColumns) {
  for (const int columns : {0, 1, 31, 32, 33, 64, 71}) {
    const RowRing out = ring(2, columns);
    const Tensor row = tensor({}, DType::i64);
    from_host<std::int64_t>(row, {1}, stream());
    std::vector<Tensor> scalars;
    for (int c = 0; c < columns; ++c) {
      scalars.push_back(tensor({}));
      from_host<float>(scalars.back(), {static_cast<float>(c)}, stream());
    }
    publish_row(out, row, scalars, stream());
    stream().synchronize();
    EXPECT_EQ(*out.published, 2);
    EXPECT_EQ(to_host<std::int64_t>(row, stream())[0], 2);
    for (int c = 0; c < columns; ++c) {
      EXPECT_EQ(out.values[c], kPoison);
      EXPECT_EQ(out.values[columns + c], c);
    }
    expect_guards_whole(out, columns);
  }
}

TEST_P(PublishTest, RefusesWhatDoesNotFit) {
  const RowRing out = ring(4, 64);
  const Tensor row = tensor({}, DType::i64), loss = tensor({});
  expect_error(ErrorCode::invalid_argument, {"0 rows"}, [&] {
    publish_row({.values = out.values, .published = out.published, .capacity = 0}, row, {loss}, stream());
  });
  expect_error(ErrorCode::shape_mismatch, {to_string(Shape{2})}, [&] {
    publish_row(out, row, {loss, tensor({2})}, stream());
  });
  expect_error(ErrorCode::shape_mismatch, {to_string(Shape{2})},
               [&] { publish_row(out, tensor({2}, DType::i64), {loss}, stream()); });
  expect_dtype_error(DType::i64, DType::i32, [&] { publish_row(out, tensor({}, DType::i32), {loss}, stream()); });
  expect_device_error([&] { publish_row(out, row, {loss, elsewhere(loss)}, stream()); });
  expect_device_error([&] { publish_row(out, elsewhere(row), {loss}, stream()); });
}

}  // namespace
}  // namespace giro
