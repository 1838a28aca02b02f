// Expressions on a GPU, or on the emulated one.

#include <gtest/gtest.h>

#include <giro/runtime/buffer.h>
#include <giro/runtime/device.h>

#include "tests/kernels/pointwise/expression_cases.h"

#if GIRO_WITH_CUDA
#include "kernels/cuda/expression.h"

namespace giro {
namespace {

using test::Bytes;
using test::ExpressionCase;

class CudaExpressionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const Discovery discovery = discover_devices();
    if (discovery.best().is_cpu()) GTEST_SKIP() << "no CUDA device: " << discovery.no_cuda_reason;
    stream_.emplace(discovery.best());
  }

  // Compiled together, run one by one: outputs start out as bytes 0x5a, which must stay where nothing is written.
  void check(std::vector<ExpressionCase> cases) {
    if (!stream_) return;
    std::vector<std::vector<Buffer>> memory;
    std::vector<pointwise::Expression> expressions;
    for (ExpressionCase& c : cases) {
      memory.push_back(place(c));
      expressions.push_back(c.expression);
    }
    cuda::prepare(expressions, stream_->device());
    for (std::size_t i = 0; i < cases.size(); ++i) {
      cuda::run(cases[i].expression, *stream_);
      stream_->synchronize();
      compare(cases[i]);
    }
  }

  static constexpr unsigned char kPoison = 0x5a;

  Buffer copied(const Bytes& bytes) {
    Buffer buffer = Buffer::allocate(stream_->device(), std::max<std::size_t>(bytes.size(), 1));
    stream_->copy(buffer.data(), bytes.data(), bytes.size());
    return buffer;
  }

  std::vector<Buffer> place(ExpressionCase& c) {
    std::vector<Buffer> buffers;
    const auto on_device = [&](Tensor& tensor, const Bytes& bytes) {
      buffers.push_back(copied(bytes));
      tensor = Tensor(buffers.back().data(), tensor.dtype(), tensor.shape(), stream_->device());
    };
    for (std::size_t r = 0; r < c.inputs.size(); ++r) {
      on_device(c.expression.reads[r].memory, test::encode(c.inputs[r]));
    }
    for (std::size_t w = 0; w < c.outputs.size(); ++w) {
      Tensor& tensor = c.expression.writes[w].to.memory;
      if (c.output_is_input[w] >= 0) {
        tensor = c.expression.reads[static_cast<std::size_t>(c.output_is_input[w])].memory;
      } else {
        on_device(tensor, Bytes(tensor.bytes(), kPoison));
      }
    }
    return buffers;
  }

  void compare(const ExpressionCase& c) {
    const std::vector<test::Expected> expected = c.expected(0);
    for (std::size_t w = 0; w < expected.size(); ++w) {
      const Tensor& tensor = c.expression.writes[w].to.memory;
      Bytes bytes(tensor.bytes());
      stream_->copy(bytes.data(), tensor.raw(), bytes.size());
      stream_->synchronize();
      test::Expected want = expected[w];
      if (c.output_is_input[w] < 0) {
        const double poison = test::decode(tensor.dtype(), Bytes(size_of(tensor.dtype()), kPoison))[0];
        const test::Expected unwritten = c.expected(poison)[w];
        want = unwritten;
      }
      test::expect_close(fmt::format("{}: output {}", c.name, w), test::decode(tensor.dtype(), bytes), want);
    }
  }

  std::optional<Stream> stream_;
};

TEST_F(CudaExpressionTest, Pointwise) { check(test::pointwise_cases()); }
TEST_F(CudaExpressionTest, Layouts) { check(test::layout_cases()); }
TEST_F(CudaExpressionTest, Rows) { check(test::row_cases()); }

}  // namespace
}  // namespace giro
#endif
