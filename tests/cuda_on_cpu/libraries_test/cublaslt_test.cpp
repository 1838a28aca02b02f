// Tests cuBLASLt: which descriptors it accepts and refuses, also run with the real cuBLASLt without a GPU
// (CublasLtDescriptors, ctest cudnn_real_codes); layouts and epilogues, on which a GPU must agree; and the emulation's
// checks of its caller (CublasLtOnCpu).

#include <cublasLt.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <ostream>
#include <tuple>

#include "tests/cuda_on_cpu/libraries_test/library_test.h"

namespace cuda_on_cpu::test {
namespace {

// A matrix's layout in memory.
struct Matrix {
  std::uint64_t rows, cols;
  std::int64_t ld;
  std::int32_t order;
  std::int32_t batch = 1;
  std::int64_t stride = 0;  // from matrix to matrix

  std::size_t at(std::uint64_t row, std::uint64_t col) const {
    const auto gap = static_cast<std::uint64_t>(ld);
    return order == CUBLASLT_ORDER_COL ? row + col * gap : row * gap + col;
  }
  std::size_t count() const { return static_cast<std::size_t>(ld) * (order == CUBLASLT_ORDER_COL ? cols : rows); }
};

Matrix matrix(std::uint64_t rows, std::uint64_t cols, std::int32_t order = CUBLASLT_ORDER_COL, std::uint64_t gap = 0) {
  return {rows, cols, static_cast<std::int64_t>((order == CUBLASLT_ORDER_COL ? rows : cols) + gap), order};
}

// D = epilogue(alpha op(A) op(B) + beta C).
struct Product {
  Matrix a, b, d;
  cublasOperation_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType_t type = CUDA_R_32F;
  float alpha = 1, beta = 0;
  std::uint32_t alignment = 16;    // promised for every operand
  std::uint64_t workspace = 8192;  // offered, in bytes
  const void* bias = nullptr;      // set while an algorithm is chosen
};

class CublasLtCudaTest : public LibraryTest {
 protected:
  void SetUp() override {
    LibraryTest::SetUp();
    if (IsSkipped()) return;
    EXPECT_EQ(cublasLtCreate(&handle_), CUBLAS_STATUS_SUCCESS);
  }
  void TearDown() override {
    if (IsSkipped()) return;
    undo();
    EXPECT_EQ(cublasLtDestroy(handle_), CUBLAS_STATUS_SUCCESS);
    LibraryTest::TearDown();
  }

  // Creates the descriptors and chooses an algorithm.
  cublasStatus_t choose(const Product& product) {
    undo();
    EXPECT_EQ(cublasLtMatmulDescCreate(&description_, product.compute, CUDA_R_32F), CUBLAS_STATUS_SUCCESS);
    describe(CUBLASLT_MATMUL_DESC_TRANSA, product.transpose_a);
    describe(CUBLASLT_MATMUL_DESC_TRANSB, product.transpose_b);
    describe(CUBLASLT_MATMUL_DESC_EPILOGUE, product.epilogue);
    describe(CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.bias);
    a_ = layout(product.a, product.type);
    b_ = layout(product.b, product.type);
    d_ = layout(product.d, product.type);
    EXPECT_EQ(cublasLtMatmulPreferenceCreate(&preference_), CUBLAS_STATUS_SUCCESS);
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, product.workspace);
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      prefer(attribute, product.alignment);
    }
    alpha_ = product.alpha;
    beta_ = product.beta;
    int count = 0;
    return ask(&chosen_, 1, count);
  }
  cublasStatus_t ask(cublasLtMatmulHeuristicResult_t* results, int wanted, int& count) {
    return cublasLtMatmulAlgoGetHeuristic(handle_, description_, a_, b_, d_, d_, preference_, wanted, results, &count);
  }

