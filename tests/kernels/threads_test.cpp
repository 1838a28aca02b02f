// Tests that results are the same, bit for bit, for any number of the CPU backend's threads.

#include <gtest/gtest.h>
#include <omp.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <giro/kernels/conv2d.h>
#include <giro/kernels/matmul.h>
#include <giro/kernels/nn/random.h>
#include <giro/kernels/pool.h>
#include <giro/runtime/buffer.h>
#include <giro/runtime/device.h>
#include <giro/runtime/program/graph.h>
#include <giro/runtime/rng.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

#include "tests/support/tensor_ops.h"

namespace giro {
namespace {

class ThreadsTest : public ::testing::Test {
 protected:
  ~ThreadsTest() override { omp_set_num_threads(threads_before_); }

  // Values in [-1, 1).
  Tensor values(const Shape& shape) {
    const Tensor made = tensor(shape);
    const Rng rng{1, RngPurpose::application, buffers_.size()};
    for (std::int64_t i = 0; i < shape.count(); ++i) {
      made.data<float>()[i] = 2 * rng.uniform(static_cast<std::uint64_t>(i)) - 1;
    }
    return made;
  }
  Tensor tensor(const Shape& shape, DType dtype = DType::f32) {
    buffers_.push_back(Buffer::allocate(Device::cpu(), static_cast<std::size_t>(shape.count()) * size_of(dtype)));
    return Tensor(buffers_.back().data(), dtype, shape, Device::cpu());
  }

  // Expects that `run` writes the same bits to `out` on one thread and on several.
  void expect_same_bits(const std::string& what, const Tensor& out, const std::function<void()>& run) {
    const Tensor bytes(out.raw(), DType::u8, {static_cast<std::int64_t>(out.bytes())}, out.device());
    std::vector<std::uint8_t> first;
    for (const int threads : {1, 2, 3, 4, 7}) {
      omp_set_num_threads(threads);
      run();
      const std::vector<std::uint8_t> now = to_host<std::uint8_t>(bytes, stream_);
      if (first.empty()) first = now;
      EXPECT_TRUE(now == first) << what << ": other bits on " << threads << " threads";
    }
  }

  const Stream stream_{Device::cpu()};

