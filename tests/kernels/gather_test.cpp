

#include "tests/kernels/op_test.h"
#include "tests/support/tensor_ops.h"

namespace giro {
namespace {

using test::Array, test::Expected, test::Tensors;

class GatherTest : public test::OpTest {
 protected:
  void check_rows(const Array& src, const Array& indices) {
    const std::int64_t width = src.shape.drop_front().count();
    Expected rows;
    for (const double index : indices.values) {
      const bool exists = index >= 0 && index < static_cast<double>(src.shape[0]);
      for (std::int64_t c = 0; c < width; ++c) {
        const double missing = is_floating(src.dtype) ? test::kNaN : 0;
        rows.add(exists ? src.values[static_cast<std::size_t>(static_cast<std::int64_t>(index) * width + c)] : missing,
                 0);
      }
    }
    check({.name = fmt::format("{} rows of {}{} by {}", indices.shape.count(), name_of(src.dtype), to_string(src.shape),
                               name_of(indices.dtype)),
           .inputs = {src, indices},
           .outputs = {{src.dtype, src.shape.drop_front().with_front(indices.shape.count()), {}}},
           .run = [](const Tensors& out, const Tensors& in, const Stream& s) { gather_rows(out[0], in[0], in[1], s); },
           .expected = {rows}});
  }

