#include "kernels/cuda/convolution_plan.h"

#include <cuda_runtime_api.h>
#include <nvrtc.h>
// The frontend can compile kernels of its own, which giro never asks for. Declared weak, these need no NVRTC to link.
#pragma weak nvrtcCreateProgram
#pragma weak nvrtcDestroyProgram
#pragma weak nvrtcCompileProgram
#pragma weak nvrtcGetCUBIN
#pragma weak nvrtcGetCUBINSize
#pragma weak nvrtcGetProgramLog
#pragma weak nvrtcGetProgramLogSize
#include <cudnn_frontend.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>
#include <vector>

#include <giro/runtime/error.h>

namespace giro::cuda {
namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

constexpr std::uintptr_t kAlignment = 16;

enum Id : std::int64_t { kX = 1, kW, kY, kB };

// The frontend reports a status of cuDNN at the end of its error's text alone. Every status but these means that cuDNN
// does not support what it was asked for.
bool is_good(fe::error_t status, std::string* why_not = nullptr) {
  if (status.is_good()) return true;
  (void)cudaGetLastError();
  const std::string message = status.get_message();
  const std::string code = message.substr(std::min(message.rfind("and code: "), message.size()));
  const bool is_memory = code.find("ALLOCATION_FAILED") != std::string::npos;
  if (is_memory || code.find("EXECUTION_FAILED") != std::string::npos ||
      code.find("NOT_INITIALIZED") != std::string::npos || code.find("INTERNAL_ERROR") != std::string::npos) {
    throw Error(is_memory ? ErrorCode::out_of_memory : ErrorCode::device, fmt::format("cuDNN: {}", message));
  }
  if (why_not != nullptr) *why_not = message.substr(0, message.find('\n'));
  return false;
}

std::shared_ptr<fe::DeviceProperties> device_of(const std::string& description) {
  auto device = std::make_shared<fe::DeviceProperties>();
  auto status = device->deserialize({description.begin(), description.end()});
  if (status.is_bad()) {
    throw Error(ErrorCode::device, fmt::format("cuDNN takes no description of a device: {}", status.get_message()));
  }
  return device;
}

fe::DataType_t data_type(DType dtype) {
  return dtype == DType::bf16  ? fe::DataType_t::BFLOAT16
         : dtype == DType::f16 ? fe::DataType_t::HALF
                               : fe::DataType_t::FLOAT;
}

// Images (N, H, W, C) and filters (O, KH, KW, C). cuDNN names axes in the order N, C, H, W, whatever the order in
// memory.
fe::graph::Tensor_attributes tensor(Id id, const Shape& shape, DType dtype) {
  const std::int64_t n = shape[0], h = shape[1], w = shape[2], c = shape[3];
  fe::graph::Tensor_attributes made;
  made.set_uid(id).set_dim({n, c, h, w}).set_stride({h * w * c, 1, w * c, c}).set_data_type(data_type(dtype));
  return made;
}

template <class Attributes>
Attributes window(const Conv2dOptions& options) {
  const auto both = [](const std::array<std::int64_t, 2>& axes) { return std::vector<std::int64_t>{axes[0], axes[1]}; };
  Attributes made;
  made.set_pre_padding(both(options.pad_before))
      .set_post_padding(both(options.pad_after))
      .set_stride(both(options.stride))
      .set_dilation({1, 1});
  return made;
}

// What asked-for bits and precision exclude. Sums in another order than a convolution's spread a NaN to neighbours.
std::vector<fe::NumericalNote_t> excluded_notes(const Convolution& convolution) {
  using Note = fe::NumericalNote_t;
  std::vector<Note> notes{Note::NONDETERMINISTIC,   Note::REDUCED_PRECISION_REDUCTION, Note::FFT,
                          Note::WINOGRAD,           Note::WINOGRAD_TILE_4x4,           Note::WINOGRAD_TILE_6x6,
                          Note::WINOGRAD_TILE_13x13};
  if (convolution.dtype == DType::f32) {
    if (convolution.math != Math::tf32) notes.insert(notes.end(), {Note::TENSOR_CORE, Note::DOWN_CONVERT_INPUTS});
  }
  return notes;
}

void describe(fe::graph::Graph& graph, const Convolution& c) {
  using fe::graph::Conv_dgrad_attributes, fe::graph::Conv_fprop_attributes, fe::graph::Conv_wgrad_attributes,
      fe::graph::Pointwise_attributes;
  const auto x = [&] { return tensor(kX, c.x, c.dtype); };
  const auto w = [&] { return tensor(kW, c.w, c.dtype); };
  const auto y = [&] { return tensor(kY, c.y, c.dtype); };
  const auto finish = [&](const Tensor& result, fe::graph::Tensor_attributes as) {
    result->set_output(true)
        .set_uid(as.get_uid())
        .set_dim(as.get_dim())
        .set_stride(as.get_stride())
        .set_data_type(as.get_data_type());
  };
  if (c.result == Convolution::Result::dx) {
    return finish(graph.conv_dgrad(graph.tensor(y()), graph.tensor(w()), window<Conv_dgrad_attributes>(c.options)),
                  x());
  }
  if (c.result == Convolution::Result::dw) {
    return finish(graph.conv_wgrad(graph.tensor(y()), graph.tensor(x()), window<Conv_wgrad_attributes>(c.options)),
                  w());
  }
  Tensor result = graph.conv_fprop(graph.tensor(x()), graph.tensor(w()), window<Conv_fprop_attributes>(c.options));
  if (c.has_bias) {
    const Tensor bias = graph.tensor(tensor(kB, {1, 1, 1, c.w[0]}, c.dtype));
    result = graph.pointwise(result, bias, Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
  }
  if (c.has_relu) result = graph.pointwise(result, Pointwise_attributes().set_mode(fe::PointwiseMode_t::RELU_FWD));
  finish(result, y());
}

}  // namespace

std::string describe_device(int index) {
  fe::DeviceProperties device;
  std::vector<std::uint8_t> description;
  auto status = device.set_device_id(index).build();
  if (status.is_good()) status = device.serialize(description);
  if (status.is_bad()) throw Error(ErrorCode::device, fmt::format("cuDNN: {}", status.get_message()));
  return {description.begin(), description.end()};
}

struct ConvolutionPlan::Graph {
  fe::graph::Graph graph;
  std::int64_t next = 0, count = 0;  // of the candidates
};

ConvolutionPlan::ConvolutionPlan(std::unique_ptr<Graph> graph) : graph_(std::move(graph)) {}
ConvolutionPlan::ConvolutionPlan(ConvolutionPlan&&) noexcept = default;
ConvolutionPlan& ConvolutionPlan::operator=(ConvolutionPlan&&) noexcept = default;
ConvolutionPlan::~ConvolutionPlan() = default;

std::string ConvolutionPlan::version() {
  return fmt::format("cuDNN {} frontend {}", cudnnGetVersion(), CUDNN_FRONTEND_VERSION);
}

bool ConvolutionPlan::takes(const Operands& operands) {
  std::uintptr_t together = 0;
  for (const void* const operand : {operands.x, operands.w, operands.y, operands.b}) {
    together |= reinterpret_cast<std::uintptr_t>(operand);
  }
  return together % kAlignment == 0;
}

ConvolutionPlan ConvolutionPlan::find(const Convolution& convolution, const std::string& device) {
  ConvolutionPlan plan(std::make_unique<Graph>());
  fe::graph::Graph& graph = plan.graph_->graph;
  graph.set_device_properties(device_of(device))
      .set_io_data_type(data_type(convolution.dtype))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  describe(graph, convolution);
  const bool is_known =
      is_good(graph.validate(), &plan.why_not_) && is_good(graph.build_operation_graph(), &plan.why_not_) &&
      is_good(graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}), &plan.why_not_);
  if (is_known) {
    graph.deselect_numeric_notes(excluded_notes(convolution));
    plan.graph_->count = graph.get_execution_plan_count();
  }
  plan.build_next();
  return plan;
}

