#include <giro/kernels/pool.h>

#include <type_traits>

#include "tests/kernels/op_test.h"
#include "tests/support/tensor_ops.h"

namespace giro {
namespace {

using test::Array, test::Expected, test::kLeafAlignment, test::Tensors;
using Values = std::vector<double>;

struct Pooling {
  std::string name;
  Shape x;
  PoolOptions options;

  Shape y() const { return pool_shape(x, options); }
  double area() const { return static_cast<double>(options.window[0] * options.window[1]); }

  // Calls f(i_y, i_x), flat indices, for every element of every window, each window in row-major order.
  template <class F>
  void for_each_element(F f) const {
    const Shape out = y();
    const std::int64_t channels = x[3];
    for (std::int64_t n = 0; n < out[0]; ++n)
      for (std::int64_t oh = 0; oh < out[1]; ++oh)
        for (std::int64_t ow = 0; ow < out[2]; ++ow)
          for (std::int64_t c = 0; c < channels; ++c)
            for (std::int64_t i = 0; i < options.window[0]; ++i)
              for (std::int64_t j = 0; j < options.window[1]; ++j) {
                const std::int64_t h = oh * options.stride[0] + i - options.pad_before[0];
                const std::int64_t w = ow * options.stride[1] + j - options.pad_before[1];
                if (h < 0 || h >= x[1] || w < 0 || w >= x[2]) continue;
                f(((n * out[1] + oh) * out[2] + ow) * channels + c, ((n * x[1] + h) * x[2] + w) * channels + c);
              }
  }

