#include <giro/kernels/publish.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <vector>

#include "tests/kernels/op_test.h"
#include "tests/support/tensor_ops.h"

namespace giro {
namespace {

class PublishTest : public test::OpTest {
 protected:
  // A ring with the next row `first`, between guards.
  ScalarRing ring(std::int64_t capacity, std::int64_t columns, std::int64_t first = 0) {
    ScalarRing ring{.capacity = capacity, .columns = columns};
    const std::int64_t words = capacity * ring.row_words() + 2 * kGuard;
    words_ = Buffer::allocate(device(), static_cast<std::size_t>(words) * sizeof(std::uint64_t), MemoryKind::pinned);
    std::fill_n(static_cast<std::uint64_t*>(words_.data()), words, kPoison);
    ring.words = static_cast<std::uint64_t*>(words_.data()) + kGuard;
    ring.begin(first);
    return ring;
  }

  static void expect_guards_whole(const ScalarRing& ring) {
    for (std::int64_t i = 0; i < kGuard; ++i) {
      EXPECT_EQ(ring.words[-1 - i], kPoison);
      EXPECT_EQ(ring.words[ring.capacity * ring.row_words() + i], kPoison);
    }
  }
  static double value(const ScalarRing& ring, std::int64_t row, std::int64_t column) {
    return ScalarRing::value(ring.slot(row), column);
  }

 private:
  static constexpr std::uint64_t kPoison = 0x7b7b7b7b7b7b7b7b;
  static constexpr std::int64_t kGuard = 8;
  Buffer words_;
};
INSTANTIATE_TEST_SUITE_P(Devices, PublishTest, test::kDevices, test::device_name);

TEST_P(PublishTest, MixedDTypesWrapAroundTheRing) {
  constexpr std::int64_t kColumns = 5, kCapacity = 4, kRows = 11;
  const ScalarRing out = ring(kCapacity, kColumns);
  const Tensor row = tensor({}, DType::i64), f = tensor({}), d = tensor({}, DType::f64), i = tensor({}, DType::i32),
               l = tensor({}, DType::i64);
  from_host<std::int64_t>(row, {0}, stream());
  double wanted[kCapacity][kColumns] = {};
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
    EXPECT_TRUE(out.has(r));
    EXPECT_FALSE(out.has(r + 1));
    EXPECT_EQ(to_host<std::int64_t>(row, stream())[0], r + 1);
    for (std::int64_t k = 0; k < kCapacity * kColumns; ++k) {
      EXPECT_EQ(value(out, k / kColumns, k % kColumns), wanted[k / kColumns][k % kColumns]) << r << ", value " << k;
    }
  }
  expect_guards_whole(out);
}

TEST_P(PublishTest, ScalarsOfEveryDType) {
  constexpr DType kDTypes[] = {DType::f32, DType::bf16, DType::f16, DType::f64,
                               DType::i32, DType::i64,  DType::u8,  DType::boolean};
  constexpr auto kCount = static_cast<std::int64_t>(std::size(kDTypes));
  const ScalarRing out = ring(1, kCount);
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
  for (std::int64_t i = 0; i < kCount; ++i) EXPECT_EQ(value(out, 0, i), 1.0) << name_of(kDTypes[i]);
}

TEST_P(PublishTest, NaNsAreCanonical) {
  const ScalarRing out = ring(1, 3);
  const Tensor row = tensor({}, DType::i64), f = tensor({}), d = tensor({}, DType::f64), b = tensor({}, DType::bf16);
  from_host<std::int64_t>(row, {0}, stream());
  from_host<float>(f, {-std::nanf("7")}, stream());
  from_host<double>(d, {-std::nan("7")}, stream());
  cast(b, f, stream());
  publish_row(out, row, {f, d, b}, stream());
  stream().synchronize();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(std::bit_cast<std::uint64_t>(value(out, 0, i)),
              std::bit_cast<std::uint64_t>(std::numeric_limits<double>::quiet_NaN()))
        << i;
  }
}

TEST_P(PublishTest, RecordedRowsFollowOneAnother) {
  for (const std::int64_t capacity : {1, 4, 64}) {
    const ScalarRing out = ring(capacity, 2);
    const Tensor row = tensor({}, DType::i64), step = tensor({}, DType::i64), loss = tensor({});
    from_host<std::int64_t>(row, {0}, stream());
    from_host<std::int64_t>(step, {100}, stream());
    from_host<float>(loss, {2.5f}, stream());
    const Graph graph = Graph::record(stream(), [&] {
      increment(step, 1, stream());
      publish_row(out, row, {step, loss}, stream());
    });
    stream().synchronize();
    EXPECT_FALSE(out.has(0)) << "recording published";
    for (int r = 0; r < 10; ++r) graph.replay(stream());
    stream().synchronize();
    EXPECT_TRUE(out.has(9));
    EXPECT_FALSE(out.has(10));
    EXPECT_EQ(to_host<std::int64_t>(row, stream())[0], 10);
    for (std::int64_t r = std::max<std::int64_t>(0, 10 - capacity); r < 10; ++r) {
      EXPECT_EQ(value(out, r, 0), static_cast<double>(101 + r));
      EXPECT_EQ(value(out, r, 1), 2.5);
    }
    expect_guards_whole(out);
  }
}

