// Tests cuDNN's backend API: which descriptors and graphs it accepts and refuses, also run with the real cuDNN without
// a GPU (CudnnDescriptorsTest, ctest cudnn_real_codes); that convolutions honour strides and windows and that misuse is
// refused, on which a GPU must agree (CudnnCudaTest); and what the emulation adds to find misuse, or does not compute
// (CudnnOnCpuTest).

#include <cudnn.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/cuda_on_cpu/libraries_test/library_test.h"

namespace cuda_on_cpu::test {
namespace {

using Dims = std::vector<std::int64_t>;

template <class T>
constexpr cudnnBackendAttributeType_t type_of() {
  if constexpr (std::is_same_v<T, std::int64_t>) return CUDNN_TYPE_INT64;
  if constexpr (std::is_same_v<T, double>) return CUDNN_TYPE_DOUBLE;
  if constexpr (std::is_same_v<T, float>) return CUDNN_TYPE_FLOAT;
  if constexpr (std::is_same_v<T, char>) return CUDNN_TYPE_CHAR;
  if constexpr (std::is_same_v<T, cudnnHandle_t>) return CUDNN_TYPE_HANDLE;
  if constexpr (std::is_same_v<T, cudnnDataType_t>) return CUDNN_TYPE_DATA_TYPE;
  if constexpr (std::is_same_v<T, cudnnConvolutionMode_t>) return CUDNN_TYPE_CONVOLUTION_MODE;
  if constexpr (std::is_same_v<T, cudnnPointwiseMode_t>) return CUDNN_TYPE_POINTWISE_MODE;
  if constexpr (std::is_same_v<T, cudnnNanPropagation_t>) return CUDNN_TYPE_NAN_PROPOGATION;
  if constexpr (std::is_same_v<T, cudnnBackendHeurMode_t>) return CUDNN_TYPE_HEUR_MODE;
  if constexpr (std::is_same_v<T, cudnnBackendNumericalNote_t>) return CUDNN_TYPE_NUMERICAL_NOTE;
  if constexpr (std::is_same_v<T, cudnnBackendKnobType_t>) return CUDNN_TYPE_KNOB_TYPE;
  return CUDNN_TYPE_BACKEND_DESCRIPTOR;
}

class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t kind) {
    EXPECT_EQ(cudnnBackendCreateDescriptor(kind, &raw_), CUDNN_STATUS_SUCCESS);
  }
  Descriptor(Descriptor&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
  ~Descriptor() {
    if (raw_ != nullptr) {
      EXPECT_EQ(cudnnBackendDestroyDescriptor(raw_), CUDNN_STATUS_SUCCESS);
    }
  }

  template <class T>
  cudnnStatus_t set(cudnnBackendAttributeName_t name, const std::vector<T>& values) {
    return cudnnBackendSetAttribute(raw_, name, type_of<T>(), static_cast<std::int64_t>(values.size()), values.data());
  }
  template <class T>
  cudnnStatus_t set(cudnnBackendAttributeName_t name, T value) {
    return cudnnBackendSetAttribute(raw_, name, type_of<T>(), 1, &value);
  }
  cudnnStatus_t set(cudnnBackendAttributeName_t name, bool value) {
    return cudnnBackendSetAttribute(raw_, name, CUDNN_TYPE_BOOLEAN, 1, &value);
  }
  cudnnStatus_t set(cudnnBackendAttributeName_t name, const Descriptor& value) { return set(name, value.raw_); }
  cudnnStatus_t set_pointers(cudnnBackendAttributeName_t name, const std::vector<void*>& values) {
    return cudnnBackendSetAttribute(raw_, name, CUDNN_TYPE_VOID_PTR, static_cast<std::int64_t>(values.size()),
                                    values.data());
  }
  template <class T>
  std::vector<T> get(cudnnBackendAttributeName_t name) const {
    std::int64_t count = 0;
    EXPECT_EQ(cudnnBackendGetAttribute(raw_, name, type_of<T>(), 0, &count, nullptr), CUDNN_STATUS_SUCCESS);
    std::vector<T> values(static_cast<std::size_t>(count));
    EXPECT_EQ(cudnnBackendGetAttribute(raw_, name, type_of<T>(), count, &count, values.data()), CUDNN_STATUS_SUCCESS);
    return values;
  }
  cudnnStatus_t finalize() { return cudnnBackendFinalize(raw_); }
  cudnnBackendDescriptor_t raw() const { return raw_; }

 private:
  cudnnBackendDescriptor_t raw_ = nullptr;
};

enum class Layout { nhwc, nchw };

Dims strides(const Dims& dims, Layout layout) {
  return layout == Layout::nhwc ? Dims{dims[1] * dims[2] * dims[3], 1, dims[1] * dims[3], dims[1]}
                                : Dims{dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};
}

std::size_t count(const Dims& dims) { return static_cast<std::size_t>(dims[0] * dims[1] * dims[2] * dims[3]); }

std::size_t at(const Dims& dims, Layout layout, std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
  const Dims s = strides(dims, layout);
  return static_cast<std::size_t>(n * s[0] + c * s[1] + h * s[2] + w * s[3]);
}

struct Tensor {
  std::int64_t uid;
  Dims dims;
  Layout layout = Layout::nhwc;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  bool is_virtual = false;
};

struct Window {
  Dims pre{0, 0}, post{0, 0}, strides{1, 1}, dilations{1, 1};
  cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
};

// Not finalized.
Descriptor describe(const Tensor& tensor) {
  Descriptor made(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  EXPECT_EQ(made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, tensor.uid), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, tensor.type), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(made.set(CUDNN_ATTR_TENSOR_DIMENSIONS, tensor.dims), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(made.set(CUDNN_ATTR_TENSOR_STRIDES, strides(tensor.dims, tensor.layout)), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(made.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t{16}), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(made.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, tensor.is_virtual), CUDNN_STATUS_SUCCESS);
  return made;
}

Descriptor describe(const Window& window) {
  Descriptor made(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  EXPECT_EQ(made.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, window.compute), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(made.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, window.mode), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(made.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{2}), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(made.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, window.pre), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(made.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, window.post), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(made.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, window.strides), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(made.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, window.dilations), CUDNN_STATUS_SUCCESS);
  return made;
}

template <class T>
Descriptor finalized(const T& value) {
  Descriptor made = describe(value);
  EXPECT_EQ(made.finalize(), CUDNN_STATUS_SUCCESS);
  return made;
}

enum class Direction { forward, backward_data, backward_filter };
constexpr std::array kDirections{Direction::forward, Direction::backward_data, Direction::backward_filter};

// Not finalized.
Descriptor convolution(Direction direction, const Tensor& x, const Tensor& w, const Tensor& y, const Window& window) {
  const auto make = [&](cudnnBackendDescriptorType_t kind, cudnnBackendAttributeName_t at_x,
                        cudnnBackendAttributeName_t at_w, cudnnBackendAttributeName_t at_y,
                        cudnnBackendAttributeName_t at_window) {
    Descriptor made(kind);
    EXPECT_EQ(made.set(at_x, finalized(x)), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(made.set(at_w, finalized(w)), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(made.set(at_y, finalized(y)), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(made.set(at_window, finalized(window)), CUDNN_STATUS_SUCCESS);
    return made;
  };
  switch (direction) {
    case Direction::forward:
      return make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC);
    case Direction::backward_data:
      return make(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC);
    default:
      return make(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC);
  }
}

struct Pointwise {
  cudnnPointwiseMode_t mode;
  double lower = 0, upper = std::numeric_limits<double>::max(), slope = 0;
  cudnnNanPropagation_t nan = CUDNN_PROPAGATE_NAN;
};

// Not finalized.
Descriptor pointwise(const Pointwise& how, const Tensor& x, const std::optional<Tensor>& b, const Tensor& y) {
  Descriptor described(CUDNN_BACKEND_POINTWISE_DESCRIPTOR), made(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  EXPECT_EQ(described.set(CUDNN_ATTR_POINTWISE_MODE, how.mode), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(described.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT), CUDNN_STATUS_SUCCESS);
  if (how.mode == CUDNN_POINTWISE_RELU_FWD) {
    EXPECT_EQ(described.set(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, how.nan), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(described.set(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, how.lower), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(described.set(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, how.upper), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(described.set(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, how.slope), CUDNN_STATUS_SUCCESS);
  }
  EXPECT_EQ(described.finalize(), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(made.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, described), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(made.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, finalized(x)), CUDNN_STATUS_SUCCESS);
  if (b) {
    EXPECT_EQ(made.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, finalized(*b)), CUDNN_STATUS_SUCCESS);
  }
  EXPECT_EQ(made.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, finalized(y)), CUDNN_STATUS_SUCCESS);
  return made;
}

using Operations = std::vector<Descriptor>;

template <class... D>
Operations operations(D... descriptors) {
  Operations all;
  (all.push_back(std::move(descriptors)), ...);
  for (Descriptor& one : all) EXPECT_EQ(one.finalize(), CUDNN_STATUS_SUCCESS);
  return all;
}

// Makes graphs and plans for `handle`, or, without one, for the H200 described here.
class Planner {
 protected:
  // Not finalized.
  Descriptor graph(const Operations& operations) const {
    Descriptor made(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    std::vector<cudnnBackendDescriptor_t> raw;
    for (const Descriptor& one : operations) raw.push_back(one.raw());
    EXPECT_EQ(made.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, raw), CUDNN_STATUS_SUCCESS);
    if (handle_ != nullptr) {
      EXPECT_EQ(made.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle_), CUDNN_STATUS_SUCCESS);
    }
    return made;
  }

  static Descriptor h200() {
    static constexpr std::string_view kProperties =
        R"({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,)"
        R"("multiProcessorCount":132,"warpSize":32,"maxSharedMemoryPerBlock":49152,)"
        R"("maxSharedMemoryPerBlockOptin":232448,"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,)"
        R"("maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,)"
        R"("supportCoopLaunch":1,"totalGlobalMem":150117810176,"smClockRateKHz":1980000,"memClockRateKHz":3201000,)"
        R"("memoryBusWidth":6144,"l2CacheSize":62914560,"cudaDeviceId":0,"deviceVer":900,"driverVer":13000,)"
        R"("deviceName":"NVIDIA H200"})";
    Descriptor made(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    EXPECT_EQ(
        made.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, std::vector<char>(kProperties.begin(), kProperties.end())),
        CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(made.finalize(), CUDNN_STATUS_SUCCESS);
    return made;
  }

  std::vector<Descriptor> configurations(const Operations& operations,
                                         cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A) const {
    Descriptor whole = graph(operations), heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    EXPECT_EQ(whole.finalize(), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, whole), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, mode), CUDNN_STATUS_SUCCESS);
    if (handle_ == nullptr) {
      EXPECT_EQ(heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, h200()), CUDNN_STATUS_SUCCESS);
    }
    EXPECT_EQ(heuristics.finalize(), CUDNN_STATUS_SUCCESS);
    const auto get = [&](std::int64_t wanted, cudnnBackendDescriptor_t* raw) {
      std::int64_t there = 0;
      EXPECT_EQ(cudnnBackendGetAttribute(heuristics.raw(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                         wanted, &there, raw),
                CUDNN_STATUS_SUCCESS);
      return there;
    };
    std::vector<Descriptor> made;
    std::vector<cudnnBackendDescriptor_t> raw;
    for (std::int64_t left = get(0, nullptr); left > 0; --left) {
      raw.push_back(made.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).raw());
    }
    // There may be fewer than were promised.
    const std::int64_t there = get(static_cast<std::int64_t>(raw.size()), raw.data());
    while (static_cast<std::int64_t>(made.size()) > there) made.pop_back();
    return made;
  }

  static std::vector<cudnnBackendNumericalNote_t> notes(const Descriptor& configuration) {
    const Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnnBackendDescriptor_t raw = engine.raw();
    EXPECT_EQ(cudnnBackendGetAttribute(configuration.raw(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                       1, nullptr, &raw),
              CUDNN_STATUS_SUCCESS);
    return engine.get<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE);
  }

  // Not finalized.
  static Descriptor plan(const Descriptor& configuration) {
    Descriptor made(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    EXPECT_EQ(made.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration), CUDNN_STATUS_SUCCESS);
    return made;
  }

  // The first plan with exactly these notes.
  std::optional<Descriptor> find(const Operations& operations,
                                 const std::vector<cudnnBackendNumericalNote_t>& wanted = {}) const {
    for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
      for (const Descriptor& configuration : configurations(operations, mode)) {
        if (notes(configuration) != wanted) continue;
        Descriptor made = plan(configuration);
        if (made.finalize() == CUDNN_STATUS_SUCCESS) return made;
      }
    }
    return {};
  }

