#include "kernels/cuda/graph_plan.h"

#include <cuda_runtime_api.h>
#include <nvrtc.h>
// The frontend can compile its own kernels, which giro never uses. Declaring these weak lets it link without NVRTC.
#pragma weak nvrtcCreateProgram
#pragma weak nvrtcDestroyProgram
#pragma weak nvrtcCompileProgram
#pragma weak nvrtcGetCUBIN
#pragma weak nvrtcGetCUBINSize
#pragma weak nvrtcGetProgramLog
#pragma weak nvrtcGetProgramLogSize
#include <cudnn_frontend.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <bit>
#include <new>
#include <string_view>
#include <unordered_map>

#include <giro/runtime/error.h>

#include "runtime/throw_error.h"

namespace giro::cuda {
namespace {

namespace fe = cudnn_frontend;
using Node = std::shared_ptr<fe::graph::Tensor_attributes>;

// cuDNN's status without its prefix, "NOT_SUPPORTED". The frontend reports it only in the text of its error, and none
// if its own filters reject the request.
std::string code_of(const std::string& message) {
  std::size_t at = std::string::npos;
  for (const std::string_view before : {"and code: CUDNN_STATUS_", "cudnn_status: CUDNN_STATUS_"}) {
    const std::size_t found = message.rfind(before);
    if (found != std::string::npos && (at == std::string::npos || found > at)) at = found + before.size();
  }
  return at == std::string::npos ? "" : message.substr(at);
}

// The error of a description that cuDNN does not support, for which BAD_PARAM is another word; throws any other.
std::string reason_of(fe::error_t status) {
  (void)cudaGetLastError();
  const std::string message = status.get_message(), code = code_of(message);
  const bool is_filtered = code.empty() && status.get_code() != fe::error_code_t::CUDA_API_FAILED;
  if (!is_filtered && !code.starts_with("NOT_SUPPORTED") && !code.starts_with("BAD_PARAM")) {
    const bool is_memory = code.find("ALLOCATION_FAILED") != std::string::npos;
    throw_error(is_memory ? ErrorCode::out_of_memory : ErrorCode::device, "cuDNN: {}", message);
  }
  return message;
}

std::shared_ptr<fe::DeviceProperties> device_of(const std::string& description) {
  auto device = std::make_shared<fe::DeviceProperties>();
  auto status = device->deserialize({description.begin(), description.end()});
  if (status.is_bad()) {
    throw_error(ErrorCode::device, "cuDNN does not accept the device description: {}", status.get_message());
  }
  return device;
}

// The compute capability in a device's description, 90 for 9.0. If not set, the frontend queries the current device
// when attention is described.
std::int32_t capability_of(const std::string& device) {
  constexpr std::string_view kName = "\"deviceVer\":";
  const std::size_t at = device.find(kName);
  return at == std::string::npos ? 0 : std::atoi(device.c_str() + at + kName.size()) / 10;
}

fe::DataType_t data_type(DType dtype) {
  return dtype == DType::bf16  ? fe::DataType_t::BFLOAT16
         : dtype == DType::f16 ? fe::DataType_t::HALF
                               : fe::DataType_t::FLOAT;
}

fe::graph::Tensor_attributes attributes(GraphArray id, const std::vector<std::int64_t>& sizes,
                                        const std::vector<std::int64_t>& strides, DType dtype, std::int64_t alignment) {
  fe::graph::Tensor_attributes made;
  made.set_uid(static_cast<std::int64_t>(id))
      .set_dim(sizes)
      .set_stride(strides)
      .set_alignment(alignment)
      .set_data_type(data_type(dtype));
  return made;
}

// Makes a node's result an output array of the graph.
void finish(const Node& result, const fe::graph::Tensor_attributes& as) {
  result->set_output(true)
      .set_uid(as.get_uid())
      .set_dim(as.get_dim())
      .set_stride(as.get_stride())
      .set_alignment(as.get_alignment())
      .set_data_type(as.get_data_type());
}

// Images (N, H, W, C) and filters (O, KH, KW, C / groups), from which cuDNN infers the number of groups. It lists axes
// in the order N, C, H, W, whatever the order in memory.
fe::graph::Tensor_attributes tensor(GraphArray id, const Shape& shape, const Convolution& convolution) {
  const std::int64_t n = shape[0], h = shape[1], w = shape[2], c = shape[3];
  return attributes(id, {n, c, h, w}, {h * w * c, 1, w * c, c}, convolution.dtype, convolution.alignment);
}

template <class Attributes>
Attributes window(const Conv2dOptions& options) {
  const auto both = [](const std::array<std::int64_t, 2>& axes) { return std::vector<std::int64_t>{axes[0], axes[1]}; };
  Attributes made;
  made.set_pre_padding(both(options.pad_before))
      .set_post_padding(both(options.pad_after))
      .set_stride(both(options.stride))
      .set_dilation(both(options.dilation));
  return made;
}

// Plans excluded because they do not give the same bits every time or the requested precision. FFT and Winograd also
// spread a NaN to neighbouring outputs.
std::vector<fe::NumericalNote_t> excluded_notes(const Convolution& convolution) {
  using Note = fe::NumericalNote_t;
  std::vector<Note> notes{Note::NONDETERMINISTIC,   Note::REDUCED_PRECISION_REDUCTION, Note::FFT,
                          Note::WINOGRAD,           Note::WINOGRAD_TILE_4x4,           Note::WINOGRAD_TILE_6x6,
                          Note::WINOGRAD_TILE_13x13};
  if (convolution.dtype == DType::f32 && convolution.math != MathMode::tf32) {
    notes.insert(notes.end(), {Note::TENSOR_CORE, Note::DOWN_CONVERT_INPUTS});
  }
  return notes;
}

void describe(fe::graph::Graph& graph, const Convolution& c) {
  using fe::graph::Conv_dgrad_attributes, fe::graph::Conv_fprop_attributes, fe::graph::Conv_wgrad_attributes,
      fe::graph::Pointwise_attributes;
  const auto x = [&] { return tensor(GraphArray::x, c.x, c); };
  const auto w = [&] { return tensor(GraphArray::w, c.w, c); };
  const auto y = [&] { return tensor(GraphArray::y, c.y, c); };
  if (c.result == Convolution::Result::dx) {
    return finish(graph.conv_dgrad(graph.tensor(y()), graph.tensor(w()), window<Conv_dgrad_attributes>(c.options)),
                  x());
  }
  if (c.result == Convolution::Result::dw) {
    return finish(graph.conv_wgrad(graph.tensor(y()), graph.tensor(x()), window<Conv_wgrad_attributes>(c.options)),
                  w());
  }
  Node result = graph.conv_fprop(graph.tensor(x()), graph.tensor(w()), window<Conv_fprop_attributes>(c.options));
  if (c.has_bias) {
    const Node bias = graph.tensor(tensor(GraphArray::b, {1, 1, 1, c.w[0]}, c));
    result = graph.pointwise(result, bias, Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
  }
  if (c.has_relu) result = graph.pointwise(result, Pointwise_attributes().set_mode(fe::PointwiseMode_t::RELU_FWD));
  finish(result, y());
}

// cuDNN lists axes in the order B, H, T, D, whatever the order in memory.
// `heads`: how many heads a row of the array has.
fe::graph::Tensor_attributes tensor(GraphArray id, const Shape& shape, std::int64_t heads,
                                    const AttentionGraph& attention) {
  const std::int64_t b = shape[0], t = shape[1], h = shape[2], d = shape[3];
  return attributes(id, {b, h, t, d}, {t * heads * d, d, heads * d, 1}, attention.dtype, attention.alignment);
}

void describe(fe::graph::Graph& graph, const AttentionGraph& a) {
  const std::int64_t b = a.query[0], t = a.query[1], h = a.query[2];
  const std::int64_t packed = h + 2 * a.key[2];
  const auto query = [&](GraphArray id) { return tensor(id, a.query, a.is_packed ? packed : h, a); };
  const auto key = [&](GraphArray id) { return tensor(id, a.key, a.is_packed ? packed : a.key[2], a); };
  const auto out_like = [&](GraphArray id) { return tensor(id, a.query, h, a); };
  const auto logsumexp = attributes(GraphArray::logsumexp, {b, h, t, 1}, {h * t, t, 1, 1}, DType::f32, 4);
  const auto with = [&](auto of) {
    of.set_attn_scale(static_cast<float>(a.scale));
    if (a.is_causal) {
      of.set_diagonal_alignment(fe::DiagonalAlignment_t::BOTTOM_RIGHT).set_diagonal_band_right_bound(0);
    }
    return of;
  };
  const Node q = graph.tensor(query(GraphArray::query)), k = graph.tensor(key(GraphArray::key)),
             v = graph.tensor(key(GraphArray::value));
  if (a.result == AttentionGraph::Result::gradients) {
    const Node out = graph.tensor(out_like(GraphArray::out)), dout = graph.tensor(out_like(GraphArray::dout));
    const auto gradients =
        graph.sdpa_backward(q, k, v, out, dout, graph.tensor(logsumexp),
                            with(fe::graph::SDPA_backward_attributes().set_deterministic_algorithm(true)));
    finish(gradients[0], query(GraphArray::dquery));
    finish(gradients[1], key(GraphArray::dkey));
    finish(gradients[2], key(GraphArray::dvalue));
    return;
  }
  const bool has_logsumexp = a.result == AttentionGraph::Result::out_and_logsumexp;
  const auto [out, stats] = graph.sdpa(q, k, v, with(fe::graph::SDPA_attributes().set_generate_stats(has_logsumexp)));
  finish(out, out_like(GraphArray::out));
  if (has_logsumexp) finish(stats, logsumexp);
}

std::vector<fe::NumericalNote_t> excluded_notes(const AttentionGraph&) {
  return {fe::NumericalNote_t::NONDETERMINISTIC};
}

std::vector<std::int64_t> numbers_of(const Convolution& c) {
  std::vector<std::int64_t> key{static_cast<int>(c.result),
                                static_cast<int>(c.dtype),
                                static_cast<int>(c.math),
                                c.has_bias,
                                c.has_relu,
                                c.alignment};
  for (const Shape& shape : {c.x, c.w, c.y}) key.insert(key.end(), shape.begin(), shape.end());
  const Conv2dOptions& options = c.options;
  for (const auto& axes : {options.stride, options.pad_before, options.pad_after, options.dilation}) {
    key.insert(key.end(), axes.begin(), axes.end());
  }
  return key;
}

std::vector<std::int64_t> numbers_of(const AttentionGraph& a) {
  std::vector<std::int64_t> key{
      static_cast<int>(a.result),          static_cast<int>(a.dtype), a.is_causal, a.is_packed, a.alignment,
      std::bit_cast<std::int64_t>(a.scale)};
  for (const Shape& shape : {a.query, a.key}) key.insert(key.end(), shape.begin(), shape.end());
  return key;
}

}  // namespace

std::string describe_device(int index) {
  fe::DeviceProperties device;
  std::vector<std::uint8_t> description;
  auto status = device.set_device_id(index).build();
  if (status.is_good()) status = device.serialize(description);
  if (status.is_bad()) throw_error(ErrorCode::device, "cuDNN: {}", status.get_message());
  return {description.begin(), description.end()};
}

std::vector<std::int64_t> key_of(const GraphSpec& spec) {
  std::vector<std::int64_t> key = std::visit([](const auto& of) { return numbers_of(of); }, spec);
  key.push_back(static_cast<std::int64_t>(spec.index()));
  return key;
}

struct GraphPlan::Graph {
  fe::graph::Graph graph;
  std::int64_t next = 0, count = 0;  // the next candidate, and their count
  std::int64_t workspace = 0;        // bytes that the plan needs
};

GraphPlan::GraphPlan(const GraphSpec& spec, const std::string& device)
    : spec_(spec),
      device_(device),
      key_(fmt::format("cuDNN {} frontend {} {} graph {}", cudnnGetVersion(), CUDNN_FRONTEND_VERSION, device,
                       fmt::join(key_of(spec), " "))) {}

GraphPlan GraphPlan::find(const GraphSpec& spec, const std::string& device, const DiskCache& cache) {
  GraphPlan plan(spec, device);
  const std::optional<std::string> serialized = cache.find(plan.key_);
  if (!serialized || !plan.load(*serialized)) plan.query_plans();
  return plan;
}

// The cache has checked that store() wrote this, so loading fails only if cuDNN no longer accepts it.
bool GraphPlan::load(const std::string& serialized) {
  auto loaded = std::make_shared<Graph>();
  loaded->graph.set_device_properties(device_of(device_));
  const std::vector<std::uint8_t> bytes(serialized.begin(), serialized.end());
  try {
    if (loaded->graph.deserialize(bytes).is_bad() || loaded->graph.get_workspace_size(loaded->workspace).is_bad()) {
      return false;
    }
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception&) {  // from the frontend's parsing of JSON and numbers
    return false;
  }
  graph_ = std::move(loaded);
  is_on_disk_ = true;
  return true;
}

void GraphPlan::query_plans() {
  graph_ = std::make_shared<Graph>();
  is_on_disk_ = false;
  fe::graph::Graph& graph = graph_->graph;
  graph.set_device_properties(device_of(device_))
      .set_sm_version(capability_of(device_))
      .set_io_data_type(data_type(std::visit([](const auto& of) { return of.dtype; }, spec_)))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  std::visit([&](const auto& of) { describe(graph, of); }, spec_);
  const auto is_known = [&](const fe::error_t& status) {
    if (status.is_bad()) note_failure(reason_of(status));
    return status.is_good();
  };
  if (is_known(graph.validate()) && is_known(graph.build_operation_graph()) &&
      is_known(graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}))) {
    graph.deselect_numeric_notes(std::visit([](const auto& of) { return excluded_notes(of); }, spec_));
    graph_->count = graph.get_execution_plan_count();
  }
  build_next();
}