void ConvolutionPlan::build_next() {
  while (graph_->next < graph_->count) {
    if (is_good(graph_->graph.build_plan_at_index(graph_->next++), &why_not_)) return;
  }
  graph_ = nullptr;
}

std::optional<ConvolutionPlan> ConvolutionPlan::load(const std::string& serialized, const std::string& device) {
  ConvolutionPlan plan(std::make_unique<Graph>());
  try {
    plan.graph_->graph.set_device_properties(device_of(device));
    const std::vector<std::uint8_t> bytes(serialized.begin(), serialized.end());
    if (!is_good(plan.graph_->graph.deserialize(bytes))) return std::nullopt;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
  return plan;
}

std::size_t ConvolutionPlan::workspace_bytes() const {
  std::int64_t bytes = 0;
  (void)is_good(graph_->graph.get_workspace_size(bytes));
  return static_cast<std::size_t>(bytes);
}

std::string ConvolutionPlan::name() const {
  std::string name;
  (void)is_good(graph_->graph.get_plan_name(name));
  return name;
}

std::string ConvolutionPlan::serialized() const {
  std::vector<std::uint8_t> bytes;
  (void)is_good(graph_->graph.serialize(bytes, false));
  return {bytes.begin(), bytes.end()};
}

bool ConvolutionPlan::run(cudnnHandle_t cudnn, const Operands& operands, void* workspace) {
  std::unordered_map<std::int64_t, void*> at{{kX, operands.x}, {kW, operands.w}, {kY, operands.y}};
  if (operands.b != nullptr) at[kB] = operands.b;
  const bool ran = is_good(graph_->graph.execute(cudnn, at, workspace), &why_not_);
  if (!ran) build_next();
  return ran;
}

}  // namespace giro::cuda