  Descriptor load(std::string json) const {
    Descriptor made(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    EXPECT_EQ(made.set(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, std::vector<char>(json.begin(), json.end())),
              CUDNN_STATUS_SUCCESS);
    if (handle_ != nullptr) {
      EXPECT_EQ(made.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle_), CUDNN_STATUS_SUCCESS);
    } else {
      EXPECT_EQ(made.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, h200()), CUDNN_STATUS_SUCCESS);
    }
    return made;
  }
  static std::string json_of(const Descriptor& plan) {
    const auto json = plan.get<char>(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
    return {json.begin(), json.end()};
  }

  cudnnHandle_t handle_ = nullptr;
};

// A window with different padding at its two ends.
const Dims kX{2, 3, 7, 6}, kW{4, 3, 3, 2}, kBias{1, 4, 1, 1};
const Dims kY{2, 4, 3, 3};  // (7 + 1 + 2 - 5) / 2 + 1, (6 + 2 + 1 - 2) / 3 + 1
const Window kWindow{.pre = {1, 2}, .post = {2, 1}, .strides = {2, 3}, .dilations = {2, 1}};

const Tensor kTensorX{1, kX}, kTensorW{2, kW}, kTensorY{3, kY}, kTensorBias{4, kBias}, kTensorOut{5, kY};
const Tensor kVirtualY{3, kY, Layout::nhwc, CUDNN_DATA_FLOAT, true},
    kVirtualSum{6, kY, Layout::nhwc, CUDNN_DATA_FLOAT, true};

