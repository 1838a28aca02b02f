// Expressions on a real or emulated GPU.

#include <gtest/gtest.h>

#include <bit>

#include <giro/runtime/buffer.h>
#include <giro/runtime/device.h>
#include <giro/runtime/program/graph.h>

#include "tests/kernels/expr/expression_cases.h"
#include "tests/support/cuda_test.h"

#if GIRO_WITH_CUDA
#include "kernels/expr/expression_op.h"
#include "kernels/prepare.h"

namespace giro {
namespace {

using test::Bytes, test::ExpressionCase;

class CudaExpressionTest : public test::CudaTest {
 protected:
  void prepare(Device device) override { stream_.emplace(device); }

  // Compiles the cases together. Returns the memory of their tensors.
  std::vector<std::vector<Buffer>> place_and_compile(std::vector<ExpressionCase>& cases) {
    std::vector<std::vector<Buffer>> memory;
    std::vector<detail::HeldOp> ops;
    for (ExpressionCase& c : cases) {
      memory.push_back(place(c));
      ops.push_back({Program::Node("expression", {}, {}), *stream_,
                     std::make_shared<detail::CallOf<expr::Expression>>(c.expression)});
    }
    cuda::prepare(ops, *stream_);
    return memory;
  }

  // Compiles the cases together and runs them one by one. Outputs start as bytes 0x5a, which must remain wherever
  // nothing is written.
  void check(std::vector<ExpressionCase> cases) {
    if (!stream_) return;
    const auto memory = place_and_compile(cases);
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
TEST_F(CudaExpressionTest, Columns) { check(test::column_cases()); }
TEST_F(CudaExpressionTest, LongRows) { check(test::long_cases()); }

// Casts to 16 bits and back must match runtime/float16.h to the bit. A GPU turns a signalling NaN of f16 into a quiet
// one when it reads it.
TEST_F(CudaExpressionTest, RoundsLikeTheHost) {
  if (!stream_) return;
  std::vector<float> values;
  for (std::uint32_t high = 0; high < 0x10000; high += 7) {
    for (const std::uint32_t low : {0x0000u, 0x0fffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      values.push_back(std::bit_cast<float>(high << 16 | low));
    }
  }
  const auto n = static_cast<std::int64_t>(values.size());
  const auto check = [&]<class Half>(Half, DType dtype) {
    ExpressionCase c("casts", {n});
    const auto half = c.cast(dtype, c.read(test::Array{DType::f32, {n}, std::vector<double>(values.size())}));
    c.write(half);
    c.write(c.cast(DType::f32, half));
    const std::vector<Buffer> memory = place(c);
    stream_->copy(memory[0].data(), values.data(), values.size() * sizeof(float));
    cuda::run(c.expression, *stream_);
    std::vector<Half> halves(values.size());
    std::vector<float> floats(values.size());
    stream_->copy(halves.data(), memory[1].data(), halves.size() * sizeof(Half));
    stream_->copy(floats.data(), memory[2].data(), floats.size() * sizeof(float));
    stream_->synchronize();
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Half expected(values[i]);
      const auto back = static_cast<float>(expected);
      if (halves[i].bits == expected.bits &&
          std::bit_cast<std::uint32_t>(floats[i]) == std::bit_cast<std::uint32_t>(back)) {
        continue;
      }
      if (wrong++ == 0) {
        ADD_FAILURE() << name_of(dtype) << " of " << values[i] << " is " << floats[i] << ", expected " << back;
      }
    }
    EXPECT_EQ(wrong, 0u) << "of " << n;
  };
  check(BFloat16(), DType::bf16);
  check(Float16(), DType::f16);
}

// A row's sum has the same bits however the row is laid out, whichever threads and blocks share it, and whether its
// terms are read or computed.
TEST_F(CudaExpressionTest, SumsAreBitwiseEqual) {
  if (!stream_) return;
  for (const std::int64_t length : {300, 3'000, 20'000, 33'000}) {
    constexpr std::int64_t kRows = 2;
    test::Random source;
    const test::Array rows = source.uniform({kRows, length});
    test::Array columns = rows;
    for (std::int64_t i = 0; i < rows.shape.count(); ++i) {
      columns.values[static_cast<std::size_t>(i % length * kRows + i / length)] =
          rows.values[static_cast<std::size_t>(i)];
    }
    std::vector<ExpressionCase> cases;
    const auto add = [&](const test::Array& array, const test::Layout& layout, bool fused) {
      ExpressionCase& c = cases.emplace_back("sum", Shape{kRows, length}, 1);
      const auto x = c.read(array, layout);
      const auto half = c.constant(DType::f32, 0.5);
      c.write_row(c.reduce(test::Combiner::sum, x));
      if (!fused) return;
      const auto two = c.apply(test::kAdd, c.apply(test::kMultiply, x, half), c.apply(test::kMultiply, x, half));
      c.write_row(c.reduce(test::Combiner::sum, two));
      c.write_row(c.reduce(test::Combiner::max, x));
      c.write(c.apply(test::kSubtract, x, c.reduce(test::Combiner::sum, two)));
    };
    test::Array apart = rows;  // breaks any alignment
    apart.values.insert(apart.values.begin(), 0);
    apart.shape = {kRows * length + 1};
    add(rows, test::row_major({kRows, length}), false);
    add(rows, test::row_major({kRows, length}), true);
    add(apart, test::row_major({kRows, length}, 1), true);
    add(columns, test::strided({1, kRows}), false);
    add(columns, test::strided({1, kRows}), true);
    const auto memory = place_and_compile(cases);
    Bytes first;
    for (const ExpressionCase& c : cases) {
      cuda::run(c.expression, *stream_);
      for (std::size_t w = 0; w < std::min<std::size_t>(c.outputs.size(), 2); ++w) {
        const Tensor& sum = c.expression.writes[w].to.memory;
        Bytes result(sum.bytes());
        stream_->copy(result.data(), sum.raw(), result.size());
        stream_->synchronize();
        if (first.empty()) first = result;
        EXPECT_EQ(result, first) << "case " << &c - cases.data() << " of rows of " << length << ", output " << w;
      }
    }
  }
}

// While recording nothing waits, and the kernels become nodes of the graph.
TEST_F(CudaExpressionTest, Recorded) {
  if (!stream_) return;
  ExpressionCase c("a + a", {1000});
  test::Random source;
  const auto a = c.read(source.uniform({1000}));
  c.write(c.apply(test::kAdd, a, a));
  const std::vector<Buffer> memory = place(c);
  Graph graph = Graph::record(*stream_, [&] { cuda::run(c.expression, *stream_); });
  EXPECT_EQ(graph.num_nodes(), 1u);
  graph.replay(*stream_);
  stream_->synchronize();
  compare(c);
}

}  // namespace
}  // namespace giro
#endif