  void check_positions(const RowOrder& order, std::int64_t position, std::int64_t count) {
    Expected rows;
    for (std::int64_t r = 0; r < count; ++r) rows.add(static_cast<double>(order(position + r)), 0);
    std::vector<double> slots(3 * 8, 5.0);
    slots[8] = static_cast<double>(position);  // call 4 reads slot 1 of 3
    check({.name = fmt::format("{} of {} rows at {}, seed {}, {}", count, order.size, position, order.seed,
                               order.shuffled ? "shuffled" : "in order"),
           .inputs = {{DType::i64, {3, 8}, slots}, {DType::i64, {}, {4}}},
           .outputs = {{DType::i64, {count}, {}}},
           .run =
               [=](const Tensors& out, const Tensors& in, const Stream& s) {
                 const Tensor slots(in[0].raw(), DType::u8, {3, 64}, in[0].device());
                 batch_indices(out[0], {slots, in[1]}, order, s);
               },
           .expected = {rows}});
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, GatherTest, test::kDevices, test::device_name);

TEST_P(GatherTest, RowsOfEveryDType) {
  for (const DType dtype : test::kAllDTypes) {
    for (const Shape& shape : {Shape{5}, Shape{7, 1}, Shape{13, 3}, Shape{11, 4, 4, 1}, Shape{3, 2, 17}}) {
      const Array src = is_floating(dtype) ? random_.uniform(shape, -9, 9, dtype)
                                           : random_.integers(shape, 0, dtype == DType::boolean ? 1 : 100, dtype);
      for (const DType index : {DType::i32, DType::i64}) {
        for (const std::int64_t count : {0, 1, 2, 31}) {
          check_rows(src, random_.integers({count}, 0, shape[0] - 1, index));  // with repeats
        }
      }
    }
  }
}

TEST_P(GatherTest, IndicesOutOfRangeGiveNaNOrZero) {
  for (const DType dtype : test::kAllDTypes) {
    for (const Shape& shape : {Shape{5}, Shape{7, 1}, Shape{6, 3}, Shape{6, 16}, Shape{0, 4}}) {
      check_rows(random_.integers(shape, 0, 1, dtype), {DType::i64, {5}, {-1, 2, 7, 0, -0x1p40}});
      check_rows(random_.integers(shape, 0, 1, dtype), {DType::u8, {3}, {255, 1, 7}});
    }
  }
}

TEST_P(GatherTest, AlongAnyAxis) {
  const Array src = random_.uniform({3, 5, 4}), indices{DType::i32, {6}, {4, 0, 0, 5, 2, -1}};
  for (const std::size_t axis : {1u, 2u}) {
    const Shape shape = axis == 1 ? Shape{3, 6, 4} : Shape{3, 5, 6};
    Expected expected;
    for (std::int64_t a = 0; a < shape[0]; ++a) {
      for (std::int64_t b = 0; b < shape[1]; ++b) {
        for (std::int64_t c = 0; c < shape[2]; ++c) {
          const double index = indices.values[static_cast<std::size_t>(axis == 1 ? b : c)];
          const bool exists = index >= 0 && index < static_cast<double>(src.shape.begin()[axis]);
          const auto i = static_cast<std::int64_t>(index);
          const std::int64_t at = axis == 1 ? (a * 5 + i) * 4 + c : (a * 5 + b) * 4 + i;
          expected.add(exists ? src.values[static_cast<std::size_t>(at)] : test::kNaN, 0);
        }
      }
    }
    check({.name = fmt::format("axis {}", axis),
           .inputs = {src, indices},
           .outputs = {{DType::f32, shape, {}}},
           .run = [=](const Tensors& out, const Tensors& in,
                      const Stream& s) { gather_rows(out[0], in[0], in[1], s, axis); },
           .expected = {expected}});
  }
}

// The rows are multiples of 16 bytes, but the source or the output is not aligned to 16 bytes. The copy uses the widest
// unit that fits all of them.
TEST_P(GatherTest, SourceOrOutputMayBeUnaligned) {
  const Shape shape{9, 4};
  const Array src = random_.uniform(shape), indices = random_.integers({5}, 0, 8, DType::i32);
  Expected rows;
  for (const double index : indices.values) {
    for (std::int64_t c = 0; c < 4; ++c) rows.add(src.values[static_cast<std::size_t>(index) * 4 + c], 0);
  }
  const auto from_second = [](const Tensor& flat, const Shape& view) {
    return Tensor(flat.data<float>() + 1, DType::f32, view, flat.device());
  };
  Array behind_one{DType::f32, {37}, {7}};
  behind_one.values.insert(behind_one.values.end(), src.values.begin(), src.values.end());
  check({.name = "source",
         .inputs = {behind_one, indices},
         .outputs = {{DType::f32, {5, 4}, {}}},
         .run = [=](const Tensors& out, const Tensors& in,
                    const Stream& s) { gather_rows(out[0], from_second(in[0], shape), in[1], s); },
         .expected = {rows},
         .alignment = 16});
  Expected shifted = rows;
  shifted.values.insert(shifted.values.begin(), 7);
  shifted.tolerances.push_back(0);
  check({.name = "output",
         .inputs = {src, indices},
         .outputs = {{DType::f32, {21}, std::vector<double>(21, 7)}},
         .run =
             [=](const Tensors& out, const Tensors& in, const Stream& s) {
               gather_rows(from_second(out[0], {5, 4}), in[0], in[1], s);
             },
         .expected = {shifted},
         .alignment = 16});
}

TEST_P(GatherTest, ImagesOfABatch) {
  const Array images = random_.integers({500, 28, 28, 1}, 0, 255, DType::u8);
  check_rows(images, random_.integers({128}, 0, 499, DType::i64));
  check_rows(random_.uniform({300, 785}), random_.integers({97}, 0, 299, DType::i32));
}

TEST_P(GatherTest, FirstAndLastRow) {
  const Array src = random_.uniform({1021, 5});
  check_rows(src, {DType::i64, {4}, {0, 1020, 1020, 0}});
}

TEST_P(GatherTest, IndicesFollowTheRowOrder) {
  for (const bool shuffled : {false, true}) {
    for (const std::int64_t size : {1, 2, 7, 64, 1021, 60'000}) {
      const RowOrder order{.size = size, .seed = 17, .shuffled = shuffled};
      check_positions(order, 0, 1);
      check_positions(order, 0, 33);
      check_positions(order, size - 1, 5);  // straddles an epoch's end; several if epochs are short
      check_positions(order, 3 * size - 16 > 0 ? 3 * size - 16 : 0, 32);
      check_positions(order, std::int64_t{1} << 40, 31);
    }
  }
  const std::uint64_t wide = 0xFEDCBA9876543210;
  check_positions({.size = 1000, .seed = wide, .shuffled = true}, 990, 1003);
}

TEST_P(GatherTest, RecordedBatchesVisitEachRowOncePerEpoch) {
  const std::int64_t size = 103, batch = 8, steps = 39;  // slightly over three epochs; batches straddle their ends
  const RowOrder order{.size = size, .seed = 5, .shuffled = true};
  const Tensor src = tensor({size}, DType::i32), rows = tensor({batch}, DType::i32);
  const Tensor indices = tensor({batch}, DType::i64), position = tensor({8}, DType::i64), call = tensor({}, DType::i64);
  const ByteRing positions{Tensor(position.raw(), DType::u8, {1, 64}, device()), call};
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int32_t>(i);
  from_host(src, numbers, stream());
  from_host(position, std::vector<std::int64_t>(8, 0), stream());
  from_host(call, std::vector<std::int64_t>{7}, stream());

  const Graph graph = Graph::record(stream(), [&] {
    batch_indices(indices, positions, order, stream());
    gather_rows(rows, src, indices, stream());
    increment(Tensor(position.raw(), DType::i64, {}, device()), batch, stream());
  });
  std::vector<std::int32_t> seen;
  for (std::int64_t step = 0; step < steps; ++step) {
    graph.replay(stream());
    const std::vector<std::int32_t> got = to_host<std::int32_t>(rows, stream());
    seen.insert(seen.end(), got.begin(), got.end());
  }
  EXPECT_EQ(to_host<std::int64_t>(position, stream())[0], batch * steps);

  std::vector<std::vector<std::int32_t>> epochs;
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    epochs.emplace_back(seen.begin() + epoch * size, seen.begin() + (epoch + 1) * size);
    for (std::int64_t i = 0; i < size; ++i) EXPECT_EQ(epochs.back()[i], order(epoch * size + i));
    std::vector<std::int32_t> sorted = epochs.back();
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(sorted, numbers) << "epoch " << epoch;
  }
  EXPECT_NE(epochs[0], numbers);
  EXPECT_NE(epochs[0], epochs[1]);
}

TEST_P(GatherTest, BatchIndicesRejectMismatchedArguments) {
  const Tensor indices = tensor({5}, DType::i32);
  const Tensor call = tensor({}, DType::i64), wide = tensor({5}, DType::i64);
  const ByteRing position{tensor({2, 64}, DType::u8), call};
  expect_dtype_error(DType::i64, DType::i32, [&] { batch_indices(indices, position, {}, stream()); });
  expect_dtype_error(DType::i64, DType::i32, [&] {
    batch_indices(wide, {position.slots, tensor({}, DType::i32)}, {}, stream());
  });
  expect_error(ErrorCode::shape_mismatch, {to_string(Shape{2})}, [&] {
    batch_indices(wide, {position.slots, tensor({2}, DType::i64)}, {}, stream());
  });
  expect_error(ErrorCode::invalid_argument, {"0 rows"}, [&] { batch_indices(wide, position, {.size = 0}, stream()); });
  expect_error(ErrorCode::shape_mismatch, {"(2, 60)", "64"}, [&] {
    batch_indices(wide, {tensor({2, 60}, DType::u8), call}, {}, stream());
  });
  expect_device_error([&] { batch_indices(wide, {position.slots, elsewhere(call)}, {}, stream()); });
}

}  // namespace
}  // namespace giro
