// Tests cuDNN: which descriptors it accepts and refuses, which the real cuDNN is also asked without a GPU
// (CudnnDescriptors, ctest cudnn_real_codes); that formats and windows are honoured and misfits are refused, on which a
// GPU must agree; and what the emulation adds to find misuse, or does not compute (CudnnOnCpu).

#include <cudnn.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#include "tests/cuda_on_cpu/libraries_test/library_test.h"

namespace cuda_on_cpu::test {
namespace {

// Images (n, c, h, w) or filters (k, c, h, w), in cuDNN's order.
struct Shape {
  int n, c, h, w;

  std::size_t count() const { return static_cast<std::size_t>(n * c * h * w); }
  std::size_t at(cudnnTensorFormat_t format, int i, int channel, int y, int x) const {
    return static_cast<std::size_t>(format == CUDNN_TENSOR_NHWC ? ((i * h + y) * w + x) * c + channel
                                                                : ((i * c + channel) * h + y) * w + x);
  }
};

struct Window {
  int pad_h = 0, pad_w = 0, stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;
};

// cuDNN's descriptors. They need no device.
class Descriptors {
 protected:
  Descriptors() {
    for (auto* tensor : {&x_, &y_, &other_}) EXPECT_EQ(cudnnCreateTensorDescriptor(tensor), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnCreateFilterDescriptor(&w_), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnCreateConvolutionDescriptor(&convolution_), CUDNN_STATUS_SUCCESS);
  }
  ~Descriptors() {
    EXPECT_EQ(cudnnDestroyConvolutionDescriptor(convolution_), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnDestroyFilterDescriptor(w_), CUDNN_STATUS_SUCCESS);
    for (auto tensor : {x_, y_, other_}) EXPECT_EQ(cudnnDestroyTensorDescriptor(tensor), CUDNN_STATUS_SUCCESS);
  }