 private:
  const int threads_before_ = omp_get_max_threads();
  std::vector<Buffer> buffers_;
};

// 32 channels use Winograd's algorithm, 24 use oneDNN.
TEST_F(ThreadsTest, Convolution) {
  const Conv2dOptions options = same_padding(14, 14, {3, 3}, {1, 1});
  for (const std::int64_t channels : {24, 32}) {
    const Tensor x = values({32, 14, 14, channels}), w = values({64, 3, 3, channels}), b = values({64}),
                 dz = values({32, 14, 14, 64});
    const Tensor y = tensor(dz.shape()), dx = tensor(x.shape());
    expect_same_bits("y", y, [&] { conv2d(y, x, w, b, options, stream_); });
    expect_same_bits("dx", dx, [&] { conv2d_backward(dx, {}, {}, dz, x, w, options, stream_); });
    const Tensor db = tensor(b.shape());
    expect_same_bits("db", db, [&] { conv2d_backward({}, {}, db, dz, x, w, options, stream_); });
  }
}

TEST_F(ThreadsTest, ConvolutionsFilter) {
  const Conv2dOptions options = same_padding(14, 14, {3, 3}, {1, 1});
  for (const std::int64_t channels : {24, 32}) {
    for (const std::int64_t images : {2, 31, 32}) {  // one part, several with a smaller last one, several even ones
      const Tensor x = values({images, 14, 14, channels}), w = values({64, 3, 3, channels}),
                   dz = values({images, 14, 14, 64});
      const Tensor dw = tensor(w.shape()), db = tensor({64});
      expect_same_bits("dw", dw, [&] { conv2d_backward({}, dw, db, dz, x, w, options, stream_); });
      expect_same_bits("db", db, [&] { conv2d_backward({}, dw, db, dz, x, w, options, stream_); });
    }
  }
}

TEST_F(ThreadsTest, Replay) {
  const Conv2dOptions options = same_padding(14, 14, {3, 3}, {1, 1});
  for (const std::int64_t channels : {24, 32}) {
    const Tensor x = values({32, 14, 14, channels}), w = values({64, 3, 3, channels}), dz = values({32, 14, 14, 64});
    const Tensor dw = tensor(w.shape());
    const Graph graph = Graph::record(stream_, [&] { conv2d_backward({}, dw, {}, dz, x, w, options, stream_); });
    expect_same_bits("dw", dw, [&] { graph.replay(stream_); });
  }
}

TEST_F(ThreadsTest, Dense) {
  for (const auto& [rows, inputs, outputs] : {std::array<std::int64_t, 3>{32, 784, 256},
                                              {1024, 784, 256},
                                              {2048, 100, 20},
                                              {4096, 64, 64},
                                              {8192, 40, 200},
                                              {16, 5000, 100}}) {
    const Tensor x = values({rows, inputs}), w = values({inputs, outputs}), b = values({outputs});
    const Tensor dz = values({rows, outputs});
    const Tensor y = tensor(dz.shape()), dx = tensor(x.shape()), dw = tensor(w.shape()), db = tensor(b.shape());
    const std::string of = to_string(x.shape()) + " " + to_string(w.shape());
    expect_same_bits("y of " + of, y, [&] { dense(y, x, w, b, stream_); });
    expect_same_bits("dx of " + of, dx, [&] { dense_backward(dx, {}, {}, dz, x, w, stream_); });
    expect_same_bits("dw of " + of, dw, [&] { dense_backward({}, dw, {}, dz, x, w, stream_); });
    expect_same_bits("db of " + of, db, [&] { dense_backward({}, {}, db, dz, x, w, stream_); });
  }
}

TEST_F(ThreadsTest, Matmul) {
  const auto expect_same = [&](const Shape& a_shape, const Shape& b_shape, const MatmulOptions& options) {
    const Tensor a = values(a_shape), b = values(b_shape), out = tensor(matmul_shape(a_shape, b_shape, options));
    expect_same_bits(to_string(a_shape) + " " + to_string(b_shape), out,
                     [&] { matmul(out, a, b, options, MathMode::f32, stream_); });
  };
  expect_same({64, 128, 64}, {64, 128, 64}, {.transpose_b = true});
  expect_same({3, 500, 300}, {3, 500, 200}, {.transpose_a = true});
  expect_same({5, 1, 300, 64}, {7, 64, 100}, {});
}

TEST_F(ThreadsTest, ConvolutionOfGroups) {
  const Conv2dOptions options{.pad_before = {2, 2}, .pad_after = {2, 2}, .dilation = {2, 2}, .groups = 64};
  const Tensor x = values({32, 28, 28, 64}), w = values({64, 3, 3, 1}), dz = values({32, 28, 28, 64});
  const Tensor y = tensor(dz.shape()), dx = tensor(x.shape()), dw = tensor(w.shape());
  expect_same_bits("y", y, [&] { conv2d(y, x, w, {}, options, stream_); });
  expect_same_bits("dx", dx, [&] { conv2d_backward(dx, {}, {}, dz, x, w, options, stream_); });
  expect_same_bits("dw", dw, [&] { conv2d_backward({}, dw, {}, dz, x, w, options, stream_); });
}

TEST_F(ThreadsTest, RandomNumbers) {
  const Tensor key = tensor({}, DType::i64), drawn = tensor({300, 1000});
  *key.data<std::int64_t>() = 42;
  expect_same_bits("normal", drawn, [&] {
    giro::cast(drawn, nn::random_normal(nn::Var(key, stream_), drawn.shape()).value(), stream_);
  });
}

TEST_F(ThreadsTest, SumsByIndex) {
  const Tensor updates = values({4000, 20}), indices = tensor({4000}, DType::i32), sums = tensor({300, 20});
  for (std::int64_t i = 0; i < 4000; ++i) indices.data<std::int32_t>()[i] = static_cast<std::int32_t>(i * i % 299);
  expect_same_bits("scatter_add", sums, [&] { scatter_add(sums, updates, indices, false, stream_); });
}

TEST_F(ThreadsTest, RowsAndReductions) {
  const Tensor logits = values({4096, 100}), losses = tensor({4096}), dlogits = tensor({4096, 100});
  const Tensor labels = tensor({4096}, DType::u8), scalar = tensor({}), squares = tensor({}, DType::f64),
               columns = tensor({100});
  stream_.fill(labels.raw(), 7, labels.bytes());
  expect_same_bits("losses", losses, [&] { softmax_cross_entropy(losses, {}, logits, labels, stream_); });
  expect_same_bits("dlogits", dlogits, [&] { softmax_cross_entropy(losses, dlogits, logits, labels, stream_); });
  expect_same_bits("accuracy", scalar, [&] { accuracy(scalar, logits, labels, stream_); });
  expect_same_bits("sum", scalar, [&] { sum(scalar, logits, stream_); });
  expect_same_bits("cumulative", dlogits, [&] { cumulative(dlogits, logits, Cumulative::sum, false, stream_); });
  expect_same_bits("sum_of_squares", squares, [&] { sum_of_squares(squares, logits, stream_); });
  expect_same_bits("sum_rows", columns, [&] { sum_rows(columns, logits, stream_); });
  const Tensor images = values({32, 28, 28, 32}), pooled = tensor({32, 14, 14, 32});
  expect_same_bits("avg_pool", pooled, [&] { avg_pool(pooled, images, {}, stream_); });
  expect_same_bits("avg_pool_backward", images, [&] { avg_pool_backward(images, pooled, {}, stream_); });
  const PoolOptions overlapping{.window = {3, 3}, .stride = {2, 2}};
  const Tensor overlaps = tensor({32, 13, 13, 32});
  expect_same_bits("overlapping", overlaps, [&] { avg_pool(overlaps, images, overlapping, stream_); });
  expect_same_bits("overlapping backward", images, [&] { avg_pool_backward(images, overlaps, overlapping, stream_); });
}

}  // namespace
}  // namespace giro
