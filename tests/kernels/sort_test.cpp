
#include <algorithm>
#include <numeric>

#include "tests/kernels/op_test.h"
#include "tests/support/tensor_ops.h"

namespace giro {
namespace {

using test::Array, test::Expected, test::Tensors;

class SortTest : public test::OpTest {
 protected:
  void check_order(const Array& x, bool descending, std::int64_t kept) {
    const std::int64_t rows = x.shape[0], length = x.shape[1];
    Expected expected;
    for (std::int64_t r = 0; r < rows; ++r) {
      const double* const row = x.values.data() + r * length;
      std::vector<std::int64_t> order(static_cast<std::size_t>(length));
      std::iota(order.begin(), order.end(), 0);
      const auto less = [&](double a, double b) { return std::isnan(a) ? false : std::isnan(b) || a < b; };
      std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
        return descending ? less(row[b], row[a]) : less(row[a], row[b]);
      });
      for (std::int64_t i = 0; i < kept; ++i) {
        expected.add(static_cast<double>(order[static_cast<std::size_t>(i)]), 0);
      }
    }
    check(
        {.name = fmt::format("first {} of {}{}{}", kept, name_of(x.dtype), to_string(x.shape),
                             descending ? " descending" : ""),
         .inputs = {x},
         .outputs = {{DType::i64, {rows, kept}, {}}},
         .run = [=](const Tensors& out, const Tensors& in, const Stream& s) { argsort(out[0], in[0], descending, s); },
         .expected = {expected}});
  }

  // With ties.
  Array values(const Shape& shape, DType dtype) {
    if (dtype == DType::boolean) return random_.integers(shape, 0, 1, dtype);
    Array x = random_.integers(shape, dtype == DType::u8 ? 0 : -100, 100, dtype);
    if (!is_floating(dtype)) return x;
    for (std::size_t i = 0; i < x.values.size(); ++i) {
      const double special[] = {test::kNaN, test::kInfinity, -test::kInfinity, 0.0, -0.0};
      if (i % 7 == 3) x.values[i] = special[i / 7 % 5];
    }
    return x;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, SortTest, test::kDevices, test::device_name);

// Rows that fit a GPU block, that just exceed it, and that take several merged runs, the last one short.
TEST_P(SortTest, SortsEveryDtype) {
  for (const DType dtype : test::kAllDTypes) {
    for (const Shape& shape : {Shape{1, 1}, Shape{5, 3}, Shape{3, 128}, Shape{2, 129}, Shape{2, 1024}}) {
      for (const bool descending : {false, true}) check_order(values(shape, dtype), descending, shape[1]);
    }
  }
}

TEST_P(SortTest, LongRowsAreMerged) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::i64}) {
    for (const Shape& shape : {Shape{2, 1025}, Shape{1, 3000}, Shape{1, 5121}}) {
      check_order(values(shape, dtype), false, shape[1]);
    }
  }
}

TEST_P(SortTest, SortsOnlyTheFirstK) {
  for (const auto& [length, kept] : {std::pair{40, 0},
                                     {40, 1},
                                     {40, 39},
                                     {129, 5},
                                     {1025, 1},
                                     {1025, 1000},
                                     {1025, 1024},
                                     {3000, 7},
                                     {3000, 1500},
                                     {5000, 2100}}) {
    check_order(values({2, length}, DType::f32), true, kept);
  }
  check_order({DType::f32, {0, 5}, {}}, false, 5);
  check_order({DType::f32, {5, 0}, {}}, false, 0);
}

TEST_P(SortTest, IsStable) {
  check_order({DType::f32, {1, 2000}, std::vector<double>(2000, 1)}, false, 2000);
  check_order({DType::f32, {1, 2000}, std::vector<double>(2000, test::kNaN)}, true, 2000);
}

// The smallest numbers differ, even where arithmetic flushes them to zero.
TEST_P(SortTest, Subnormals) {
  check_order({DType::f32, {1, 5}, {3e-45, 0, 1.5e-45, -1.5e-45, -3e-45}}, false, 5);
  check_order({DType::i64, {1, 4}, {-0x1p62, 0x1p62, 0, -1}}, false, 4);
}

}  // namespace
}  // namespace giro
