// Compiles generated kernels with NVRTC, which needs no GPU. tests/cuda_on_cpu/generated_kernels.py reads what ptxas
// says about all of them.

#include <gtest/gtest.h>

#include <regex>
#include <string>

#include <giro/runtime/error.h>

#include "tests/kernels/expr/expression_cases.h"

#if GIRO_WITH_CUDA
#include "kernels/cuda/expression_source.h"
#include "runtime/cuda/nvrtc.h"

namespace giro {
namespace {

using cuda::ExpressionSource;
using test::ExpressionCase;

// The source for memory at this address.
ExpressionSource source_of(const ExpressionCase& c, std::uintptr_t address = 4096) {
  expr::Expression expression = c.expression;
  const auto place = [&](Tensor& tensor) {
    tensor = Tensor(reinterpret_cast<void*>(address), tensor.dtype(), tensor.shape(), Device::cuda(0));
  };
  for (expr::Access& read : expression.reads) place(read.memory);
  for (expr::Expression::Write& write : expression.writes) place(write.to.memory);
  return cuda::source_of(expression);
}

std::size_t count_of(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  return static_cast<std::size_t>(
      std::distance(std::sregex_iterator(text.begin(), text.end(), regex), std::sregex_iterator()));
}

class GeneratedSourceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      nvrtc_ = &cuda::Nvrtc::instance();
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }

  const cuda::Nvrtc* nvrtc_ = nullptr;
};

// Aligned arrays are read and written 16 bytes at a time.
TEST_F(GeneratedSourceTest, MovesPacks) {
  if (nvrtc_ == nullptr) return;
  const auto packs = [&](const ExpressionCase& c, std::uintptr_t address = 4096) {
    const std::string ptx = nvrtc_->ptx(source_of(c, address).text, 80);
    const std::string packs = "\\.global(\\.nc|\\.wb)?\\.(v4\\..32|v2\\..64)";
    return std::pair(count_of(ptx, "ld" + packs), count_of(ptx, "st" + packs));
  };
  const auto add = [](DType dtype, const Shape& space) {
    ExpressionCase c("a + b", space);
    const test::Array array{dtype, space, {}};
    c.write(c.apply(test::kAdd, c.read(array), c.read(array)));
    return c;
  };
  using Packs = std::pair<std::size_t, std::size_t>;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64, DType::i32, DType::i64, DType::u8}) {
    EXPECT_EQ(packs(add(dtype, {1000})), Packs(2, 1)) << name_of(dtype);
  }
  EXPECT_EQ(packs(add(DType::f32, {1000}), 4100), Packs(0, 0));

  ExpressionCase cast("f32 of bf16", {1000});
  cast.write(cast.cast(DType::f32, cast.read(test::Array{DType::bf16, {1000}, {}})));
  EXPECT_EQ(packs(cast), Packs(1, 2));

  for (const auto& [dtype, each] : {std::pair(DType::f32, 2u), std::pair(DType::bf16, 1u), std::pair(DType::f64, 4u)}) {
    ExpressionCase norm("x - sum(x)", {100, 1024}, 1);
    const auto x = norm.read(test::Array{dtype, {100, 1024}, {}});
    norm.write(norm.apply(test::kSubtract, x, norm.reduce(test::Combiner::sum, x)));
    EXPECT_EQ(packs(norm), Packs(each, each)) << name_of(dtype) << ": it is read once, and kept in registers";
  }

  ExpressionCase window("sums over neighbours' windows", {64, 4}, 1);
  window.write_row(
      window.reduce(test::Combiner::sum, window.read(test::Array{DType::bf16, {4, 64}, {}}, test::strided({1, 64}))));
  EXPECT_EQ(packs(window), Packs(4, 1));
  EXPECT_EQ(packs(window, 4098), Packs(0, 0));
}

// One source serves all addresses. If memory is row-major, it also serves all batch sizes.
TEST_F(GeneratedSourceTest, IsSharedBetweenAddressesAndBatchSizes) {
  const auto bias = [](std::int64_t rows) {
    ExpressionCase c("x + b", {rows, 64});
    c.write(c.apply(test::kAdd, c.read(test::Array{DType::f32, {rows, 64}, {}}),
                    c.read(test::Array{DType::f32, {64}, {}}, test::strided({0, 1}))));
    return c;
  };
  EXPECT_EQ(source_of(bias(10)).text, source_of(bias(77), 8192).text);
  EXPECT_NE(source_of(bias(10)).text, source_of(bias(10), 8196).text) << "it moves 16 bytes at a time";
  const auto sum = [](std::int64_t rows) {
    ExpressionCase c("sum", {rows, 64}, 1);
    c.write_row(c.reduce(test::Combiner::sum, c.read(test::Array{DType::f32, {rows, 64}, {}})));
    return c;
  };
  EXPECT_EQ(source_of(sum(10)).text, source_of(sum(3000)).text);
  EXPECT_NE(source_of(sum(10)).kernels[0].blocks, source_of(sum(3000)).kernels[0].blocks);
}

TEST_F(GeneratedSourceTest, ReportsCompileErrors) {
  if (nvrtc_ == nullptr) return;
  const test::TestFunction broken{{"broken", 1, "a +", {}, {}}, {}};
  ExpressionCase c("broken", {10});
  c.write(c.apply(broken, c.read(test::Array{DType::f32, {10}, {}})));
  try {
    nvrtc_->compile(source_of(c).text, 90);
    FAIL() << "it has compiled";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_NE(std::string(error.what()).find("return a +;"), std::string::npos) << error.what();
  }
  EXPECT_THROW(nvrtc_->compile(source_of(c).text, 13), Error) << "an architecture that nobody knows";
}

}  // namespace
}  // namespace giro
#endif