  // What an average divides each sum by.
  Values divisors() const {
    Values counts(static_cast<std::size_t>(y().count()), options.count_include_pad ? area() : 0);
    if (!options.count_include_pad) for_each_element([&](auto i_y, auto) { ++counts[static_cast<std::size_t>(i_y)]; });
    return counts;
  }
};

const Pooling kPoolings[] = {
    {"one number", {1, 1, 1, 1}, {.window = {1, 1}, .stride = {1, 1}}},
    {"whole image", {2, 5, 3, 4}, {.window = {5, 3}, .stride = {1, 1}}},
    {"halves", {2, 14, 14, 32}, {}},
    {"one channel", {3, 28, 28, 1}, {}},
    {"remainder", {2, 7, 9, 3}, {}},
    {"prime channels", {1, 6, 4, 17}, {}},
    {"overlapping", {2, 9, 8, 5}, {.window = {3, 3}, .stride = {2, 2}}},
    {"overlapping everywhere", {1, 6, 7, 2}, {.window = {3, 2}, .stride = {1, 1}}},
    {"overlapping, many channels", {2, 7, 6, 8}, {.window = {3, 3}, .stride = {2, 2}}},
    {"stride beyond the window", {1, 11, 10, 3}, {.window = {2, 1}, .stride = {3, 4}}},
    {"one row", {1, 1, 31, 8}, {.window = {1, 4}, .stride = {1, 3}}},
    {"padding", {2, 7, 6, 5}, {.window = {3, 3}, .stride = {2, 2}, .pad_before = {1, 1}, .pad_after = {1, 1}}},
    {"padding, many channels",
     {1, 6, 7, 24},
     {.window = {3, 2}, .stride = {2, 1}, .pad_before = {1, 0}, .pad_after = {1, 1}}},
    {"padding in front", {1, 5, 6, 3}, {.window = {4, 3}, .stride = {1, 2}, .pad_before = {3, 2}}},
    {"padding behind, a remainder", {2, 6, 5, 2}, {.window = {2, 3}, .stride = {2, 2}, .pad_after = {1, 2}}},
    {"a stride beyond the image",
     {1, 2, 3, 4},
     {.window = {3, 3}, .stride = {3, 5}, .pad_before = {2, 1}, .pad_after = {2, 2}}},
    {"padding of windows that would tile", {2, 4, 6, 8}, {.pad_before = {1, 1}, .pad_after = {1, 1}}},
    {"padding that does not count",
     {2, 7, 6, 8},
     {.window = {3, 3}, .stride = {2, 2}, .pad_before = {1, 2}, .pad_after = {2, 1}, .count_include_pad = false}},
    {"padding that does not count, overlapping everywhere",
     {1, 4, 5, 3},
     {.window = {3, 4}, .stride = {1, 1}, .pad_before = {2, 0}, .pad_after = {0, 3}, .count_include_pad = false}},
};

Expected average(const Pooling& pool, const Values& x) {
  Values sum(static_cast<std::size_t>(pool.y().count())), magnitude(sum.size());
  pool.for_each_element([&](auto i_y, auto i_x) {
    sum[i_y] += x[i_x];
    magnitude[i_y] += std::abs(x[i_x]);
  });
  const Values divisors = pool.divisors();
  Expected y;
  for (std::size_t i = 0; i < sum.size(); ++i) {
    y.add(sum[i] / divisors[i],
          test::sum_tolerance(static_cast<std::int64_t>(pool.area()), magnitude[i] / divisors[i]));
  }
  return y;
}

// A NaN counts as larger than every number.
Expected largest(const Pooling& pool, const Values& x) {
  Values largest(static_cast<std::size_t>(pool.y().count()), -test::kInfinity);
  pool.for_each_element([&](auto i_y, auto i_x) {
    if (!(x[i_x] <= largest[i_y]) && !std::isnan(largest[i_y])) largest[i_y] = x[i_x];
  });
  return {largest, Values(largest.size(), 0.0)};
}

Expected average_backward(const Pooling& pool, const Values& dy) {
  Values dx(static_cast<std::size_t>(pool.x.count())), magnitude(dx.size());
  const Values divisors = pool.divisors();
  pool.for_each_element([&](auto i_y, auto i_x) {
    dx[i_x] += dy[i_y] / divisors[i_y];
    magnitude[i_x] += std::abs(dy[i_y]) / divisors[i_y];
  });
  Expected expected;
  for (std::size_t i = 0; i < dx.size(); ++i) {
    expected.add(dx[i], test::sum_tolerance(static_cast<std::int64_t>(pool.area()), magnitude[i]));
  }
  return expected;
}

Expected largest_backward(const Pooling& pool, const Values& dy, const Values& x, const Values& y) {
  Values dx(x.size()), magnitude(x.size());
  std::vector<bool> taken(y.size(), false);
  pool.for_each_element([&](auto i_y, auto i_x) {
    if (taken[i_y] || !(x[i_x] == y[i_y] || (std::isnan(x[i_x]) && std::isnan(y[i_y])))) return;
    taken[i_y] = true;
    dx[i_x] += dy[i_y];
    magnitude[i_x] += std::abs(dy[i_y]);
  });
  Expected expected;
  for (std::size_t i = 0; i < dx.size(); ++i) {
    // At most window / stride windows, rounded up, overlap at an element. With a single window nothing is added.
    const bool exact =
        pool.options.window[0] <= pool.options.stride[0] && pool.options.window[1] <= pool.options.stride[1];
    expected.add(dx[i], exact ? 0 : test::sum_tolerance(static_cast<std::int64_t>(pool.area()), magnitude[i]));
  }
  return expected;
}

class PoolTest : public test::OpTest {
 protected:
  // Values that differ by more than the step of finite differences.
  Array distinct(const Shape& shape) {
    Array x{DType::f32, shape, {}};
    for (std::int64_t i = 0; i < shape.count(); ++i) {
      x.values.push_back(static_cast<double>(i - shape.count() / 2) / 1024);
    }
    const Array keys = random_.uniform({shape.count()}, 0, 1, DType::f64);
    for (std::size_t i = x.values.size(); i > 1; --i) {  // Fisher-Yates shuffle
      std::swap(x.values[i - 1], x.values[static_cast<std::size_t>(keys.values[i - 1] * static_cast<double>(i))]);
    }
    return x;
  }