  // Runs the chosen algorithm with a new workspace.
  cublasStatus_t run(const float* a, const float* b, float* d, const float* bias = nullptr) {
    describe(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    return run_in(memory(std::max<std::size_t>(chosen_.workspaceSize, 4) / 4), chosen_.workspaceSize, a, b, d);
  }
  cublasStatus_t run_in(void* workspace, std::size_t bytes, const float* a, const float* b, float* d) {
    return cublasLtMatmul(handle_, description_, &alpha_, a, a_, b, b_, &beta_, d, d_, d, d_, &chosen_.algo, workspace,
                          bytes, stream_);
  }

  template <class T>
  void describe(cublasLtMatmulDescAttributes_t attribute, T value) {
    EXPECT_EQ(cublasLtMatmulDescSetAttribute(description_, attribute, &value, sizeof value), CUBLAS_STATUS_SUCCESS);
  }

  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t description_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, d_ = nullptr;
  cublasLtMatmulHeuristicResult_t chosen_{};

 private:
  template <class T>
  void prefer(cublasLtMatmulPreferenceAttributes_t attribute, T value) {
    EXPECT_EQ(cublasLtMatmulPreferenceSetAttribute(preference_, attribute, &value, sizeof value),
              CUBLAS_STATUS_SUCCESS);
  }
  static cublasLtMatrixLayout_t layout(const Matrix& matrix, cudaDataType_t type) {
    cublasLtMatrixLayout_t made = nullptr;
    EXPECT_EQ(cublasLtMatrixLayoutCreate(&made, type, matrix.rows, matrix.cols, matrix.ld), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_ORDER, &matrix.order, sizeof matrix.order),
              CUBLAS_STATUS_SUCCESS);
    if (matrix.batch == 1) return made;
    EXPECT_EQ(
        cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &matrix.batch, sizeof matrix.batch),
        CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &matrix.stride,
                                               sizeof matrix.stride),
              CUBLAS_STATUS_SUCCESS);
    return made;
  }
  void undo() {
    if (description_ == nullptr) return;
    EXPECT_EQ(cublasLtMatmulDescDestroy(description_), CUBLAS_STATUS_SUCCESS);
    for (cublasLtMatrixLayout_t layout : {a_, b_, d_})
      EXPECT_EQ(cublasLtMatrixLayoutDestroy(layout), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatmulPreferenceDestroy(preference_), CUBLAS_STATUS_SUCCESS);
    description_ = nullptr;
  }

  cublasLtMatmulPreference_t preference_ = nullptr;
  float alpha_ = 1, beta_ = 0;
};

// The emulation's own checks, which find misuse.
class CublasLtOnCpuTest : public CublasLtCudaTest {};

constexpr std::uint64_t kM = 3, kN = 4, kK = 5;
const Product kPlain{.a = matrix(kM, kK), .b = matrix(kK, kN), .d = matrix(kM, kN)};

// op(A) op(B) at (i, j), computed from the matrices in memory.
double element(const Product& p, const Values& a, const Values& b, std::uint64_t i, std::uint64_t j) {
  double sum = 0;
  for (std::uint64_t q = 0; q < kK; ++q) {
    const double left = a[p.transpose_a == CUBLAS_OP_T ? p.a.at(q, i) : p.a.at(i, q)];
    const double right = b[p.transpose_b == CUBLAS_OP_T ? p.b.at(j, q) : p.b.at(q, j)];
    sum += left * right;
  }
  return sum;
}

// Descriptors accept any values. Whether a product can be computed is decided when an algorithm is chosen.
TEST(CublasLtDescriptorsTest, StoreAnyValue) {
  cublasLtMatrixLayout_t layout = nullptr;
  for (const Matrix& odd : {Matrix{0, 4, 3, 0}, Matrix{3, 4, 2, 0}, Matrix{3, 4, -1, 0}}) {
    ASSERT_EQ(cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, odd.rows, odd.cols, odd.ld), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatrixLayoutDestroy(layout), CUBLAS_STATUS_SUCCESS);
  }
  cublasLtMatmulDesc_t description = nullptr;
  ASSERT_EQ(cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_64F), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasLtMatmulDescDestroy(description), CUBLAS_STATUS_SUCCESS);
}