  static cudnnStatus_t set(cudnnTensorDescriptor_t tensor, const Shape& s,
                           cudnnTensorFormat_t format = CUDNN_TENSOR_NHWC, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return cudnnSetTensor4dDescriptor(tensor, format, type, s.n, s.c, s.h, s.w);
  }
  static cudnnStatus_t set(cudnnFilterDescriptor_t filter, const Shape& s,
                           cudnnTensorFormat_t format = CUDNN_TENSOR_NHWC, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return cudnnSetFilter4dDescriptor(filter, type, format, s.n, s.c, s.h, s.w);
  }
  cudnnStatus_t set(const Window& window, cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION,
                    cudnnDataType_t compute = CUDNN_DATA_FLOAT) {
    return cudnnSetConvolution2dDescriptor(convolution_, window.pad_h, window.pad_w, window.stride_h, window.stride_w,
                                           window.dilation_h, window.dilation_w, mode, compute);
  }
  // Sets all of a convolution's descriptors, in one format.
  void set_all(const Shape& x, const Shape& w, const Shape& y, const Window& window,
               cudnnTensorFormat_t format = CUDNN_TENSOR_NHWC) {
    EXPECT_EQ(set(x_, x, format), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(set(w_, w, format), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(set(y_, y, format), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(set(window), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnSetConvolutionMathType(convolution_, CUDNN_FMA_MATH), CUDNN_STATUS_SUCCESS);
  }

  cudnnTensorDescriptor_t x_ = nullptr, y_ = nullptr, other_ = nullptr;
  cudnnFilterDescriptor_t w_ = nullptr;
  cudnnConvolutionDescriptor_t convolution_ = nullptr;
};

// Needs no device.
class CudnnDescriptorsTest : public ::testing::Test, protected Descriptors {};

class CudnnCudaTest : public LibraryTest, protected Descriptors {
 protected:
  void SetUp() override {
    LibraryTest::SetUp();
    if (IsSkipped()) return;
    EXPECT_EQ(cudnnCreate(&handle_), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnSetStream(handle_, stream_), CUDNN_STATUS_SUCCESS);
  }
  void TearDown() override {
    if (IsSkipped()) return;
    EXPECT_EQ(cudnnDestroy(handle_), CUDNN_STATUS_SUCCESS);
    LibraryTest::TearDown();
  }

  static constexpr auto kAlgorithm = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;

  cudnnStatus_t workspace(std::size_t* bytes, cudnnConvolutionFwdAlgo_t algorithm = kAlgorithm) {
    return cudnnGetConvolutionForwardWorkspaceSize(handle_, x_, w_, convolution_, y_, algorithm, bytes);
  }
  cudnnStatus_t forward(const float* x, const float* w, float* y, cudnnConvolutionFwdAlgo_t algorithm = kAlgorithm) {
    std::size_t bytes = 0;
    if (const cudnnStatus_t status = workspace(&bytes, algorithm); status != CUDNN_STATUS_SUCCESS) return status;
    return forward_in(memory(bytes / 4 + 1), bytes, x, w, y, algorithm);
  }
  cudnnStatus_t forward_in(void* workspace, std::size_t bytes, const float* x, const float* w, float* y,
                           cudnnConvolutionFwdAlgo_t algorithm = kAlgorithm) {
    return cudnnConvolutionForward(handle_, &one_, x_, x, w_, w, convolution_, algorithm, workspace, bytes, &zero_, y_,
                                   y);
  }

  cudnnHandle_t handle_ = nullptr;
  const float one_ = 1, zero_ = 0;
};

// The emulation's own checks, which find misuse.
class CudnnOnCpuTest : public CudnnCudaTest {};

const Shape kX{2, 3, 7, 6}, kW{4, 3, 3, 2};
const Window kWindow{.pad_h = 1, .pad_w = 2, .stride_h = 2, .stride_w = 3, .dilation_h = 2, .dilation_w = 1};
const Shape kY{2, 4, 3, 3};  // (7 + 2 - 5) / 2 + 1, (6 + 4 - 2) / 3 + 1

// Calls f(index in x, in w, in y) for each product, in the given format.
template <class F>
void for_each_product(cudnnTensorFormat_t format, F&& f) {
  for (int n = 0; n < kY.n; ++n)
    for (int o = 0; o < kY.c; ++o)
      for (int p = 0; p < kY.h; ++p)
        for (int q = 0; q < kY.w; ++q)
          for (int i = 0; i < kX.c; ++i)
            for (int ky = 0; ky < kW.h; ++ky)
              for (int kx = 0; kx < kW.w; ++kx) {
                const int row = p * kWindow.stride_h - kWindow.pad_h + ky * kWindow.dilation_h;
                const int column = q * kWindow.stride_w - kWindow.pad_w + kx * kWindow.dilation_w;
                if (row < 0 || row >= kX.h || column < 0 || column >= kX.w) continue;
                f(kX.at(format, n, i, row, column), kW.at(format, o, i, ky, kx), kY.at(format, n, o, p, q));
              }
}

TEST_F(CudnnCudaTest, ConvolutionsHonourFormatStridePadAndDilation) {
  for (const auto format : {CUDNN_TENSOR_NHWC, CUDNN_TENSOR_NCHW}) {
    SCOPED_TRACE(format);
    set_all(kX, kW, kY, kWindow, format);
    const Values x = random(kX.count()), w = random(kW.count()), dy = random(kY.count());
    std::vector<double> y(kY.count()), dx(kX.count()), dw(kW.count());
    for_each_product(format, [&](std::size_t at_x, std::size_t at_w, std::size_t at_y) {
      y[at_y] += static_cast<double>(x[at_x]) * w[at_w];
      dx[at_x] += static_cast<double>(dy[at_y]) * w[at_w];
      dw[at_w] += static_cast<double>(dy[at_y]) * x[at_x];
    });
    const float *const on_x = device(x), *const on_w = device(w), *const on_dy = device(dy);
    float *const on_y = memory(y.size()), *const on_dx = memory(dx.size()), *const on_dw = memory(dw.size());
    ASSERT_EQ(forward(on_x, on_w, on_y), CUDNN_STATUS_SUCCESS);
    expect_close(host(on_y, y.size()), y);

    std::size_t bytes = 0;
    const auto data = CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
    ASSERT_EQ(cudnnGetConvolutionBackwardDataWorkspaceSize(handle_, w_, y_, convolution_, x_, data, &bytes),
              CUDNN_STATUS_SUCCESS);
    ASSERT_EQ(cudnnConvolutionBackwardData(handle_, &one_, w_, on_w, y_, on_dy, convolution_, data, memory(bytes),
                                           bytes, &zero_, x_, on_dx),
              CUDNN_STATUS_SUCCESS);
    expect_close(host(on_dx, dx.size()), dx);

    const auto filter = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;
    ASSERT_EQ(cudnnGetConvolutionBackwardFilterWorkspaceSize(handle_, x_, y_, convolution_, w_, filter, &bytes),
              CUDNN_STATUS_SUCCESS);
    ASSERT_EQ(cudnnConvolutionBackwardFilter(handle_, &one_, x_, on_x, y_, on_dy, convolution_, filter, memory(bytes),
                                             bytes, &zero_, w_, on_dw),
              CUDNN_STATUS_SUCCESS);
    expect_close(host(on_dw, dw.size()), dw);
  }
}

// The real one may round, but need not.
TEST_F(CudnnOnCpuTest, WithoutFmaMathOperandsAreRounded) {
  const Shape one{1, 1, 1, 1};
  set_all(one, one, one, {});
  const float x = 1 + 0x1p-20f;
  float* const y = memory(1);
  for (const auto math : {CUDNN_FMA_MATH, CUDNN_DEFAULT_MATH}) {
    EXPECT_EQ(cudnnSetConvolutionMathType(convolution_, math), CUDNN_STATUS_SUCCESS);
    ASSERT_EQ(forward(device({x}), device({1}), y), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(host(y, 1)[0], math == CUDNN_FMA_MATH ? x : 1);
  }
}

TEST_F(CudnnOnCpuTest, SuggestionsHoldOneToPassOver) {
  set_all(kX, kW, kY, kWindow);
  std::array<cudnnConvolutionFwdAlgoPerf_t, 8> forward{};
  int count = 0;
  ASSERT_EQ(cudnnGetConvolutionForwardAlgorithm_v7(handle_, x_, w_, convolution_, y_, 8, &count, forward.data()),
            CUDNN_STATUS_SUCCESS);
  ASSERT_EQ(count, 2);
  EXPECT_EQ(forward[0].status, CUDNN_STATUS_NOT_SUPPORTED);
  std::size_t bytes = 0;
  EXPECT_EQ(workspace(&bytes, forward[0].algo), CUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(forward[1].status, CUDNN_STATUS_SUCCESS);

  std::array<cudnnConvolutionBwdFilterAlgoPerf_t, 8> backward{};
  ASSERT_EQ(
      cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle_, x_, y_, convolution_, w_, 8, &count, backward.data()),
      CUDNN_STATUS_SUCCESS);
  ASSERT_EQ(count, 3);
  EXPECT_EQ(backward[0].determinism, CUDNN_NON_DETERMINISTIC);
  ASSERT_EQ(cudnnGetConvolutionBackwardFilterWorkspaceSize(handle_, x_, y_, convolution_, w_, backward[0].algo, &bytes),
            CUDNN_STATUS_SUCCESS);
  const float *const x = device(random(kX.count())), *const dy = device(random(kY.count()));
  float* const dw = memory(kW.count());
  const auto run = [&] {
    EXPECT_EQ(cudnnConvolutionBackwardFilter(handle_, &one_, x_, x, y_, dy, convolution_, backward[0].algo,
                                             memory(bytes), bytes, &zero_, w_, dw),
              CUDNN_STATUS_SUCCESS);
    return host(dw, kW.count());
  };
  EXPECT_NE(run(), run()) << "it adds in another order each time";
}

TEST_F(CudnnDescriptorsTest, RefuseWhatTheyCannotHold) {
  EXPECT_EQ(set(x_, {2, 0, 7, 6}), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(set(x_, {2, 3, -1, 6}), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(set(x_, kX, CUDNN_TENSOR_NCHW_VECT_C), CUDNN_STATUS_BAD_PARAM) << "of numbers that are no vectors";
  EXPECT_EQ(set(x_, kX, CUDNN_TENSOR_NHWC, CUDNN_DATA_INT64), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(set(x_, {1 << 16, 1, 1 << 15, 1}), CUDNN_STATUS_NOT_SUPPORTED) << "2^31 elements";
  EXPECT_EQ(set(w_, {0, 3, 3, 2}), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(set(w_, kW, CUDNN_TENSOR_NCHW_VECT_C), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(set(w_, kW, CUDNN_TENSOR_NHWC, CUDNN_DATA_INT32), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(set(Window{.pad_h = -1}), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(set(Window{.stride_w = 0}), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(set(Window{.dilation_h = 0}), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(set(Window{}, CUDNN_CROSS_CORRELATION, CUDNN_DATA_BFLOAT16), CUDNN_STATUS_BAD_PARAM);
}

TEST_F(CudnnDescriptorsTest, RefuseWhatIsNoneOfTheirNames) {
  constexpr int kNone = 99;
  EXPECT_EQ(set(x_, kX, static_cast<cudnnTensorFormat_t>(kNone)), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(set(w_, kW, static_cast<cudnnTensorFormat_t>(kNone)), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(set(x_, kX, CUDNN_TENSOR_NHWC, static_cast<cudnnDataType_t>(kNone)), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(set(Window{}, static_cast<cudnnConvolutionMode_t>(kNone)), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(cudnnSetConvolutionMathType(convolution_, static_cast<cudnnMathType_t>(kNone)), CUDNN_STATUS_BAD_PARAM);
}

// Whether they can be computed is decided later.
TEST_F(CudnnDescriptorsTest, HoldMoreThanIsComputed) {
  for (const auto type : {CUDNN_DATA_DOUBLE, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16, CUDNN_DATA_INT8}) {
    EXPECT_EQ(set(x_, kX, CUDNN_TENSOR_NHWC, type), CUDNN_STATUS_SUCCESS) << type;
    EXPECT_EQ(set(w_, kW, CUDNN_TENSOR_NHWC, type), CUDNN_STATUS_SUCCESS) << type;
  }
  EXPECT_EQ(set(x_, {1 << 16, 1, (1 << 15) - 1, 1}), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(set(w_, {1 << 16, 1, 1 << 16, 1}), CUDNN_STATUS_SUCCESS) << "a filter has no most";
  EXPECT_EQ(set(x_, {2, 4, 7, 6}, CUDNN_TENSOR_NCHW_VECT_C, CUDNN_DATA_INT8x4), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(set(Window{}, CUDNN_CONVOLUTION), CUDNN_STATUS_SUCCESS);
  for (const auto type : {CUDNN_DATA_DOUBLE, CUDNN_DATA_HALF, CUDNN_DATA_INT32}) {
    EXPECT_EQ(set(Window{}, CUDNN_CROSS_CORRELATION, type), CUDNN_STATUS_SUCCESS) << type;
  }
}

TEST_F(CudnnDescriptorsTest, NoDescriptorIsRefusedButMayBeDestroyed) {
  EXPECT_EQ(cudnnCreateTensorDescriptor(nullptr), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(set(static_cast<cudnnTensorDescriptor_t>(nullptr), kX), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(set(static_cast<cudnnFilterDescriptor_t>(nullptr), kW), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(cudnnSetConvolutionMathType(nullptr, CUDNN_FMA_MATH), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(cudnnSetStream(nullptr, nullptr), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(cudnnDestroyTensorDescriptor(nullptr), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudnnDestroyFilterDescriptor(nullptr), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudnnDestroyConvolutionDescriptor(nullptr), CUDNN_STATUS_SUCCESS);
}

// For calls with a handle, cuDNN's reference names only the categories of its codes.
int category(cudnnStatus_t status) { return CUDNN_STATUS_CATEGORY(static_cast<int>(status)); }

TEST_F(CudnnCudaTest, ConvolutionsRefuseWhatDoesNotFit) {
  const float *const x = device(random(kX.count())), *const w = device(random(kW.count()));
  float* const y = memory(kY.count());
  std::size_t bytes = 0;
  EXPECT_EQ(category(workspace(&bytes)), CUDNN_STATUS_BAD_PARAM) << "nothing is set";
  for (const Shape& wrong : {Shape{3, 4, 3, 3}, {2, 3, 3, 3}, {2, 4, 4, 3}, {2, 4, 3, 2}}) {
    set_all(kX, kW, wrong, kWindow);
    EXPECT_EQ(category(forward(x, w, y)), CUDNN_STATUS_BAD_PARAM);
  }
  set_all(kX, {4, 2, 3, 2}, kY, kWindow);
  EXPECT_EQ(category(forward(x, w, y)), CUDNN_STATUS_BAD_PARAM) << "channels";
  set_all(kX, kW, kY, {.pad_h = 1, .pad_w = 2, .stride_h = 1, .stride_w = 3, .dilation_h = 2});
  EXPECT_EQ(category(forward(x, w, y)), CUDNN_STATUS_BAD_PARAM) << "stride";
  set_all(kX, {4, 3, 20, 2}, kY, kWindow);
  EXPECT_EQ(category(forward(x, w, y)), CUDNN_STATUS_BAD_PARAM) << "the filter is larger than the image";

  set_all(kX, kW, kY, kWindow);
  EXPECT_EQ(category(forward(x, w, y, CUDNN_CONVOLUTION_FWD_ALGO_FFT)), CUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(category(forward(nullptr, w, y)), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(category(forward(x, w, nullptr)), CUDNN_STATUS_BAD_PARAM);
}

TEST_F(CudnnOnCpuTest, TheWorkspaceIsHeldToItsSize) {
  const float *const x = device(random(kX.count())), *const w = device(random(kW.count()));
  float* const y = memory(kY.count());
  set_all(kX, kW, kY, kWindow);
  std::size_t bytes = 0;
  ASSERT_EQ(workspace(&bytes), CUDNN_STATUS_SUCCESS);
  ASSERT_GT(bytes, 0u);
  EXPECT_EQ(category(forward_in(nullptr, bytes, x, w, y)), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(category(forward_in(memory(bytes), bytes - 1, x, w, y)), CUDNN_STATUS_BAD_PARAM);
}

TEST_F(CudnnOnCpuTest, WhatIsNotEmulatedIsNotSupported) {
  const float *const x = device(random(kX.count())), *const w = device(random(kW.count()));
  float* const y = memory(kY.count());
  const auto expect_declined = [&](const char* what) {
    EXPECT_EQ(category(forward(x, w, y)), CUDNN_STATUS_NOT_SUPPORTED) << what;
    set_all(kX, kW, kY, kWindow);
  };
  set_all(kX, kW, kY, kWindow);
  EXPECT_EQ(set(w_, kW, CUDNN_TENSOR_NCHW), CUDNN_STATUS_SUCCESS);
  expect_declined("two formats");
  EXPECT_EQ(set(y_, kY, CUDNN_TENSOR_NCHW), CUDNN_STATUS_SUCCESS);
  expect_declined("two formats");
  for (const auto type : {CUDNN_DATA_DOUBLE, CUDNN_DATA_INT8}) {
    EXPECT_EQ(set(x_, kX, CUDNN_TENSOR_NHWC, type), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(set(w_, kW, CUDNN_TENSOR_NHWC, type), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(set(y_, kY, CUDNN_TENSOR_NHWC, type), CUDNN_STATUS_SUCCESS);
    expect_declined("f64 and integers");
  }
  EXPECT_EQ(set(kWindow, CUDNN_CONVOLUTION), CUDNN_STATUS_SUCCESS);
  expect_declined("a filter that is turned round");
  EXPECT_EQ(set(kWindow, CUDNN_CROSS_CORRELATION, CUDNN_DATA_HALF), CUDNN_STATUS_SUCCESS);
  expect_declined("sums in f16");
  EXPECT_EQ(forward(x, w, y), CUDNN_STATUS_SUCCESS);
}

TEST_F(CudnnOnCpuTest, WhatIsDestroyedIsRefused) {
  cudnnTensorDescriptor_t tensor = nullptr;
  ASSERT_EQ(cudnnCreateTensorDescriptor(&tensor), CUDNN_STATUS_SUCCESS);
  ASSERT_EQ(cudnnDestroyTensorDescriptor(tensor), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(set(tensor, kX), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(cudnnDestroyTensorDescriptor(tensor), CUDNN_STATUS_BAD_PARAM);
}

using CudnnOnCpuDeathTest = CudnnOnCpuTest;

TEST_F(CudnnOnCpuDeathTest, ATensorThatIsTooSmallLosesTheDevice) {
  set_all(kX, kW, kY, kWindow);
  const float *const x = device(random(kX.count())), *const w = device(random(kW.count()));
  EXPECT_EXIT(
      {
        (void)forward(x, w, memory(kY.count() - 1));
        wait_and_exit();
      },
      ::testing::ExitedWithCode(3), "cudnnConvolutionForward");
}

TEST_F(CudnnOnCpuDeathTest, AnOutputThatOverlapsAnInputLosesTheDevice) {
  set_all(kX, kW, kY, kWindow);
  float* const x = device(random(kX.count() + kY.count()));
  const float* const w = device(random(kW.count()));
  EXPECT_EXIT(
      {
        (void)forward(x, w, x + kX.count() - 1);
        wait_and_exit();
      },
      ::testing::ExitedWithCode(3), "cudnnConvolutionForward.*overlaps");
}

TEST_F(CudnnOnCpuDeathTest, ADescriptorThatIsLeftBehindFailsTheProcess) {
  EXPECT_EXIT(std::exit(0), ::testing::ExitedWithCode(70), "cuDNN tensor descriptor: 3 not destroyed");
}

}  // namespace
}  // namespace cuda_on_cpu::test