  // Checks an op of a single output, and returns its values.
  template <class Op>
  Values check_pool(const std::string& name, const Op& op, const Pooling& pool, const std::vector<Array>& inputs,
                    const Array& output, const Expected& expected) {
    const auto run = [&](const Tensors& out, const Tensors& in, const Stream& s) {
      if constexpr (std::is_invocable_v<Op, const Tensor&, const Tensor&, const PoolOptions&, const Stream&>) {
        op(out[0], in[0], pool.options, s);
      } else {
        op(out[0], in[0], in[1], in[2], pool.options, s);
      }
    };
    return check({.name = name,
                  .inputs = inputs,
                  .outputs = {output},
                  .run = run,
                  .expected = {expected},
                  .alignment = kLeafAlignment})[0];
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, PoolTest, test::kDevices, test::device_name);

TEST_P(PoolTest, Average) {
  for (const Pooling& pool : kPoolings) {
    const Array x = random_.uniform(pool.x, -2, 1);
    check_pool(pool.name, avg_pool, pool, {x}, {DType::f32, pool.y(), {}}, average(pool, x.values));
  }
}

TEST_P(PoolTest, AverageBackward) {
  for (const Pooling& pool : kPoolings) {
    const Array dy = random_.uniform(pool.y());
    const Expected expected = average_backward(pool, dy.values);
    const auto dx = check_pool(pool.name, avg_pool_backward, pool, {dy}, {DType::f32, pool.x, {}}, expected);
    if (pool.x.count() > 2500) continue;
    test::expect_finite_differences(pool.name, dx, expected, random_.uniform(pool.x).values, [&](const Values& v) {
      return test::contracted(dy.values, average(pool, v).values);
    });
  }
}

// Averages are computed in f32 from values of the dtype and rounded once. Maxima are exact.
TEST_P(PoolTest, SixteenBits) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const Pooling& pool : kPoolings) {
      const Array x = random_.uniform(pool.x, -2, 1, dtype), dy = random_.uniform(pool.y(), -1, 1, dtype);
      const std::string name = fmt::format("{} {}", pool.name, name_of(dtype));
      check_pool(name, avg_pool, pool, {x}, {dtype, pool.y(), {}}, average(pool, x.values).stored_as(dtype));
      check_pool(name + " backward", avg_pool_backward, pool, {dy}, {dtype, pool.x, {}},
                 average_backward(pool, dy.values).stored_as(dtype));
      const Expected y = largest(pool, x.values);
      check_pool(name + " max", max_pool, pool, {x}, {dtype, pool.y(), {}}, y);
      check_pool(name + " max backward", max_pool_backward, pool, {dy, x, {dtype, pool.y(), y.values}},
                 {dtype, pool.x, {}}, largest_backward(pool, dy.values, x.values, y.values).stored_as(dtype));
    }
  }
}

TEST_P(PoolTest, Max) {
  for (const Pooling& pool : kPoolings) {
    for (const bool negative : {false, true}) {
      const Array x = negative ? random_.uniform(pool.x, -5, -1) : random_.uniform(pool.x);
      check_pool(fmt::format("{}, {}", pool.name, negative ? "all negative" : "both signs"), max_pool, pool, {x},
                 {DType::f32, pool.y(), {}}, largest(pool, x.values));
    }
  }
}

TEST_P(PoolTest, MaxBackward) {
  for (const Pooling& pool : kPoolings) {
    const Array x = distinct(pool.x), dy = random_.uniform(pool.y());
    const Array y{DType::f32, pool.y(), largest(pool, x.values).values};
    const Expected expected = largest_backward(pool, dy.values, x.values, y.values);
    const auto dx = check_pool(pool.name, max_pool_backward, pool, {dy, x, y}, {DType::f32, pool.x, {}}, expected);
    if (pool.x.count() > 2500) continue;
    test::expect_finite_differences(pool.name, dx, expected, x.values, [&](const Values& v) {
      return test::contracted(dy.values, largest(pool, v).values);
    });
  }
}

TEST_P(PoolTest, MaxBackwardSelectsTheFirstOfTies) {
  for (const Pooling& pool : kPoolings) {
    // With few different values, most windows contain a tie. Images look like this after relu.
    for (const int last : {0, 2}) {
      const Array x = random_.integers(pool.x, 0, last, DType::f32), dy = random_.uniform(pool.y());
      const Array y{DType::f32, pool.y(), largest(pool, x.values).values};
      check_pool(fmt::format("{}, {} values", pool.name, last + 1), max_pool_backward, pool, {dy, x, y},
                 {DType::f32, pool.x, {}}, largest_backward(pool, dy.values, x.values, y.values));
    }
  }
}

TEST_P(PoolTest, MaxPassesAnInfiniteGradientOnlyToTheLargest) {
  check({.name = "infinities",
         .inputs = {{DType::f32, {1, 1, 2, 1}, {test::kInfinity, test::kNaN}},
                    {DType::f32, {1, 2, 4, 1}, {1, 2, 3, 4, 3, 1, 5, 2}},
                    {DType::f32, {1, 1, 2, 1}, {3, 5}}},
         .outputs = {{DType::f32, {1, 2, 4, 1}, {}}},
         .run = [](const Tensors& out, const Tensors& in,
                   const Stream& s) { max_pool_backward(out[0], in[0], in[1], in[2], {}, s); },
         .expected = {{{0, 0, 0, 0, test::kInfinity, 0, test::kNaN, 0}, Values(8, 0.0)}}});
}

