// What does not depend on how many threads the CPU backend has, bit for bit: all but the filter's gradient of a
// convolution, and the bias's that oneDNN computes along with it (kernels/conv2d.h).

#include <gtest/gtest.h>
#include <omp.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <giro/kernels/accuracy.h>
#include <giro/kernels/activation.h>
#include <giro/kernels/conv2d.h>
#include <giro/kernels/dense.h>
#include <giro/kernels/pool.h>
#include <giro/kernels/reduce.h>
#include <giro/kernels/softmax_cross_entropy.h>
#include <giro/runtime/buffer.h>
#include <giro/runtime/device.h>
#include <giro/runtime/graph.h>
#include <giro/runtime/rng.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro {
namespace {

class ThreadsTest : public ::testing::Test {
 protected:
  ~ThreadsTest() override { omp_set_num_threads(threads_before_); }

  // In [-1, 1).
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

  // `run` gives `out` the same bits on one thread and on more.
  void expect_same_bits(const std::string& what, const Tensor& out, const std::function<void()>& run) {
    std::vector<float> first;
    for (const int threads : {1, 2, 3, 4, 7}) {
      omp_set_num_threads(threads);
      run();
      const std::vector<float> now = to_host<float>(out, stream_);
      if (first.empty()) first = now;
      EXPECT_TRUE(now == first) << what << ": other bits on " << threads << " threads";
    }
  }

  const Stream stream_{Device::cpu()};

 private:
  const int threads_before_ = omp_get_max_threads();
  std::vector<Buffer> buffers_;
};

TEST_F(ThreadsTest, Convolution) {
  const Conv2dOptions options = same_padding(14, 14, {3, 3}, {1, 1});
  const Tensor x = values({32, 14, 14, 32}), w = values({64, 3, 3, 32}), b = values({64}),
               dz = values({32, 14, 14, 64});
  const Tensor y = tensor(dz.shape()), dx = tensor(x.shape());
  expect_same_bits("y", y, [&] { conv2d(y, x, w, b, Activation::relu, options, stream_); });
  expect_same_bits("dx", dx, [&] { conv2d_backward(dx, {}, {}, dz, x, w, options, stream_); });
  const Tensor db = tensor(b.shape());
  expect_same_bits("db", db, [&] { conv2d_backward({}, {}, db, dz, x, w, options, stream_); });
}

// The exception: other bits on other numbers of threads, but always the same on as many.
TEST_F(ThreadsTest, ConvolutionsFilter) {
  const Conv2dOptions options = same_padding(14, 14, {3, 3}, {1, 1});
  const Tensor x = values({32, 14, 14, 32}), w = values({64, 3, 3, 32}), dz = values({32, 14, 14, 64});
  const Tensor dw = tensor(w.shape()), db = tensor({64});
  for (const int threads : {1, 2, 3}) {
    omp_set_num_threads(threads);
    std::vector<float> first[2];
    for (int time = 0; time < 3; ++time) {
      conv2d_backward({}, dw, db, dz, x, w, options, stream_);
      const std::vector<float> now[2] = {to_host<float>(dw, stream_), to_host<float>(db, stream_)};
      for (int i = 0; i < 2; ++i) {
        if (time == 0) first[i] = now[i];
        EXPECT_TRUE(now[i] == first[i]) << (i == 0 ? "dw" : "db") << ": other bits on " << threads << " threads again";
      }
    }
  }
}

TEST_F(ThreadsTest, AReplayHasTheThreadsOfItsRecording) {
  const Conv2dOptions options = same_padding(14, 14, {3, 3}, {1, 1});
  const Tensor x = values({32, 14, 14, 32}), w = values({64, 3, 3, 32}), dz = values({32, 14, 14, 64});
  const Tensor dw = tensor(w.shape());
  omp_set_num_threads(3);
  const auto run = [&] { conv2d_backward({}, dw, {}, dz, x, w, options, stream_); };
  run();
  const std::vector<float> expected = to_host<float>(dw, stream_);
  const Graph graph = Graph::record(stream_, run);
  omp_set_num_threads(1);
  graph.replay(stream_);
  EXPECT_TRUE(to_host<float>(dw, stream_) == expected);
}

TEST_F(ThreadsTest, Dense) {
  for (const std::int64_t batch : {32, 1024}) {
    const Tensor x = values({batch, 784}), w = values({784, 256}), b = values({256}), dz = values({batch, 256});
    const Tensor y = tensor(dz.shape()), dx = tensor(x.shape()), dw = tensor(w.shape()), db = tensor(b.shape());
    expect_same_bits("y", y, [&] { dense(y, x, w, b, Activation::relu, stream_); });
    expect_same_bits("dx", dx, [&] { dense_backward(dx, {}, {}, dz, x, w, stream_); });
    expect_same_bits("dw", dw, [&] { dense_backward({}, dw, {}, dz, x, w, stream_); });
    expect_same_bits("db", db, [&] { dense_backward({}, {}, db, dz, x, w, stream_); });
  }
}

TEST_F(ThreadsTest, RowsAndReductions) {
  const Tensor logits = values({4096, 100}), losses = tensor({4096}), dlogits = tensor({4096, 100});
  const Tensor labels = tensor({4096}, DType::u8), scalar = tensor({}), columns = tensor({100});
  stream_.fill(labels.raw(), 7, labels.bytes());
  expect_same_bits("losses", losses, [&] { softmax_cross_entropy(losses, {}, logits, labels, stream_); });
  expect_same_bits("dlogits", dlogits, [&] { softmax_cross_entropy(losses, dlogits, logits, labels, stream_); });
  expect_same_bits("accuracy", scalar, [&] { accuracy(scalar, logits, labels, stream_); });
  expect_same_bits("sum", scalar, [&] { sum(scalar, logits, stream_); });
  expect_same_bits("sum_of_squares", scalar, [&] { sum_of_squares(scalar, logits, stream_); });
  expect_same_bits("sum_rows", columns, [&] { sum_rows(columns, logits, stream_); });
  const Tensor images = values({32, 28, 28, 32}), pooled = tensor({32, 14, 14, 32});
  expect_same_bits("avg_pool", pooled, [&] { avg_pool(pooled, images, {}, stream_); });
  expect_same_bits("avg_pool_backward", images, [&] { avg_pool_backward(images, pooled, {}, stream_); });
}

}  // namespace
}  // namespace giro
