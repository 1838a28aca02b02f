
#include "tests/kernels/op_test.h"
#include "tests/support/tensor_ops.h"

namespace giro {
namespace {

using test::Array, test::Expected, test::Tensors;

class ScatterTest : public test::OpTest {
 protected:
  void check_sums(const Array& updates, const Array& indices, std::int64_t size, bool are_distinct = false) {
    const std::int64_t count = indices.shape[0], width = updates.shape.drop_front().count();
    const auto cells = static_cast<std::size_t>(size * width);
    std::vector<double> sums(cells), magnitudes(cells);
    std::vector<std::int64_t> terms(cells);
    for (std::int64_t r = 0; r < count; ++r) {
      const auto index = static_cast<std::int64_t>(indices.values[static_cast<std::size_t>(r)]);
      if (index < 0 || index >= size) continue;
      for (std::int64_t c = 0; c < width; ++c) {
        const double value = updates.values[static_cast<std::size_t>(r * width + c)];
        const auto cell = static_cast<std::size_t>(index * width + c);
        sums[cell] += value, magnitudes[cell] += std::abs(value), ++terms[cell];
      }
    }
    Expected expected;
    const DType dtype = ops::dtype_of_sums(updates.dtype);
    for (std::size_t i = 0; i < cells; ++i) {
      // A single update is copied.
      const double tolerance = terms[i] < 2 || !is_floating(dtype) ? 0 : static_cast<double>(terms[i]) * magnitudes[i];
      expected.add(sums[i], tolerance * test::unit_roundoff(dtype));
    }
    check({.name = fmt::format("{}{} by {} into {}{}", name_of(updates.dtype), to_string(updates.shape),
                               name_of(indices.dtype), size, are_distinct ? ", distinct" : ""),
           .inputs = {updates, indices},
           .outputs = {{dtype, updates.shape.drop_front().with_front(size), {}}},
           .run = [=](const Tensors& out, const Tensors& in,
                      const Stream& s) { scatter_add(out[0], in[0], in[1], are_distinct, s); },
           .expected = {expected}});
  }

  Array updates(const Shape& shape, DType dtype = DType::f32) {
    return is_floating(dtype) ? random_.uniform(shape, -1, 1, dtype) : random_.integers(shape, -9, 9, dtype);
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, ScatterTest, test::kDevices, test::device_name);

TEST_P(ScatterTest, SumsOfEveryDtype) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i64}) {
    for (const Shape& shape : {Shape{7}, Shape{1, 3}, Shape{40, 3}, Shape{100, 2, 2}, Shape{70, 33}}) {
      for (const DType index : test::kLabelDTypes) {
        check_sums(updates(shape, dtype), random_.integers({shape[0]}, 0, 12, index), 13);
      }
    }
  }
}

// Runs of one index that end at, before and after the end of a GPU tile, and that span several tiles.
TEST_P(ScatterTest, RunsOfAnyLength) {
  for (const std::int64_t run : {1, 2, 15, 16, 17, 32, 33, 100, 700}) {
    for (const std::int64_t before : {0, 1, 5, 16}) {
      Array indices{DType::i32, {before + run + 3}, {}};
      for (std::int64_t i = 0; i < before; ++i) indices.values.push_back(static_cast<double>(i % 3));
      for (std::int64_t i = 0; i < run; ++i) indices.values.push_back(5);
      for (const double last : {6, 7, 7}) indices.values.push_back(last);
      check_sums(updates({before + run + 3, 2}), indices, 9);
    }
  }
}

TEST_P(ScatterTest, IndicesOutOfRangeAreIgnored) {
  check_sums(updates({6, 3}), {DType::i32, {6}, {-1, 2, 4, 5, 2, -7}}, 4);
  check_sums(updates({100, 1}), {DType::i64, {100}, std::vector<double>(100, -1)}, 4);
  check_sums(updates({100, 1}), {DType::u8, {100}, std::vector<double>(100, 4)}, 4);
}

TEST_P(ScatterTest, DistinctIndicesInAnyOrder) {
  Array indices{DType::i64, {90}, {}};
  for (std::int64_t i = 0; i < 90; ++i) indices.values.push_back(static_cast<double>(i * 37 % 97));
  check_sums(updates({90, 3}), indices, 97, true);
}

TEST_P(ScatterTest, NothingToAdd) {
  check_sums({DType::f32, {0, 3}, {}}, {DType::i32, {0}, {}}, 4);
  check_sums({DType::f32, {5, 0}, {}}, {DType::i32, {5}, {0, 1, 2, 3, 3}}, 4);
  check_sums(updates({2, 3}), {DType::i32, {2}, {0, 1}}, 0);
}

TEST_P(ScatterTest, NaNAffectsOnlyItsSum) {
  Array x = updates({70, 2});
  x.values[20] = test::kNaN;
  check_sums(x, random_.integers({70}, 0, 4, DType::i32), 5);
}

}  // namespace
}  // namespace giro