TEST_P(PoolTest, MaxPropagatesNaN) {
  for (const Pooling& pool : kPoolings) {
    for (const double share : {0.1, 0.6, 1.0}) {
      Array x = distinct(pool.x);
      const Array dice = random_.uniform(pool.x, 0, 1), dy = random_.uniform(pool.y());
      for (std::size_t i = 0; i < x.values.size(); ++i) {
        if (dice.values[i] < share) x.values[i] = test::kNaN;
      }
      const Array y{DType::f32, pool.y(), largest(pool, x.values).values};
      const std::string name = fmt::format("{}, {} of the values are NaN", pool.name, share);
      check_pool(name, max_pool, pool, {x}, {DType::f32, pool.y(), {}}, {y.values, Values(y.values.size(), 0.0)});
      check_pool(name + ", backward", max_pool_backward, pool, {dy, x, y}, {DType::f32, pool.x, {}},
                 largest_backward(pool, dy.values, x.values, y.values));
    }
  }
}

TEST(PoolShapeTest, DropsTheRemainder) {
  EXPECT_EQ(pool_shape({2, 28, 28, 32}, {}), (Shape{2, 14, 14, 32}));
  EXPECT_EQ(pool_shape({2, 7, 9, 3}, {}), (Shape{2, 3, 4, 3}));
  EXPECT_EQ(pool_shape({1, 9, 8, 5}, {.window = {3, 3}, .stride = {2, 2}}), (Shape{1, 4, 3, 5}));
  EXPECT_EQ(pool_shape({1, 5, 5, 1}, {.window = {5, 1}, .stride = {7, 1}}), (Shape{1, 1, 5, 1}));
}

TEST(PoolShapeTest, CountsThePadding) {
  EXPECT_EQ(pool_shape({1, 9, 8, 5}, {.window = {3, 3}, .stride = {2, 2}, .pad_before = {1, 1}, .pad_after = {1, 1}}),
            (Shape{1, 5, 4, 5}));
  EXPECT_EQ(pool_shape({1, 1, 4, 1}, {.window = {3, 2}, .pad_before = {2, 1}, .pad_after = {2, 0}}),
            (Shape{1, 2, 2, 1}));
  EXPECT_TRUE(pool_windows_tile({1, 4, 6, 1}, {}));
  EXPECT_FALSE(pool_windows_tile({1, 4, 6, 1}, {.pad_before = {1, 0}, .pad_after = {1, 0}}));
  EXPECT_FALSE(pool_windows_tile({1, 4, 6, 1}, {.pad_after = {0, 1}}));
}

TEST_P(PoolTest, ShapeRejectsMismatches) {
  expect_error(ErrorCode::invalid_argument, {"pooling", "padding -1 and 0", "window of 2", "0 to 1"}, [] {
    pool_shape({1, 9, 9, 1}, {.pad_before = {-1, 0}});
  });
  // A window could lie outside of the image.
  expect_error(ErrorCode::invalid_argument, {"pooling", "padding 0 and 3", "window of 3", "0 to 2"}, [] {
    pool_shape({1, 9, 9, 1}, {.window = {2, 3}, .pad_after = {1, 3}});
  });
  expect_error(ErrorCode::shape_mismatch, {"window of 4", "(1, 1, 9, 1)", "padding 1 and 1"}, [] {
    pool_shape({1, 1, 9, 1}, {.window = {4, 2}, .pad_before = {1, 0}, .pad_after = {1, 0}});
  });
  expect_error(ErrorCode::shape_mismatch, {"window of 2", "(1, 0, 9, 1)"}, [] {
    pool_shape({1, 0, 9, 1}, {.pad_before = {1, 0}, .pad_after = {1, 0}});
  });
  expect_error(ErrorCode::invalid_argument, {"window 4611686018427387904"}, [] {
    pool_shape({1, 9, 9, 1}, {.window = {1LL << 62, 2}, .pad_before = {(1LL << 62) - 1, 0}});
  });

  expect_error(ErrorCode::shape_mismatch, {"4", "3"}, [&] {
    pool_shape({1, 3, 9, 1}, {.window = {4, 2}, .stride = {1, 1}});
  });
  expect_error(ErrorCode::shape_mismatch, {to_string(Shape{9, 9, 1})}, [&] { pool_shape({9, 9, 1}, {}); });
  expect_error(ErrorCode::invalid_argument, {"stride", "0"}, [&] {
    pool_shape({1, 9, 9, 1}, {.window = {2, 2}, .stride = {0, 1}});
  });
  expect_error(ErrorCode::invalid_argument, {"window", "0"}, [&] {
    pool_shape({1, 9, 9, 1}, {.window = {0, 2}, .stride = {1, 1}});
  });
}

}  // namespace
}  // namespace giro