TEST_P(PublishTest, ContinuesFromAResumedRow) {
  // Row numbers are compared modulo 2^32: a large one, the wrap to 0, and the sign bit.
  for (const std::int64_t first : {std::int64_t{1'000'000'000'007}, std::int64_t{0xffffffff}, std::int64_t{1} << 31}) {
    const ScalarRing out = ring(4, 1, first);
    const Tensor row = tensor({}, DType::i64), loss = tensor({});
    from_host<std::int64_t>(row, {first}, stream());
    for (std::int64_t r = first; r < first + 6; ++r) {
      EXPECT_TRUE(out.has(r - 1));
      EXPECT_FALSE(out.has(r));
      from_host<float>(loss, {static_cast<float>(r - first)}, stream());
      publish_row(out, row, {loss}, stream());
      stream().synchronize();
      EXPECT_TRUE(out.has(r));
      EXPECT_EQ(value(out, r, 0), static_cast<double>(r - first));
    }
  }
}

// The words arrive one by one, in any order.
TEST(ScalarRing, RowIsReadyOnceItsLastWordHasArrived) {
  constexpr std::int64_t kCapacity = 4, kColumns = 2, kWords = 2 * kColumns;
  std::vector<std::uint64_t> words(kCapacity * kWords);
  const ScalarRing ring{.words = words.data(), .capacity = kCapacity, .columns = kColumns};
  for (const std::int64_t first : {std::int64_t{0}, (std::int64_t{1} << 31) - 2, (std::int64_t{1} << 32) - 2}) {
    std::fill(words.begin(), words.end(), 0xffff'ffff'0000'0000u);
    ring.begin(first);
    std::vector<std::int64_t> order{0, 1, 2, 3};
    for (std::int64_t row = first; std::next_permutation(order.begin(), order.end()); ++row) {
      const double values[] = {-1.0 / static_cast<double>(row + 3), static_cast<double>(row)};
      for (const std::int64_t i : order) {
        EXPECT_FALSE(ring.has(row)) << row - first << ", before word " << i;
        const auto bits = std::bit_cast<std::uint64_t>(values[i / 2]);
        const std::uint64_t half = i % 2 == 0 ? bits & 0xffffffffu : bits >> 32;
        ring.slot(row)[i] = static_cast<std::uint64_t>(row) << 32 | half;
      }
      EXPECT_TRUE(ring.has(row));
      for (std::int64_t next = row + 1; next <= row + kCapacity; ++next) EXPECT_FALSE(ring.has(next));
      for (std::int64_t c = 0; c < kColumns; ++c) EXPECT_EQ(ScalarRing::value(ring.slot(row), c), values[c]);
    }
  }
}

TEST_P(PublishTest, NaNAndInfinityArrive) {
  const ScalarRing out = ring(2, 3);
  const Tensor row = tensor({}, DType::i64), a = tensor({}), b = tensor({}), c = tensor({}, DType::f64);
  from_host<std::int64_t>(row, {0}, stream());
  from_host<float>(a, {std::numeric_limits<float>::quiet_NaN()}, stream());
  from_host<float>(b, {std::numeric_limits<float>::infinity()}, stream());
  from_host<double>(c, {-test::kInfinity}, stream());
  publish_row(out, row, {a, b, c}, stream());
  stream().synchronize();
  EXPECT_TRUE(std::isnan(value(out, 0, 0)));
  EXPECT_EQ(value(out, 0, 1), test::kInfinity);
  EXPECT_EQ(value(out, 0, 2), -test::kInfinity);
}

// More columns than a kernel takes at once, exactly as many, and none.
TEST_P(PublishTest, AcceptsAnyNumberOfColumns) {
  for (const int columns : {0, 1, 31, 32, 33, 64, 71}) {
    const ScalarRing out = ring(2, columns, 1);
    const Tensor row = tensor({}, DType::i64);
    from_host<std::int64_t>(row, {1}, stream());
    std::vector<Tensor> scalars;
    for (int c = 0; c < columns; ++c) {
      scalars.push_back(tensor({}));
      from_host<float>(scalars.back(), {static_cast<float>(c)}, stream());
    }
    publish_row(out, row, scalars, stream());
    stream().synchronize();
    EXPECT_TRUE(out.has(1));
    EXPECT_FALSE(out.has(2));
    EXPECT_EQ(to_host<std::int64_t>(row, stream())[0], 2);
    for (int c = 0; c < columns; ++c) {
      EXPECT_EQ(value(out, 0, c), 0);
      EXPECT_EQ(value(out, 1, c), c);
    }
    expect_guards_whole(out);
  }
}

TEST_P(PublishTest, RejectsMismatchedArguments) {
  const ScalarRing out = ring(4, 1);
  const Tensor row = tensor({}, DType::i64), loss = tensor({});
  expect_error(ErrorCode::invalid_argument, {"0 rows"},
               [&] { publish_row({.words = out.words, .columns = 1}, row, {loss}, stream()); });
  expect_error(ErrorCode::invalid_argument, {"3 rows", "power of two"},
               [&] { publish_row({.words = out.words, .capacity = 3, .columns = 1}, row, {loss}, stream()); });
  expect_error(ErrorCode::invalid_argument, {"2 scalars", "1"}, [&] { publish_row(out, row, {loss, loss}, stream()); });
  expect_error(ErrorCode::shape_mismatch, {to_string(Shape{2})},
               [&] { publish_row(out, row, {tensor({2})}, stream()); });
  expect_error(ErrorCode::shape_mismatch, {to_string(Shape{2})},
               [&] { publish_row(out, tensor({2}, DType::i64), {loss}, stream()); });
  expect_dtype_error(DType::i64, DType::i32, [&] { publish_row(out, tensor({}, DType::i32), {loss}, stream()); });
  expect_device_error([&] { publish_row(out, row, {elsewhere(loss)}, stream()); });
  expect_device_error([&] { publish_row(out, elsewhere(row), {loss}, stream()); });
}

}  // namespace
}  // namespace giro