void GraphPlan::note_failure(const std::string& message) {
  const std::string line = message.substr(0, message.find('\n'));
  if (failure_reason_.find(line) != std::string::npos) return;
  failure_reason_ += (failure_reason_.empty() ? "" : "; ") + line;
}

// Whatever fails, a kernel that cannot be loaded or memory that cannot be allocated, the next candidate may not need
// it.
template <class F>
bool GraphPlan::attempt(const F& f) {
  std::string message;
  try {
    fe::error_t status = f();
    if (status.is_good()) return true;
    message = status.get_message();
  } catch (const std::exception& error) {
    message = error.what();
  }
  (void)cudaGetLastError();
  note_failure(message);
  return false;
}

void GraphPlan::build_next() {
  fe::graph::Graph& graph = graph_->graph;
  while (graph_->next < graph_->count) {
    if (attempt([&] { return graph.build_plan_at_index(graph_->next++); }) &&
        attempt([&] { return graph.get_workspace_size(graph_->workspace); })) {
      return;
    }
  }
  graph_ = nullptr;
}

void GraphPlan::skip_plan() {
  // A plan loaded from disk is the only candidate.
  const bool was_loaded = graph_->count == 0;
  is_on_disk_ = false;
  was_loaded ? query_plans() : build_next();
}

std::size_t GraphPlan::workspace_bytes() const { return static_cast<std::size_t>(graph_->workspace); }

std::string GraphPlan::name() const {
  std::string name;
  return graph_->graph.get_plan_name(name).is_good() ? name : "";
}

void GraphPlan::store(DiskCache& cache) {
  std::vector<std::uint8_t> bytes;
  if (is_on_disk_ || graph_->graph.serialize(bytes, false).is_bad()) return;
  cache.add(key_, {bytes.begin(), bytes.end()});
  is_on_disk_ = true;
}

bool GraphPlan::run(cudnnHandle_t cudnn, const GraphArrays& arrays, void* workspace) {
  std::unordered_map<std::int64_t, void*> at;
  for (const auto& [array, data] : arrays) {
    if (data != nullptr) at[static_cast<std::int64_t>(array)] = data;
  }
  std::string message;
  const bool ran = attempt([&] {
    fe::error_t status = graph_->graph.execute(cudnn, at, workspace);
    message = status.get_message();
    return status;
  });
  // The arrays are at fault, and no other plan would take them.
  if (!ran && code_of(message).starts_with("BAD_PARAM")) throw_error(ErrorCode::device, "cuDNN: {}", message);
  return ran;
}

}  // namespace giro::cuda