Descriptor convolution(Direction direction) { return convolution(direction, kTensorX, kTensorW, kTensorY, kWindow); }

// relu(x * w + bias)
Operations fused(const Pointwise& relu = {CUDNN_POINTWISE_RELU_FWD}) {
  return operations(convolution(Direction::forward, kTensorX, kTensorW, kVirtualY, kWindow),
                    pointwise({CUDNN_POINTWISE_ADD}, kVirtualY, kTensorBias, kVirtualSum),
                    pointwise(relu, kVirtualSum, {}, kTensorOut));
}

class CudnnDescriptorsTest : public ::testing::Test, protected Planner {
 protected:
  static cudnnStatus_t finalize(Descriptor descriptor) { return descriptor.finalize(); }
};

TEST_F(CudnnDescriptorsTest, RejectAttributesOfWrongTypeCountOrKind) {
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const auto name = CUDNN_ATTR_TENSOR_DATA_TYPE;
  EXPECT_EQ(tensor.set(name, std::int64_t{0}), CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
  EXPECT_EQ(tensor.set(name, std::vector{CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT}), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(cudnnBackendSetAttribute(tensor.raw(), name, CUDNN_TYPE_DATA_TYPE, 1, nullptr), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, Dims{}), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(tensor.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT), CUDNN_STATUS_BAD_PARAM);
  Descriptor relu(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  EXPECT_EQ(relu.set(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, 1.0f), CUDNN_STATUS_SUCCESS) << "f32 for f64";
  Descriptor operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  EXPECT_EQ(operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, cudnnBackendDescriptor_t{nullptr}),
            CUDNN_STATUS_BAD_PARAM);
}

TEST_F(CudnnDescriptorsTest, CanBeReadOnceFinalized) {
  Descriptor tensor = describe(kTensorX);
  std::int64_t values[8] = {}, count = 0;
  const auto get = [&](std::int64_t wanted, cudnnBackendAttributeType_t type = CUDNN_TYPE_INT64) {
    return cudnnBackendGetAttribute(tensor.raw(), CUDNN_ATTR_TENSOR_DIMENSIONS, type, wanted, &count, values);
  };
  EXPECT_EQ(get(4), CUDNN_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(tensor.finalize(), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(tensor.finalize(), CUDNN_STATUS_BAD_PARAM) << "twice";
  EXPECT_EQ(tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, std::int64_t{9}), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(tensor.get<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS), kX);
  EXPECT_EQ(get(8), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(count, 4);
  EXPECT_EQ(get(2), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(count, 2);
  EXPECT_EQ(get(-1), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(get(4, CUDNN_TYPE_DOUBLE), CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
}

TEST_F(CudnnDescriptorsTest, NullDescriptorIsRejected) {
  std::int64_t value = 1;
  EXPECT_EQ(cudnnBackendFinalize(nullptr), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  EXPECT_EQ(cudnnBackendDestroyDescriptor(nullptr), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  EXPECT_EQ(cudnnBackendSetAttribute(nullptr, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &value),
            CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  EXPECT_EQ(cudnnBackendGetAttribute(nullptr, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &value, &value),
            CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(cudnnBackendExecute(nullptr, nullptr, nullptr), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(cudnnSetStream(nullptr, nullptr), CUDNN_STATUS_BAD_PARAM);
  cudnnBackendDescriptor_t made = nullptr;
  EXPECT_EQ(cudnnBackendCreateDescriptor(static_cast<cudnnBackendDescriptorType_t>(63), &made),
            CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
}

TEST_F(CudnnDescriptorsTest, TensorsNeedShapeStridesAndAlignment) {
  const auto with = [](auto name, auto value) {
    Descriptor tensor = describe(kTensorX);
    EXPECT_EQ(tensor.set(name, value), CUDNN_STATUS_SUCCESS) << "only finalizing checks";
    return tensor.finalize();
  };
  EXPECT_EQ(finalize(Descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR)), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(with(CUDNN_ATTR_TENSOR_DIMENSIONS, Dims{2, -3, 7, 6}), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(with(CUDNN_ATTR_TENSOR_DIMENSIONS, Dims{2, 3, 7}), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(with(CUDNN_ATTR_TENSOR_STRIDES, Dims{126, -1, 18, 3}), CUDNN_STATUS_BAD_PARAM);
  for (const std::int64_t alignment : {-16, 0, 2, 3}) {
    EXPECT_EQ(with(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, alignment), CUDNN_STATUS_BAD_PARAM) << alignment;
  }
  EXPECT_EQ(with(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_INT8x4), CUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(with(CUDNN_ATTR_TENSOR_IS_BY_VALUE, true), CUDNN_STATUS_BAD_PARAM) << "more than one element";

  EXPECT_EQ(with(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_DOUBLE), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(with(CUDNN_ATTR_TENSOR_DIMENSIONS, Dims{2, 0, 7, 6}), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(with(CUDNN_ATTR_TENSOR_STRIDES, Dims{0, 0, 0, 0}), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(with(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t{4}), CUDNN_STATUS_SUCCESS);
}

TEST_F(CudnnDescriptorsTest, WindowsHaveOneValueForEachAxis) {
  EXPECT_EQ(finalize(Descriptor(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(finalize(describe(Window{.pre = {1}})), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(finalize(describe(Window{.post = {1, 1, 1}})), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(finalize(describe(Window{.pre = {-1, 0}})), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(finalize(describe(Window{.post = {-1, 0}})), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(finalize(describe(Window{.strides = {1, 0}})), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(finalize(describe(Window{.dilations = {0, 1}})), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(finalize(describe(Window{.compute = CUDNN_DATA_BFLOAT16})), CUDNN_STATUS_SUCCESS);
}

TEST_F(CudnnDescriptorsTest, OperationsNeedMatchingTensors) {
  for (const Direction direction : kDirections) {
    const auto with = [&](const Dims& x, const Dims& w, const Dims& y, const Window& window = kWindow) {
      return finalize(convolution(direction, {1, x}, {2, w}, {3, y}, window));
    };
    EXPECT_EQ(with(kX, kW, kY), CUDNN_STATUS_SUCCESS);
    for (const Dims& wrong : {Dims{3, 4, 3, 3}, {2, 3, 3, 3}, {2, 4, 4, 3}, {2, 4, 3, 2}, {0, 4, 3, 3}}) {
      EXPECT_EQ(with(kX, kW, wrong), CUDNN_STATUS_BAD_PARAM);
    }
    EXPECT_EQ(with(kX, {4, 2, 3, 2}, kY), CUDNN_STATUS_BAD_PARAM) << "channels";
    EXPECT_EQ(with(kX, {4, 3, 20, 2}, kY), CUDNN_STATUS_BAD_PARAM) << "the filter is larger than the image";
    EXPECT_EQ(with(kX, kW, kY, {}), CUDNN_STATUS_BAD_PARAM) << "another window";
  }
  Descriptor operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR), tensor = describe(kTensorX);
  EXPECT_EQ(operation.finalize(), CUDNN_STATUS_BAD_PARAM) << "there is no tensor";
  Descriptor other = convolution(Direction::forward);
  EXPECT_EQ(other.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, tensor), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(tensor.finalize(), CUDNN_STATUS_SUCCESS) << "after it was copied";
  EXPECT_EQ(other.finalize(), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(finalize(pointwise({CUDNN_POINTWISE_ADD}, kVirtualY, {}, kTensorOut)), CUDNN_STATUS_BAD_PARAM);
}

TEST_F(CudnnDescriptorsTest, GraphOperationsNeedSeparateResults) {
  EXPECT_EQ(finalize(graph({})), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(finalize(graph(operations(convolution(Direction::forward), convolution(Direction::forward)))),
            CUDNN_STATUS_BAD_PARAM);
  Descriptor whole(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  EXPECT_EQ(whole.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, convolution(Direction::forward)),
            CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
  EXPECT_EQ(whole.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, cudnnHandle_t{nullptr}), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
}

TEST_F(CudnnDescriptorsTest, EnginesBelongToTheGraph) {
  Descriptor whole = graph(operations(convolution(Direction::forward)));
  ASSERT_EQ(whole.finalize(), CUDNN_STATUS_SUCCESS);
  std::int64_t engines = 0;
  EXPECT_EQ(cudnnBackendGetAttribute(whole.raw(), CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, CUDNN_TYPE_INT64, 1,
                                     nullptr, &engines),
            CUDNN_STATUS_SUCCESS);
  const auto engine = [&](std::int64_t index) {
    Descriptor made(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    EXPECT_EQ(made.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, whole), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(made.set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, index), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(made.set(CUDNN_ATTR_ENGINE_DEVICEPROP, h200()), CUDNN_STATUS_SUCCESS);
    return made;
  };
  EXPECT_EQ(finalize(engine(0)), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(finalize(engine(-1)), CUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(finalize(engine(engines)), CUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(finalize(Descriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR)), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  EXPECT_EQ(finalize(Descriptor(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)), CUDNN_STATUS_BAD_PARAM);

  Descriptor first = engine(0), knob(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
  ASSERT_EQ(first.finalize(), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(knob.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_KNOB_TYPE_STREAM_K), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(knob.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, std::int64_t{1}), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(knob.finalize(), CUDNN_STATUS_SUCCESS);
  Descriptor configuration(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  EXPECT_EQ(configuration.set(CUDNN_ATTR_ENGINECFG_ENGINE, first), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(configuration.set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, knob), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(configuration.finalize(), CUDNN_STATUS_NOT_SUPPORTED) << "a knob that the engine has not";
}

TEST_F(CudnnDescriptorsTest, ConvolutionsHavePlansWithoutTensorCores) {
  for (const Direction direction : kDirections) {
    for (const Layout layout : {Layout::nhwc, Layout::nchw}) {
      EXPECT_TRUE(find(operations(convolution(direction, {1, kX, layout}, {2, kW, layout}, {3, kY, layout}, kWindow))))
          << static_cast<int>(direction) << static_cast<int>(layout);
    }
  }
  EXPECT_TRUE(find(fused()));
  EXPECT_FALSE(find(fused({CUDNN_POINTWISE_RELU_FWD, 0, 6}))) << "another upper clip";
  EXPECT_TRUE(find(fused({.mode = CUDNN_POINTWISE_RELU_FWD, .nan = CUDNN_NOT_PROPAGATE_NAN})));
  EXPECT_TRUE(find(operations(convolution(Direction::forward, kTensorX, kTensorW, kVirtualY, kWindow),
                              pointwise({CUDNN_POINTWISE_ADD}, kTensorBias, kVirtualY, kTensorOut))))
      << "the bias may come first";
}

// Finalizing the heuristics succeeds, and there are no results.
TEST_F(CudnnDescriptorsTest, GraphWithoutPlanHasNoConfiguration) {
  const auto expect_none = [&](const Operations& operations, const char* what) {
    EXPECT_TRUE(configurations(operations).empty()) << what;
    EXPECT_TRUE(configurations(operations, CUDNN_HEUR_MODE_FALLBACK).empty()) << what;
  };
  const auto typed = [](Tensor tensor, cudnnDataType_t type) {
    tensor.type = type;
    return tensor;
  };
  for (const Direction direction : kDirections) {
    for (const auto type : {CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16}) {
      EXPECT_FALSE(configurations(operations(convolution(direction, typed(kTensorX, type), typed(kTensorW, type),
                                                         typed(kTensorY, type), kWindow)))
                       .empty());
      Tensor x = typed(kTensorX, type), w = typed(kTensorW, type), y = typed(kTensorY, type);
      (direction == Direction::forward ? y : direction == Direction::backward_data ? x : w).type = CUDNN_DATA_FLOAT;
      expect_none(operations(convolution(direction, x, w, y, kWindow)), "from 16 bits into f32");
    }
    const auto type = CUDNN_DATA_DOUBLE;
    expect_none(operations(convolution(direction, typed(kTensorX, type), typed(kTensorW, type), typed(kTensorY, type),
                                       kWindow)),
                "f64 summed in f32");
  }
  expect_none(
      operations(convolution(Direction::forward), pointwise({CUDNN_POINTWISE_ADD}, kTensorY, kTensorBias, kVirtualSum),
                 pointwise({CUDNN_POINTWISE_RELU_FWD}, kVirtualSum, {}, kTensorOut)),
      "an intermediate result that is not virtual");
  expect_none(operations(convolution(Direction::forward, kTensorX, kTensorW, kVirtualY, kWindow),
                         pointwise({CUDNN_POINTWISE_ADD}, kVirtualY, kTensorBias, kVirtualSum)),
              "a virtual result");
  expect_none(operations(convolution(Direction::forward, kTensorX, kTensorW, kVirtualY, kWindow),
                         pointwise({CUDNN_POINTWISE_RELU_FWD}, kVirtualY, {}, kTensorOut)),
              "ReLU without a bias");
  expect_none(fused({CUDNN_POINTWISE_RELU_FWD, 0, std::numeric_limits<double>::max(), 0.1}), "a slope");
  expect_none(fused({CUDNN_POINTWISE_RELU_FWD, 1}), "a lower clip");
  expect_none(fused({CUDNN_POINTWISE_GELU_FWD}), "another function");
}

TEST_F(CudnnDescriptorsTest, PlansAreSavedAndLoaded) {
  EXPECT_EQ(finalize(Descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)), CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
  const std::optional<Descriptor> made = find(fused());
  ASSERT_TRUE(made);
  const std::string json = json_of(*made);
  Descriptor loaded = load(json);
  ASSERT_EQ(loaded.finalize(), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(json_of(loaded), json);
  for (const std::string& wrong : {json.substr(0, json.size() / 2), "x" + json, std::string("{}"), std::string("x")}) {
    EXPECT_EQ(finalize(load(wrong)), CUDNN_STATUS_BAD_PARAM);
  }
  std::string older = json;
  const std::string version = std::to_string(CUDNN_VERSION);
  ASSERT_NE(older.find(version), older.npos);
  older.replace(older.find(version), version.size(), std::to_string(CUDNN_VERSION - 100));
  EXPECT_EQ(finalize(load(older)), CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH);
}

TEST_F(CudnnDescriptorsTest, PacksPairIdsWithPointers) {
  const auto pack = [](const Dims& uids, std::size_t pointers) {
    Descriptor made(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    EXPECT_EQ(made.set_pointers(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, std::vector<void*>(pointers)),
              CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(made.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, uids), CUDNN_STATUS_SUCCESS);
    return made.finalize();
  };
  EXPECT_EQ(pack({1, 2, 3}, 3), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(pack({1, 2, 3}, 2), CUDNN_STATUS_BAD_PARAM);
}

// For calls with a handle, cuDNN's reference names only the categories of its codes.
int category(cudnnStatus_t status) { return CUDNN_STATUS_CATEGORY(static_cast<int>(status)); }

class CudnnCudaTest : public LibraryTest, protected Planner {
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

  static std::size_t workspace_of(const Descriptor& plan) {
    return static_cast<std::size_t>(plan.get<std::int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE).front());
  }
  using Pointers = std::vector<std::pair<std::int64_t, const float*>>;
  cudnnStatus_t execute_in(void* workspace, const Descriptor& plan, const Pointers& pointers) {
    Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    Dims uids;
    std::vector<void*> data;
    for (const auto& [uid, pointer] : pointers) {
      uids.push_back(uid);
      data.push_back(const_cast<float*>(pointer));
    }
    EXPECT_EQ(pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, uids), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(pack.set_pointers(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, data), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(pack.set_pointers(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, {workspace}), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(pack.finalize(), CUDNN_STATUS_SUCCESS);
    return cudnnBackendExecute(handle_, plan.raw(), pack.raw());
  }
  cudnnStatus_t execute(const Descriptor& plan, const Pointers& pointers) {
    return execute_in(memory(workspace_of(plan) / 4 + 1), plan, pointers);
  }
  Descriptor careful(const Operations& operations) const {
    std::optional<Descriptor> found = find(operations);
    EXPECT_TRUE(found) << "no deterministic plan in true f32";
    return found ? std::move(*found) : Descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  }
};

// The emulation's own checks, which find misuse.
class CudnnOnCpuTest : public CudnnCudaTest {
 protected:
  void TearDown() override {
    decline(0);
    CudnnCudaTest::TearDown();
  }
  // tests/cuda_on_cpu/libraries/decline.h
  static void decline(int mode) { reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "cuda_on_cpu_decline"))(mode); }
};

// Calls f(index in x, in w, in y) for each product.
template <class F>
void for_each_product(Layout layout, F&& f) {
  for (std::int64_t n = 0; n < kY[0]; ++n)
    for (std::int64_t o = 0; o < kY[1]; ++o)
      for (std::int64_t p = 0; p < kY[2]; ++p)
        for (std::int64_t q = 0; q < kY[3]; ++q)
          for (std::int64_t i = 0; i < kX[1]; ++i)
            for (std::int64_t kh = 0; kh < kW[2]; ++kh)
              for (std::int64_t kw = 0; kw < kW[3]; ++kw) {
                const std::int64_t row = p * kWindow.strides[0] - kWindow.pre[0] + kh * kWindow.dilations[0];
                const std::int64_t column = q * kWindow.strides[1] - kWindow.pre[1] + kw * kWindow.dilations[1];
                if (row < 0 || row >= kX[2] || column < 0 || column >= kX[3]) continue;
                f(at(kX, layout, n, i, row, column), at(kW, layout, o, i, kh, kw), at(kY, layout, n, o, p, q));
              }
}

TEST_F(CudnnCudaTest, ConvolutionsHonourStridesPaddingAndDilation) {
  for (const Layout layout : {Layout::nhwc, Layout::nchw}) {
    SCOPED_TRACE(static_cast<int>(layout));
    const Values x = random(count(kX)), w = random(count(kW)), dy = random(count(kY));
    std::vector<double> y(count(kY)), dx(count(kX)), dw(count(kW));
    for_each_product(layout, [&](std::size_t at_x, std::size_t at_w, std::size_t at_y) {
      y[at_y] += static_cast<double>(x[at_x]) * w[at_w];
      dx[at_x] += static_cast<double>(dy[at_y]) * w[at_w];
      dw[at_w] += static_cast<double>(dy[at_y]) * x[at_x];
    });
    const float *const on_x = device(x), *const on_w = device(w), *const on_dy = device(dy);
    const auto run = [&](Direction direction, const float* x, const float* w, const float* y) {
      const Descriptor plan =
          careful(operations(convolution(direction, {1, kX, layout}, {2, kW, layout}, {3, kY, layout}, kWindow)));
      EXPECT_EQ(execute(plan, {{1, x}, {2, w}, {3, y}}), CUDNN_STATUS_SUCCESS);
    };
    float *const on_y = memory(y.size()), *const on_dx = memory(dx.size()), *const on_dw = memory(dw.size());
    run(Direction::forward, on_x, on_w, on_y);
    expect_close(host(on_y, y.size()), y);
    run(Direction::backward_data, on_dx, on_w, on_dy);
    expect_close(host(on_dx, dx.size()), dx);
    run(Direction::backward_filter, on_x, on_dw, on_dy);
    expect_close(host(on_dw, dw.size()), dw);
  }
}

TEST_F(CudnnCudaTest, LoadedPlanAppliesBiasAndRelu) {
  const Values x = random(count(kX)), w = random(count(kW)), bias = random(count(kBias));
  std::vector<double> y(count(kY));
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = bias[i % bias.size()];
  for_each_product(Layout::nhwc, [&](std::size_t at_x, std::size_t at_w, std::size_t at_y) {
    y[at_y] += static_cast<double>(x[at_x]) * w[at_w];
  });
  for (double& value : y) value = std::max(value, 0.0);
  Descriptor plan = load(json_of(careful(fused())));
  ASSERT_EQ(plan.finalize(), CUDNN_STATUS_SUCCESS);
  float* const out = memory(y.size());
  ASSERT_EQ(execute(plan, {{1, device(x)}, {2, device(w)}, {4, device(bias)}, {5, out}}), CUDNN_STATUS_SUCCESS);
  expect_close(host(out, y.size()), y);
}

TEST_F(CudnnCudaTest, ReluPropagatesNanOnRequest) {
  const Values bias{std::numeric_limits<float>::quiet_NaN(), -100, 100, 0};
  float* const out = memory(count(kY));
  ASSERT_EQ(execute(careful(fused()),
                    {{1, device(random(count(kX)))}, {2, device(random(count(kW)))}, {4, device(bias)}, {5, out}}),
            CUDNN_STATUS_SUCCESS);
  const Values y = host(out, count(kY));
  for (std::size_t i = 0; i < y.size(); i += 4) {
    EXPECT_TRUE(std::isnan(y[i]));
    EXPECT_EQ(y[i + 1], 0);
    EXPECT_GT(y[i + 2], 0);
  }
}

// Tests the documented defaults and clips. The result for a NaN is not documented.
TEST_F(CudnnOnCpuTest, ReluClipsInfinityAndDropsNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  constexpr float kLargest = std::numeric_limits<float>::max();
  const Values bias{std::numeric_limits<float>::quiet_NaN(), infinity, -infinity, -100};
  float* const out = memory(count(kY));
  ASSERT_EQ(execute(careful(fused({CUDNN_POINTWISE_RELU_FWD, 0, kLargest, 0, CUDNN_NOT_PROPAGATE_NAN})),
                    {{1, device(random(count(kX)))}, {2, device(random(count(kW)))}, {4, device(bias)}, {5, out}}),
            CUDNN_STATUS_SUCCESS);
  const Values y = host(out, count(kY));
  EXPECT_EQ(Values(y.begin(), y.begin() + 4), (Values{0, kLargest, 0, 0}));
}

TEST_F(CudnnOnCpuTest, SixteenBitResultsAreRoundedOnce) {
  const auto type = CUDNN_DATA_BFLOAT16;
  const Dims one{1, 1, 1, 1}, two{1, 2, 1, 1};
  const Tensor x{1, two, Layout::nhwc, type}, w{2, two, Layout::nhwc, type},
      y{3, one, Layout::nhwc, CUDNN_DATA_FLOAT, true}, bias{4, one, Layout::nhwc, type},
      out{5, one, Layout::nhwc, type};
  const auto plan =
      find(operations(convolution(Direction::forward, x, w, y, {}), pointwise({CUDNN_POINTWISE_ADD}, y, bias, out)),
           {CUDNN_NUMERICAL_NOTE_TENSOR_CORE});
  ASSERT_TRUE(plan);
  const auto upload = [&](std::uint32_t bits) { return device({std::bit_cast<float>(bits)}); };
  constexpr std::uint32_t kOne = 0x3f80, kSmall = 0x3b80;  // 1 and 2^-8
  float* const result = memory(1);
  EXPECT_EQ(cudaMemsetAsync(result, 0, 4, stream_), cudaSuccess);
  // 1 + 2^-8 rounds to 1, so rounding twice would lose the bias.
  ASSERT_EQ(
      execute(*plan,
              {{1, upload(kOne << 16 | kOne)}, {2, upload(kSmall << 16 | kOne)}, {4, upload(kSmall)}, {5, result}}),
      CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(host(result, 1)[0]), 0x3f81u) << "1 + 2^-7";
}

// The real one may round, but need not.
TEST_F(CudnnOnCpuTest, TensorCoresRoundF32) {
  const Dims one{1, 1, 1, 1};
  const Operations graph = operations(convolution(Direction::forward, {1, one}, {2, one}, {3, one}, {}));
  const float x = 1 + 0x1p-20f;
  float* const y = memory(1);
  for (const bool rounds : {false, true}) {
    const auto plan = find(
        graph, rounds ? std::vector{CUDNN_NUMERICAL_NOTE_TENSOR_CORE} : std::vector<cudnnBackendNumericalNote_t>{});
    ASSERT_TRUE(plan);
    ASSERT_EQ(execute(*plan, {{1, device({x})}, {2, device({1})}, {3, y}}), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(host(y, 1)[0], rounds ? 1 : x);
  }
}

TEST_F(CudnnOnCpuTest, SuggestionsIncludeUnusableOnes) {
  for (const Direction direction : kDirections) {
    const auto suggested = configurations(operations(convolution(direction)));
    ASSERT_GT(suggested.size(), 2u);
    EXPECT_EQ(notes(suggested[0]), std::vector{CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC});
    Descriptor first = plan(suggested[0]);
    ASSERT_EQ(first.finalize(), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(plan(suggested[1]).finalize(), CUDNN_STATUS_NOT_SUPPORTED) << "although it was suggested";

    const Dims* const outs[] = {&kY, &kX, &kW};
    const std::size_t size = count(*outs[static_cast<int>(direction)]);
    const float *const x = device(random(count(kX))), *const w = device(random(count(kW))),
                       *const y = device(random(count(kY)));
    const auto run = [&] {
      float* const out = memory(size);
      EXPECT_EQ(execute(first, {{1, direction == Direction::backward_data ? out : x},
                                {2, direction == Direction::backward_filter ? out : w},
                                {3, direction == Direction::forward ? out : y}}),
                CUDNN_STATUS_SUCCESS);
      return host(out, size);
    };
    EXPECT_NE(run(), run()) << "it adds in another order each time";
  }
}

TEST_F(CudnnOnCpuTest, PlansAreDeclinedOrFailToRun) {
  const float *const x = device(random(count(kX))), *const w = device(random(count(kW)));
  float* const y = memory(count(kY));
  const Operations graph = operations(convolution(Direction::forward));
  const Descriptor made = careful(graph);
  decline(1);
  EXPECT_FALSE(find(graph));
  EXPECT_EQ(load(json_of(made)).finalize(), CUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(execute(made, {{1, x}, {2, w}, {3, y}}), CUDNN_STATUS_SUCCESS) << "it was made before";
  decline(2);
  EXPECT_TRUE(find(graph));
  EXPECT_EQ(execute(made, {{1, x}, {2, w}, {3, y}}), CUDNN_STATUS_NOT_SUPPORTED);
}

TEST_F(CudnnCudaTest, ExecutionNeedsAllPointers) {
  const Descriptor plan = careful(operations(convolution(Direction::forward)));
  const float* const x = device(random(count(kX)));
  float* const y = memory(count(kY));
  EXPECT_EQ(category(execute(plan, {{1, x}, {3, y}})), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(category(execute(plan, {{1, x}, {2, nullptr}, {3, y}})), CUDNN_STATUS_BAD_PARAM);
}

TEST_F(CudnnOnCpuTest, WorkspaceAndAlignmentAreChecked) {
  const Descriptor plan = careful(operations(convolution(Direction::forward)));
  ASSERT_GT(workspace_of(plan), 0u);
  const float *const x = device(random(count(kX) + 1)), *const w = device(random(count(kW)));
  float* const y = memory(count(kY));
  EXPECT_EQ(category(execute_in(nullptr, plan, {{1, x}, {2, w}, {3, y}})), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(category(execute(plan, {{1, x + 1}, {2, w}, {3, y}})), CUDNN_STATUS_BAD_PARAM);
}

// The real one has plans for these.
TEST_F(CudnnOnCpuTest, UnemulatedGraphsHaveNoPlan) {
  const auto none = [&](const Operations& operations) { return configurations(operations).empty(); };
  Window window = kWindow;
  window.mode = CUDNN_CONVOLUTION;
  EXPECT_TRUE(none(operations(convolution(Direction::forward, kTensorX, kTensorW, kTensorY, window))))
      << "a filter that is turned round";
  Descriptor scaled = convolution(Direction::forward);
  EXPECT_EQ(scaled.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 1.0f), CUDNN_STATUS_SUCCESS);
  EXPECT_TRUE(none(operations(std::move(scaled)))) << "the result is added to what is there";
}

TEST_F(CudnnOnCpuTest, DestroyedHandlesAreRejected) {
  cudnnBackendDescriptor_t tensor = nullptr;
  ASSERT_EQ(cudnnBackendCreateDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, &tensor), CUDNN_STATUS_SUCCESS);
  ASSERT_EQ(cudnnBackendDestroyDescriptor(tensor), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(category(cudnnBackendFinalize(tensor)), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(category(cudnnBackendDestroyDescriptor(tensor)), CUDNN_STATUS_BAD_PARAM);
}

using CudnnOnCpuDeathTest = CudnnOnCpuTest;

TEST_F(CudnnOnCpuDeathTest, TensorThatIsTooSmallLosesTheDevice) {
  const Descriptor plan = careful(operations(convolution(Direction::forward)));
  const float *const x = device(random(count(kX))), *const w = device(random(count(kW)));
  EXPECT_EXIT(
      {
        (void)execute(plan, {{1, x}, {2, w}, {3, memory(count(kY) - 1)}});
        wait_and_exit();
      },
      ::testing::ExitedWithCode(3), "convolution forward");
}

TEST_F(CudnnOnCpuDeathTest, WorkspaceThatIsTooSmallLosesTheDevice) {
  const Descriptor plan = careful(operations(convolution(Direction::forward)));
  const float *const x = device(random(count(kX))), *const w = device(random(count(kW)));
  EXPECT_EXIT(
      {
        (void)execute_in(memory(workspace_of(plan) / 4 - 1), plan, {{1, x}, {2, w}, {3, memory(count(kY))}});
        wait_and_exit();
      },
      ::testing::ExitedWithCode(3), "convolution forward");
}

TEST_F(CudnnOnCpuDeathTest, OutputOverlappingAnInputLosesTheDevice) {
  const Descriptor plan = careful(operations(convolution(Direction::forward)));
  float* const x = device(random(count(kX) + count(kY)));
  const float* const w = device(random(count(kW)));
  EXPECT_EXIT(
      {
        (void)execute(plan, {{1, x}, {2, w}, {3, x + count(kX) - 4}});
        wait_and_exit();
      },
      ::testing::ExitedWithCode(3), "convolution forward.*overlaps");
}

TEST_F(CudnnOnCpuDeathTest, LeakedDescriptorFailsTheProcess) {
  const Descriptor tensor = describe(kTensorX);
  EXPECT_EXIT(std::exit(0), ::testing::ExitedWithCode(70), "cuDNN backend descriptor: 1 not destroyed");
}

}  // namespace
}  // namespace cuda_on_cpu::test
