#include "tests/cuda_on_cpu/libraries/cudnn_graph.h"

#include <algorithm>
#include <array>
#include <limits>

namespace cuda_on_cpu::dnn::graph {
namespace {

struct Declined {
  const char* reason;
};

void expect(bool holds, const char* reason) {
  if (!holds) throw Declined{reason};
}

bool is_packed(const std::vector<std::int64_t>& dims, const std::vector<std::int64_t>& strides,
               const std::array<std::size_t, 4>& order) {
  std::int64_t stride = 1;
  for (const std::size_t axis : order) {
    if (dims[axis] > 1 && strides[axis] != stride) return false;
    stride *= dims[axis];
  }
  return true;
}

Tensor tensor(const Descriptor* descriptor) {
  expect(descriptor != nullptr, "a tensor is missing");
  const auto dims = descriptor->all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  const auto strides = descriptor->all<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  expect(dims.size() == 4, "a tensor does not have four dimensions");
  expect(is_packed(dims, strides, {1, 3, 2, 0}) || is_packed(dims, strides, {3, 2, 1, 0}), "neither NHWC nor NCHW");
  expect(!descriptor->get<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE), "a tensor is passed by value");
  const auto at = [](const std::vector<std::int64_t>& values, std::size_t i) {
    return static_cast<std::size_t>(values[i]);
  };
  return {descriptor->get<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID),
          descriptor->get<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT),
          descriptor->get<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE),
          at(dims, 0),
          at(dims, 1),
          at(dims, 2),
          at(dims, 3),
          at(strides, 0),
          at(strides, 1),
          at(strides, 2),
          at(strides, 3)};
}

const Descriptor* tensor_of(const Descriptor& operation, cudnnBackendAttributeName_t name) {
  return operation.descriptor(name, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
}

std::optional<std::int64_t> uid_of(const Descriptor& operation, cudnnBackendAttributeName_t name) {
  const Descriptor* const found = tensor_of(operation, name);
  if (found == nullptr) return {};
  return found->get<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
}

bool has_shape(const Tensor& tensor, std::size_t n, std::size_t c, std::size_t h, std::size_t w) {
  return tensor.n == n && tensor.c == c && tensor.h == h && tensor.w == w;
}

Problem convolution(const Descriptor& operation) {
  const Names& names = *convolution_names(operation.kind);
  const Descriptor& window = *operation.descriptor(names.convolution, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  Problem problem{operation.kind,
                  tensor(tensor_of(operation, names.x)),
                  tensor(tensor_of(operation, names.w)),
                  tensor(tensor_of(operation, names.y)),
                  {},
                  {},
                  {},
                  {},
                  {}};
  const auto type = problem.x.type;
  expect(type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16,
         "neither f32, f16 nor bf16");
  // cuDNN 9.19 has no plan for mixed types, in any direction.
  const bool is_virtual = tensor_of(operation, names.y)->get<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  expect(problem.w.type == type && (problem.y.type == type || is_virtual), "x, w and y are of different types");
  expect(problem.x.c % problem.w.c == 0 && problem.w.n % problem.groups() == 0,
         "the channels are not a multiple of the groups");
  expect(window.get<cudnnDataType_t>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE) == CUDNN_DATA_FLOAT, "the sums are not f32");
  expect(window.get<cudnnConvolutionMode_t>(CUDNN_ATTR_CONVOLUTION_CONV_MODE) == CUDNN_CROSS_CORRELATION,
         "the filter is flipped");
  expect(operation.get<double>(names.alpha, 1) == 1 && operation.get<double>(names.beta) == 0,
         "it is scaled or accumulated");
  const auto axis = [&](std::size_t i) {
    const auto pads = window.all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
    return Axis{pads.empty() ? 0 : pads[i], window.all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES)[i],
                window.all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS)[i]};
  };
  problem.rows = axis(0);
  problem.columns = axis(1);
  return problem;
}