TEST(CublasLtDescriptorsTest, RejectAttributesOfWrongSize) {
  const std::int32_t four = 1;
  const std::int64_t eight = 1;
  cublasLtMatrixLayout_t layout = nullptr;
  cublasLtMatmulDesc_t description = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  ASSERT_EQ(cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, 3, 4, 3), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasLtMatmulPreferenceCreate(&preference), CUBLAS_STATUS_SUCCESS);
  const auto expect_rejected = [](auto set, auto descriptor, auto attribute, const auto& right, const auto& wrong) {
    EXPECT_EQ(set(descriptor, attribute, &right, sizeof right), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(set(descriptor, attribute, &wrong, sizeof wrong), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(set(descriptor, attribute, nullptr, sizeof right), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(set(nullptr, attribute, &right, sizeof right), CUBLAS_STATUS_INVALID_VALUE);
  };
  expect_rejected(cublasLtMatrixLayoutSetAttribute, layout, CUBLASLT_MATRIX_LAYOUT_ORDER, four, eight);
  expect_rejected(cublasLtMatrixLayoutSetAttribute, layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, four, eight);
  expect_rejected(cublasLtMatrixLayoutSetAttribute, layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, eight, four);
  expect_rejected(cublasLtMatmulDescSetAttribute, description, CUBLASLT_MATMUL_DESC_TRANSA, four, eight);
  expect_rejected(cublasLtMatmulDescSetAttribute, description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, eight, four);
  expect_rejected(cublasLtMatmulPreferenceSetAttribute, preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, eight,
                  four);
  expect_rejected(cublasLtMatmulPreferenceSetAttribute, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, four,
                  eight);
  EXPECT_EQ(cublasLtMatmulPreferenceDestroy(preference), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasLtMatmulDescDestroy(description), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasLtMatrixLayoutDestroy(layout), CUBLAS_STATUS_SUCCESS);
}

TEST(CublasLtDescriptorsTest, NullIsRejectedButMayBeDestroyed) {
  EXPECT_EQ(cublasLtMatrixLayoutCreate(nullptr, CUDA_R_32F, 3, 4, 3), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cublasLtMatmulDescCreate(nullptr, CUBLAS_COMPUTE_32F, CUDA_R_32F), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cublasLtMatmulPreferenceCreate(nullptr), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cublasLtMatmulDescDestroy(nullptr), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasLtMatrixLayoutDestroy(nullptr), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasLtMatmulPreferenceDestroy(nullptr), CUBLAS_STATUS_SUCCESS);
}

TEST_F(CublasLtCudaTest, TransposesOrdersAndLeadingDimensions) {
  const cublasOperation_t operations[] = {CUBLAS_OP_N, CUBLAS_OP_T};
  const std::int32_t orders[] = {CUBLASLT_ORDER_COL, CUBLASLT_ORDER_ROW};
  for (int which = 0; which < 64; ++which) {
    const auto bit = [&](int n) { return (which >> n & 1) != 0; };
    const std::uint64_t gap = bit(5) ? 2 : 0;
    Product p{.a = bit(0) ? matrix(kK, kM, orders[bit(2)], gap) : matrix(kM, kK, orders[bit(2)], gap),
              .b = bit(1) ? matrix(kN, kK, orders[bit(3)], gap) : matrix(kK, kN, orders[bit(3)], gap),
              .d = matrix(kM, kN, orders[bit(4)], gap),
              .transpose_a = operations[bit(0)],
              .transpose_b = operations[bit(1)]};
    SCOPED_TRACE(which);
    const Values a = random(p.a.count()), b = random(p.b.count()), before = random(p.d.count());
    float* const d = device(before);
    ASSERT_EQ(choose(p), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(run(device(a), device(b), d), CUBLAS_STATUS_SUCCESS);
    std::vector<double> expected(before.begin(), before.end());  // nothing is written between the columns
    for (std::uint64_t i = 0; i < kM; ++i) {
      for (std::uint64_t j = 0; j < kN; ++j) expected[p.d.at(i, j)] = element(p, a, b, i, j);
    }
    expect_close(host(d, p.d.count()), expected);
  }
}

// b is the same matrix for all products.
Product batch_of_three() {
  Product p = kPlain;
  p.a.batch = p.b.batch = p.d.batch = 3;
  p.a.stride = kM * kK + 4;
  p.d.stride = kM * kN + 4;
  return p;
}

TEST_F(CublasLtCudaTest, StridedBatches) {
  const Product p = batch_of_three();
  const auto size = [](const Matrix& matrix) { return static_cast<std::size_t>(matrix.stride) * 3; };
  const Values a = random(size(p.a)), b = random(p.b.count()), before = random(size(p.d));
  float* const d = device(before);
  ASSERT_EQ(choose(p), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(run(device(a), device(b), d), CUBLAS_STATUS_SUCCESS);
  std::vector<double> expected(before.begin(), before.end());
  for (std::ptrdiff_t n = 0; n < 3; ++n) {
    const Values own(a.begin() + n * p.a.stride, a.begin() + n * p.a.stride + static_cast<std::ptrdiff_t>(kM * kK));
    for (std::uint64_t i = 0; i < kM; ++i) {
      for (std::uint64_t j = 0; j < kN; ++j) {
        expected[static_cast<std::size_t>(n * p.d.stride) + p.d.at(i, j)] = element(p, own, b, i, j);
      }
    }
  }
  expect_close(host(d, before.size()), expected);
}

TEST_F(CublasLtOnCpuTest, MismatchedBatchesAreRejected) {
  Product fewer = batch_of_three(), overlapping = batch_of_three(), with_bias = batch_of_three();
  fewer.a.batch = 2;
  EXPECT_EQ(choose(fewer), CUBLAS_STATUS_INVALID_VALUE);
  overlapping.d.stride = kM * kN - 1;
  EXPECT_EQ(choose(overlapping), CUBLAS_STATUS_INVALID_VALUE);
  with_bias.epilogue = CUBLASLT_EPILOGUE_BIAS;
  EXPECT_EQ(choose(with_bias), CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST_F(CublasLtCudaTest, ScalesAndAdds) {
  Product p = kPlain;
  p.alpha = 2;
  p.beta = -3;
  const Values a = random(kM * kK), b = random(kK * kN), c = random(kM * kN);
  float* const d = device(c);
  ASSERT_EQ(choose(p), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(run(device(a), device(b), d), CUBLAS_STATUS_SUCCESS);
  std::vector<double> expected(c.size());
  for (std::uint64_t i = 0; i < kM; ++i) {
    for (std::uint64_t j = 0; j < kN; ++j) {
      const std::size_t at = p.d.at(i, j);
      expected[at] = 2 * element(p, a, b, i, j) - 3.0 * c[at];
    }
  }
  expect_close(host(d, c.size()), expected);
}

TEST_F(CublasLtCudaTest, Epilogues) {
  const Values a = random(kM * kK), b = random(kK * kN), bias = random(kM);
  for (const auto epilogue : {CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU_BIAS}) {
    Product p = kPlain;
    p.epilogue = epilogue;
    float* const d = memory(kM * kN);
    ASSERT_EQ(choose(p), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(run(device(a), device(b), d, device(bias)), CUBLAS_STATUS_SUCCESS);
    std::vector<double> expected(kM * kN);
    for (std::uint64_t i = 0; i < kM; ++i) {
      for (std::uint64_t j = 0; j < kN; ++j) {
        double value = element(p, a, b, i, j);
        if (epilogue != CUBLASLT_EPILOGUE_RELU) value += bias[i];
        if (epilogue != CUBLASLT_EPILOGUE_BIAS) value = std::max(value, 0.0);
        expected[p.d.at(i, j)] = value;
      }
    }
    expect_close(host(d, kM * kN), expected);
  }
}

TEST_F(CublasLtCudaTest, BiasGradients) {
  const Values a = random(kM * kK), b = random(kK * kN);
  for (const auto epilogue : {CUBLASLT_EPILOGUE_BGRADA, CUBLASLT_EPILOGUE_BGRADB}) {
    Product p = kPlain;
    p.epilogue = epilogue;
    const bool of_a = epilogue == CUBLASLT_EPILOGUE_BGRADA;
    float *const d = memory(kM * kN), *const sums = memory(of_a ? kM : kN);
    ASSERT_EQ(choose(p), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(run(device(a), device(b), d, sums), CUBLAS_STATUS_SUCCESS);
    std::vector<double> expected(of_a ? kM : kN);
    for (std::uint64_t i = 0; i < expected.size(); ++i) {
      for (std::uint64_t q = 0; q < kK; ++q) expected[i] += of_a ? a[p.a.at(i, q)] : b[p.b.at(q, i)];
    }
    expect_close(host(sums, expected.size()), expected);
  }
}

// The real one may round, but need not.
TEST_F(CublasLtOnCpuTest, Tf32KeepsTenBitsOfFactors) {
  const float* const a = device(std::vector<float>(kM * kK, 1 + 0x1p-12f));
  const float* const b = device(std::vector<float>(kK * kN, 1.0f));
  float* const d = memory(kM * kN);
  for (const bool tf32 : {true, false}) {
    Product p = kPlain;
    p.compute = tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    ASSERT_EQ(choose(p), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(run(a, b, d), CUBLAS_STATUS_SUCCESS);
    const float each = static_cast<float>(kK) * (tf32 ? 1.0f : 1 + 0x1p-12f);
    EXPECT_EQ(host(d, kM * kN), std::vector<float>(kM * kN, each));
  }
}

TEST_F(CublasLtCudaTest, SwappedOrWrongLayoutsAreRejected) {
  Product swapped = kPlain;
  std::swap(swapped.a, swapped.b);
  EXPECT_EQ(choose(swapped), CUBLAS_STATUS_INVALID_VALUE);
  Product not_transposed = kPlain;
  not_transposed.transpose_a = CUBLAS_OP_T;
  EXPECT_EQ(choose(not_transposed), CUBLAS_STATUS_INVALID_VALUE);
  for (Matrix Product::*which : {&Product::a, &Product::b, &Product::d}) {
    Product short_columns = kPlain;
    --(short_columns.*which).ld;
    EXPECT_EQ(choose(short_columns), CUBLAS_STATUS_INVALID_VALUE);
    Product one_too_many = kPlain;
    ++(one_too_many.*which).rows;
    ++(one_too_many.*which).ld;
    EXPECT_EQ(choose(one_too_many), CUBLAS_STATUS_INVALID_VALUE);
    Product empty = kPlain;
    (empty.*which).rows = 0;
    EXPECT_EQ(choose(empty), CUBLAS_STATUS_INVALID_VALUE);
  }
}

TEST_F(CublasLtOnCpuTest, UnemulatedFeaturesAreNotSupported) {
  Product p = kPlain;
  p.compute = CUBLAS_COMPUTE_32F_FAST_16BF;
  EXPECT_EQ(choose(p), CUBLAS_STATUS_NOT_SUPPORTED);
  p.compute = CUBLAS_COMPUTE_32F_FAST_TF32;
  p.type = CUDA_R_16BF;
  EXPECT_EQ(choose(p), CUBLAS_STATUS_NOT_SUPPORTED);
  p = kPlain;
  p.epilogue = CUBLASLT_EPILOGUE_GELU;
  EXPECT_EQ(choose(p), CUBLAS_STATUS_NOT_SUPPORTED);
  p = kPlain;
  p.type = CUDA_R_64F;
  EXPECT_EQ(choose(p), CUBLAS_STATUS_NOT_SUPPORTED);
  p = kPlain;
  p.a.order = CUBLASLT_ORDER_COL32;
  EXPECT_EQ(choose(p), CUBLAS_STATUS_NOT_SUPPORTED);
  p = kPlain;
  p.d = matrix(kM, kN, CUBLASLT_ORDER_ROW);
  p.epilogue = CUBLASLT_EPILOGUE_RELU_BIAS;
  EXPECT_EQ(choose(p), CUBLAS_STATUS_NOT_SUPPORTED) << "cuBLASLt has none either";
}

TEST_F(CublasLtOnCpuTest, WorkspaceSizeAndAlignmentAreChecked) {
  ASSERT_EQ(choose(kPlain), CUBLAS_STATUS_SUCCESS);
  const std::size_t bytes = chosen_.workspaceSize;
  ASSERT_GT(bytes, 0u);
  ASSERT_LE(bytes, kPlain.workspace);
  const float *const a = device(random(kM * kK)), *const b = device(random(kK * kN));
  float *const d = memory(kM * kN), *const workspace = memory(bytes / 4 + 64);
  EXPECT_EQ(run_in(nullptr, 0, a, b, d), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(run_in(nullptr, bytes, a, b, d), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(run_in(workspace, bytes - 1, a, b, d), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(run_in(workspace + 1, bytes, a, b, d), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(run_in(workspace, bytes, a, b, d), CUBLAS_STATUS_SUCCESS);
  EXPECT_NE(host(workspace, 1)[0], 0) << "what it held is gone";

  Product none = kPlain;
  none.workspace = 0;
  ASSERT_EQ(choose(none), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(chosen_.workspaceSize, 0u);
  EXPECT_EQ(run_in(nullptr, 0, a, b, d), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
}

TEST_F(CublasLtOnCpuTest, PromisedAlignmentOfOperandsIsChecked) {
  float *const a = device(random(kM * kK + 1)), *const b = device(random(kK * kN + 1)), *const d = memory(kM * kN + 1);
  ASSERT_EQ(choose(kPlain), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(run(a + 1, b, d), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(run(a, b + 1, d), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(run(a, b, d + 1), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(run(nullptr, b, d), CUBLAS_STATUS_INVALID_VALUE);
  Product p = kPlain;
  p.alignment = 4;
  ASSERT_EQ(choose(p), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(run(a + 1, b + 1, d + 1), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
}

TEST_F(CublasLtOnCpuTest, BiasMustKeepTheAlignmentOfTheHeuristic) {
  const float *const a = device(random(kM * kK)), *const b = device(random(kK * kN)), *const bias = device(random(64));
  float* const d = memory(kM * kN);
  Product p = kPlain;
  p.epilogue = CUBLASLT_EPILOGUE_BIAS;
  const auto run_behind = [&](int elements) { return run(a, b, d, bias + elements); };
  ASSERT_EQ(choose(p), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(run_behind(4), CUBLAS_STATUS_INVALID_VALUE) << "nothing was said of it";
  p.bias = bias + 4;
  ASSERT_EQ(choose(p), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(run_behind(4), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(run_behind(2), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
}

TEST_F(CublasLtOnCpuTest, OperandsWithoutAlgorithmHaveDefaultAlignment) {
  const float *const a = device(random(kM * kK + 4)), *const b = device(random(kK * kN));
  float* const d = memory(kM * kN);
  ASSERT_EQ(choose(kPlain), CUBLAS_STATUS_SUCCESS);
  const float one = 1, zero = 0;
  const auto run_without = [&](const float* from) {
    return cublasLtMatmul(handle_, description_, &one, from, a_, b, b_, &zero, d, d_, d, d_, nullptr, nullptr, 0,
                          stream_);
  };
  EXPECT_EQ(run_without(a), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(run_without(a + 4), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
}

TEST_F(CublasLtOnCpuTest, ResultWithoutAlgorithmComesFirst) {
  ASSERT_EQ(choose(kPlain), CUBLAS_STATUS_SUCCESS);
  cublasLtMatmulHeuristicResult_t results[8];
  int count = 0;
  EXPECT_EQ(ask(results, 8, count), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(count, 2);
  EXPECT_NE(results[0].state, CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(results[1].state, CUBLAS_STATUS_SUCCESS);
}

TEST_F(CublasLtOnCpuTest, AlgorithmIsValidOnlyForItsProblem) {
  const float *const a = device(random(64)), *const b = device(random(64));
  float* const d = memory(64);
  ASSERT_EQ(choose(kPlain), CUBLAS_STATUS_SUCCESS);
  const cublasLtMatmulAlgo_t of_plain = chosen_.algo;
  Product wider = kPlain;
  ++wider.b.cols;
  ++wider.d.cols;
  ASSERT_EQ(choose(wider), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(run(a, b, d), CUBLAS_STATUS_SUCCESS);
  chosen_.algo = of_plain;
  EXPECT_EQ(run(a, b, d), CUBLAS_STATUS_INVALID_VALUE);
  chosen_.algo = {};
  EXPECT_EQ(run(a, b, d), CUBLAS_STATUS_INVALID_VALUE) << "never chosen";
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
}

TEST_F(CublasLtCudaTest, MissingBiasIsRejected) {
  Product p = kPlain;
  p.epilogue = CUBLASLT_EPILOGUE_BIAS;
  ASSERT_EQ(choose(p), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(run(device(random(kM * kK)), device(random(kK * kN)), memory(kM * kN)), CUBLAS_STATUS_INVALID_VALUE);
}

TEST_F(CublasLtOnCpuTest, DestroyedHandlesAreRejected) {
  ASSERT_EQ(choose(kPlain), CUBLAS_STATUS_SUCCESS);
  cublasLtHandle_t handle = nullptr;
  ASSERT_EQ(cublasLtCreate(&handle), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasLtDestroy(handle), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasLtDestroy(handle), CUBLAS_STATUS_INVALID_VALUE);
  std::swap(handle, handle_);
  EXPECT_EQ(run(device(random(kM * kK)), device(random(kK * kN)), memory(kM * kN)), CUBLAS_STATUS_NOT_INITIALIZED);
  std::swap(handle, handle_);
}

TEST_F(CublasLtCudaTest, RunsInStreamOrderAndInAGraph) {
  const Values a = random(kM * kK), b = random(kK * kN), zeros(kM * kN);
  float *const da = device(a), *const db = device(b), *const d = device(zeros);
  ASSERT_EQ(choose(kPlain), CUBLAS_STATUS_SUCCESS);
  float* const workspace = memory(chosen_.workspaceSize / 4);
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_EQ(run_in(workspace, chosen_.workspaceSize, da, db, d), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  EXPECT_EQ(host(d, zeros.size()), zeros);
  EXPECT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
  const std::size_t at = kPlain.d.at(2, 3);
  expect_close({host(d, zeros.size())[at]}, {element(kPlain, a, b, 2, 3)});
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

using CublasLtOnCpuDeathTest = CublasLtOnCpuTest;

TEST_F(CublasLtOnCpuTest, OpeningBreaksCapturesOfTheThreadAndClosingBreaksAny) {
  cudaGraph_t graph = nullptr;
  cublasLtHandle_t other = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_NE(cublasLtCreate(&other), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureInvalidated);
  ASSERT_EQ(cublasLtCreate(&other), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_NE(cublasLtDestroy(other), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureInvalidated);
}

TEST_F(CublasLtOnCpuDeathTest, GraphOutlivingItsHandleLosesTheDevice) {
  ASSERT_EQ(choose(kPlain), CUBLAS_STATUS_SUCCESS);
  const float *a = device(random(kPlain.a.count())), *b = device(random(kPlain.b.count()));
  float* d = memory(kPlain.d.count());
  const auto launch_without_handle = [&] {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    EXPECT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), cudaSuccess);
    EXPECT_EQ(run(a, b, d), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
    EXPECT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    EXPECT_EQ(cublasLtDestroy(handle_), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cudaGraphLaunch(executable, stream_), cudaSuccess);
    wait_and_exit();
  };
  EXPECT_EXIT(launch_without_handle(), testing::ExitedWithCode(3), "handle that was destroyed");
}

TEST_F(CublasLtOnCpuDeathTest, LeadingDimensionOutOfBoundsLosesTheDevice) {
  Product p = kPlain;
  p.b.ld += 1;
  ASSERT_EQ(choose(p), CUBLAS_STATUS_SUCCESS);
  const float *const a = device(random(kM * kK)), *const b = device(random(kK * kN));
  EXPECT_EXIT(
      {
        (void)run(a, b, memory(kM * kN));
        wait_and_exit();
      },
      ::testing::ExitedWithCode(3), "cublasLtMatmul.*(left of the 80|after an allocation of 80)");
}

TEST_F(CublasLtOnCpuDeathTest, OutputOverlappingAnInputLosesTheDevice) {
  ASSERT_EQ(choose(kPlain), CUBLAS_STATUS_SUCCESS);
  constexpr std::size_t kBehind = 16;  // beyond A's 15 elements, and aligned
  float* const a = device(random(kBehind + kM * kN));
  const float* const b = device(random(kK * kN));
  EXPECT_EXIT(
      {
        (void)run(a, b, a + kBehind - 4);
        wait_and_exit();
      },
      ::testing::ExitedWithCode(3), "cublasLtMatmul.*overlaps");
  EXPECT_EQ(run(a, b, a + kBehind), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess) << "side by side";
}

TEST_F(CublasLtOnCpuDeathTest, UninitialisedOperandLosesTheDevice) {
  ASSERT_EQ(choose(kPlain), CUBLAS_STATUS_SUCCESS);
  const float* const b = device(random(kK * kN));
  EXPECT_EXIT(
      {
        (void)run(memory(kM * kK), b, memory(kM * kN));
        wait_and_exit();
      },
      ::testing::ExitedWithCode(3), "cublasLtMatmul");
}

TEST_F(CublasLtOnCpuDeathTest, LeakedDescriptorFailsTheProcess) {
  ASSERT_EQ(choose(kPlain), CUBLAS_STATUS_SUCCESS);
  EXPECT_EXIT(std::exit(0), ::testing::ExitedWithCode(70), "cuBLASLt matrix layout: 3 not destroyed");
}

}  // namespace
}  // namespace cuda_on_cpu::test