// Adds `operation` to the problem, whose result so far is `last`. Returns the new result.
const Descriptor* append(Problem& problem, const Descriptor* last, const Descriptor& operation) {
  const auto* const how =
      operation.descriptor(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  expect(how != nullptr, "an operation is neither a convolution nor pointwise");
  expect(problem.direction == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
         "something follows a backward convolution");
  expect(last->get<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL), "an intermediate result is not virtual");
  expect(last->get<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE) == CUDNN_DATA_FLOAT,
         "an intermediate result is not f32");
  expect(how->get<cudnnDataType_t>(CUDNN_ATTR_POINTWISE_MATH_PREC) == CUDNN_DATA_FLOAT, "it is not computed in f32");
  expect(operation.get<double>(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, 1) == 1 &&
             operation.get<double>(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, 1) == 1,
         "it is scaled");
  const auto mode = how->get<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
  const auto uid = last->get<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  if (mode == CUDNN_POINTWISE_ADD && !problem.bias) {
    const bool is_first = uid_of(operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC) == uid;
    problem.bias = tensor(
        tensor_of(operation, is_first ? CUDNN_ATTR_OPERATION_POINTWISE_BDESC : CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
    expect(has_shape(*problem.bias, 1, problem.y.c, 1, 1), "only a bias of shape (1, C, 1, 1) can be added");
    expect(problem.bias->type == problem.x.type, "the bias has another type than the images");
  } else {
    expect(mode == CUDNN_POINTWISE_RELU_FWD && problem.bias && !problem.relu, "neither a bias nor ReLU after one");
    // Unset attributes have the defaults that cuDNN documents for CUDNN_BACKEND_POINTWISE_DESCRIPTOR.
    problem.relu = Relu{how->get<double>(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, std::numeric_limits<double>::max()),
                        how->get<cudnnNanPropagation_t>(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION,
                                                        CUDNN_NOT_PROPAGATE_NAN) == CUDNN_PROPAGATE_NAN};
    expect(how->get<double>(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP) == 0 &&
               how->get<double>(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE) == 0 &&
               problem.relu->upper >= std::numeric_limits<float>::max(),
           "ReLU has a clip or a slope");
  }
  const Descriptor* const out = tensor_of(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
  problem.out = tensor(out);
  expect(problem.out.type == problem.x.type || out->get<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL),
         "the result has another type than the images");
  expect(has_shape(problem.out, problem.y.n, problem.y.c, problem.y.h, problem.y.w), "the result has another shape");
  return out;
}

Problem read_operations(const Descriptor& operation_graph) {
  auto left = operation_graph.attributes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).descriptors;
  const auto first =
      std::find_if(left.begin(), left.end(), [](const auto& one) { return convolution_names(one->kind) != nullptr; });
  expect(first != left.end(), "there is no convolution");
  const Descriptor& operation = **first;
  const Names& names = *convolution_names(operation.kind);
  Problem problem = convolution(operation);
  const Descriptor* last = tensor_of(operation, names.out);
  problem.out = tensor(last);
  for (left.erase(first); !left.empty();) {
    const auto uid = last->get<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
    const auto next = std::find_if(left.begin(), left.end(), [&](const auto& one) {
      return uid_of(*one, CUDNN_ATTR_OPERATION_POINTWISE_XDESC) == uid ||
             uid_of(*one, CUDNN_ATTR_OPERATION_POINTWISE_BDESC) == uid;
    });
    expect(next != left.end(), "the operations are not a chain");
    last = append(problem, last, **next);
    left.erase(next);
  }
  expect(!last->get<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL), "the result is virtual");
  return problem;
}

}  // namespace

const Names* convolution_names(cudnnBackendDescriptorType_t kind) {
  static constexpr std::array kNames{
      Names{CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
      Names{CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
      Names{CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
  };
  const auto found =
      std::find_if(kNames.begin(), kNames.end(), [&](const Names& one) { return one.direction == kind; });
  return found == kNames.end() ? nullptr : found;
}

std::optional<Problem> read(const Descriptor& operation_graph) {
  try {
    return read_operations(operation_graph);
  } catch (const Declined& declined) {
    reject(CUDNN_STATUS_NOT_SUPPORTED, declined.reason);
    return {};
  }
}

}  // namespace cuda_on_cpu::dnn::graph
