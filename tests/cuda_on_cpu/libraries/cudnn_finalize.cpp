// What cudnnBackendFinalize checks and computes, as cuDNN 9.19 does, checked by the ctest cudnn_real_codes.

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <set>

#include "tests/cuda_on_cpu/libraries/cudnn_descriptor.h"
#include "tests/cuda_on_cpu/libraries/cudnn_engine.h"
#include "tests/cuda_on_cpu/libraries/cudnn_graph.h"
#include "tests/cuda_on_cpu/libraries/cudnn_plan_text.h"

namespace cuda_on_cpu::dnn {
namespace {

using Integers = std::vector<std::int64_t>;

cudnnStatus_t bad_unless(bool holds, const char* reason) {
  return holds ? CUDNN_STATUS_SUCCESS : reject(CUDNN_STATUS_BAD_PARAM, reason);
}

bool all_at_least(std::int64_t least, const Integers& values) {
  return std::all_of(values.begin(), values.end(), [&](std::int64_t value) { return value >= least; });
}

// 0 for a type that is unknown or packs several elements.
std::int64_t size_of(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_DOUBLE:
    case CUDNN_DATA_INT64:
      return 8;
    case CUDNN_DATA_FLOAT:
    case CUDNN_DATA_INT32:
      return 4;
    case CUDNN_DATA_HALF:
    case CUDNN_DATA_BFLOAT16:
      return 2;
    case CUDNN_DATA_INT8:
    case CUDNN_DATA_UINT8:
    case CUDNN_DATA_BOOLEAN:
      return 1;
    default:
      return 0;
  }
}

cudnnStatus_t finalize_tensor(const Descriptor& tensor) {
  const auto dims = tensor.all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  const auto strides = tensor.all<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  const auto alignment = tensor.get<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  const std::int64_t size = size_of(tensor.get<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE));
  const bool is_aligned = alignment >= size && std::has_single_bit(static_cast<std::uint64_t>(alignment));
  const bool by_value = tensor.get<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE);
  const bool is_one = std::all_of(dims.begin(), dims.end(), [](std::int64_t dim) { return dim == 1; });
  if (dims.empty() || dims.size() > CUDNN_DIM_MAX || dims.size() != strides.size() || !all_at_least(0, dims) ||
      !all_at_least(0, strides) || !is_aligned) {
    return reject(CUDNN_STATUS_BAD_PARAM, "dimensions, strides or alignment are missing or wrong");
  }
  if (size == 0) return reject(CUDNN_STATUS_NOT_SUPPORTED, "the type is not supported");
  return bad_unless(!by_value || (is_one && !tensor.get<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL)),
                    "the tensor cannot be passed by value");
}

cudnnStatus_t finalize_convolution(const Descriptor& window) {
  const auto axes = static_cast<std::size_t>(window.get<std::int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS));
  const auto fits = [&](cudnnBackendAttributeName_t name, std::int64_t least, bool optional) {
    const auto values = window.all<std::int64_t>(name);
    return (values.size() == axes && all_at_least(least, values)) || (optional && values.empty());
  };
  return bad_unless(axes > 0 && fits(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 0, true) &&
                        fits(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 0, true) &&
                        fits(CUDNN_ATTR_CONVOLUTION_DILATIONS, 1, false) &&
                        fits(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 1, false),
                    "paddings, dilations or strides are missing or wrong");
}

cudnnStatus_t finalize_convolution_operation(const Descriptor& operation) {
  const graph::Names& names = *graph::convolution_names(operation.kind);
  const Descriptor* const window = operation.descriptor(names.convolution, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const auto dims = [&](cudnnBackendAttributeName_t name) {
    const Descriptor* const tensor = operation.descriptor(name, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    return tensor == nullptr ? Integers{} : tensor->all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  };
  const Integers x = dims(names.x), w = dims(names.w), y = dims(names.y);
  if (window == nullptr || x.empty() || w.empty() || y.empty()) {
    return reject(CUDNN_STATUS_BAD_PARAM, "a tensor or the convolution is missing or not finalized");
  }
  const auto axes = static_cast<std::size_t>(window->get<std::int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS));
  bool fits = x.size() == axes + 2 && w.size() == x.size() && y.size() == x.size() && all_at_least(1, x) &&
              all_at_least(1, w) && all_at_least(1, y) && x[0] == y[0] && w[0] == y[1] && x[1] % w[1] == 0;
  for (std::size_t axis = 0; fits && axis < axes; ++axis) {
    const auto at = [&](cudnnBackendAttributeName_t name) {
      const auto values = window->all<std::int64_t>(name);
      return values.empty() ? 0 : values[axis];
    };
    const std::int64_t reach = at(CUDNN_ATTR_CONVOLUTION_DILATIONS) * (w[axis + 2] - 1) + 1;
    const std::int64_t room =
        x[axis + 2] + at(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS) + at(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS) - reach;
    fits = room >= 0 && y[axis + 2] == room / at(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES) + 1;
  }
  return bad_unless(fits, "the shapes do not match");
}

cudnnStatus_t finalize_pointwise_operation(const Descriptor& operation) {
  const Descriptor* const how =
      operation.descriptor(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  const bool adds = how != nullptr && how->get<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE) == CUDNN_POINTWISE_ADD;
  return bad_unless(!adds || operation.attributes.contains(CUDNN_ATTR_OPERATION_POINTWISE_BDESC),
                    "the second operand is missing");
}

cudnnStatus_t finalize_graph(Descriptor& operation_graph) {
  const auto found = operation_graph.attributes.find(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  if (found == operation_graph.attributes.end() || found->second.descriptors.empty()) {
    return reject(CUDNN_STATUS_BAD_PARAM, "there are no operations");
  }
  std::set<std::int64_t> written;
  for (const auto& operation : found->second.descriptors) {
    const graph::Names* const names = graph::convolution_names(operation->kind);
    const Descriptor* const out = operation->descriptor(
        names != nullptr ? names->out : CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    if (out != nullptr && !written.insert(out->get<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID)).second) {
      return reject(CUDNN_STATUS_BAD_PARAM, "two operations write one tensor");
    }
  }
  operation_graph.put<std::int64_t>(CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, CUDNN_TYPE_INT64,
                                    {static_cast<std::int64_t>(Engine::count)});
  return CUDNN_STATUS_SUCCESS;
}

// Sets an attribute to descriptors that cuDNN creates itself.
void put(Descriptor& descriptor, cudnnBackendAttributeName_t name, std::vector<Descriptor> made) {
  Attribute attribute{CUDNN_TYPE_BACKEND_DESCRIPTOR, {}, {}};
  for (Descriptor& one : made) {
    one.finalized = true;
    attribute.descriptors.push_back(std::make_shared<const Descriptor>(std::move(one)));
  }
  descriptor.attributes[name] = std::move(attribute);
}

cudnnStatus_t finalize_engine(Descriptor& engine) {
  const Descriptor* const operation_graph =
      engine.descriptor(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  if (operation_graph == nullptr) return reject(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the operation graph is missing");
  const auto index = engine.get<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, -1);
  if (index < 0 || index >= static_cast<std::int64_t>(Engine::count)) {
    return reject(CUDNN_STATUS_NOT_SUPPORTED, "there is no such engine");
  }
  Descriptor knob{CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR};
  knob.put<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_INFO_TYPE, CUDNN_TYPE_KNOB_TYPE, {CUDNN_KNOB_TYPE_TILE_SIZE});
  knob.put<std::int64_t>(CUDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE, CUDNN_TYPE_INT64, {kLargestKnob});
  knob.put<std::int64_t>(CUDNN_ATTR_KNOB_INFO_MINIMUM_VALUE, CUDNN_TYPE_INT64, {0});
  knob.put<std::int64_t>(CUDNN_ATTR_KNOB_INFO_STRIDE, CUDNN_TYPE_INT64, {1});
  put(engine, CUDNN_ATTR_ENGINE_KNOB_INFO, {knob});
  const auto problem = graph::read(*operation_graph);
  engine.put(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
             problem ? notes(static_cast<Engine>(index), *problem) : std::vector<cudnnBackendNumericalNote_t>{});
  engine.put<cudnnBackendBehaviorNote_t>(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE, {});
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finalize_configuration(Descriptor& configuration) {
  const Descriptor* const engine =
      configuration.descriptor(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  if (engine == nullptr) return reject(CUDNN_STATUS_BAD_PARAM, "the engine is missing or not finalized");
  const auto problem =
      graph::read(*engine->descriptor(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR));
  if (!problem) return CUDNN_STATUS_NOT_SUPPORTED;
  std::int64_t value = 0;
  for (const auto& choice : configuration.attributes[CUDNN_ATTR_ENGINECFG_KNOB_CHOICES].descriptors) {
    value = choice->get<std::int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE);
    const auto knob = choice->get<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE);
    if (knob != CUDNN_KNOB_TYPE_TILE_SIZE || value < 0 || value > kLargestKnob) {
      return reject(CUDNN_STATUS_NOT_SUPPORTED, "the engine has no such knob or value");
    }
  }
  const auto index = static_cast<Engine>(engine->get<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX));
  configuration.attributes[CUDNN_ATTR_ENGINECFG_KNOB_CHOICES].type = CUDNN_TYPE_BACKEND_DESCRIPTOR;
  configuration.put<std::int64_t>(CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                                  {workspace_of(index, *problem, value)});
  return CUDNN_STATUS_SUCCESS;
}

// Finalizing succeeds even if there is nothing to suggest.
cudnnStatus_t finalize_heuristics(Descriptor& heuristics) {
  const Descriptor* const operation_graph =
      heuristics.descriptor(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  if (operation_graph == nullptr) return reject(CUDNN_STATUS_BAD_PARAM, "the operation graph is missing");
  std::vector<Descriptor> results;
  if (graph::read(*operation_graph)) {
    for (const auto& [index, value] : suggestions(heuristics.get<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE))) {
      Descriptor engine{CUDNN_BACKEND_ENGINE_DESCRIPTOR}, knob{CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR},
          configuration{CUDNN_BACKEND_ENGINECFG_DESCRIPTOR};
      put(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, {*operation_graph});
      engine.put<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, {static_cast<std::int64_t>(index)});
      finalize_engine(engine);
      knob.put<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE,
                                       {CUDNN_KNOB_TYPE_TILE_SIZE});
      knob.put<std::int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, {value});
      put(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, {engine});
      put(configuration, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, {knob});
      finalize_configuration(configuration);
      results.push_back(std::move(configuration));
    }
  }
  put(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, std::move(results));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finalize_plan(Descriptor& plan) {
  const auto json = plan.all<char>(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
  if (!json.empty()) {
    // cuDNN's documentation of the plan: it is loaded for a handle, or for a described device.
    if (!plan.attributes.contains(CUDNN_ATTR_EXECUTION_PLAN_HANDLE) &&
        !plan.descriptor(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)) {
      return reject(CUDNN_STATUS_BAD_PARAM, "a handle or the device's properties are missing");
    }
    std::shared_ptr<Descriptor> configuration;
    const cudnnStatus_t status = read_plan({json.begin(), json.end()}, configuration);
    if (status != CUDNN_STATUS_SUCCESS) return status;
    put(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, {*configuration});
  }
  const Descriptor* const configuration =
      plan.descriptor(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  if (configuration == nullptr) {
    return reject(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "the engine configuration is missing or not finalized");
  }
  const Descriptor& engine = *configuration->descriptor(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  const auto problem =
      graph::read(*engine.descriptor(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR));
  const auto index = static_cast<Engine>(engine.get<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX));
  if (!has_plan(index, *problem)) {
    return reject(CUDNN_STATUS_NOT_SUPPORTED, "the engine has no plan for this graph");
  }
  const Decline failure = failure_of(index);
  if (failure == Decline::to_build) return reject(CUDNN_STATUS_EXECUTION_FAILED, "the kernel cannot be loaded");
  if (failure == Decline::to_build_for_memory) {
    return reject(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, "there is no memory for the plan");
  }
  if (failure != Decline::to_tell_workspace) {
    plan.put<std::int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                           configuration->all<std::int64_t>(CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE));
  }
  const std::string text = write_plan(*configuration);
  plan.put<char>(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, {text.begin(), text.end()});
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finalize_device(Descriptor& device) {
  const auto json = device.all<char>(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
  if (json.empty()) {
    // cuDNN 9.19's description of a device has more fields.
    constexpr std::string_view kEmulated = R"({"cudaDeviceId":0,"deviceVer":800,"deviceName":"emulated"})";
    device.put<char>(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, {kEmulated.begin(), kEmulated.end()});
  }
  return bad_unless(json.empty() || json.front() == '{', "the device description is invalid");
}

cudnnStatus_t finalize_variant_pack(const Descriptor& pack) {
  return bad_unless(pack.all<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS).size() ==
                        pack.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).size(),
                    "the numbers of unique ids and pointers differ");
}

}  // namespace

cudnnStatus_t finalize(Descriptor& descriptor) {
  static const std::map<cudnnBackendDescriptorType_t, std::function<cudnnStatus_t(Descriptor&)>> all{
      {CUDNN_BACKEND_TENSOR_DESCRIPTOR, finalize_tensor},
      {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, finalize_convolution},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, finalize_convolution_operation},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, finalize_convolution_operation},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, finalize_convolution_operation},
      {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, finalize_pointwise_operation},
      {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, finalize_graph},
      {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, finalize_heuristics},
      {CUDNN_BACKEND_ENGINE_DESCRIPTOR, finalize_engine},
      {CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, finalize_configuration},
      {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, finalize_plan},
      {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, finalize_variant_pack},
      {CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, finalize_device}};
  const auto found = all.find(descriptor.kind);
  return found != all.end() ? found->second(descriptor) : CUDNN_STATUS_SUCCESS;
}

}  // namespace cuda_on_cpu::dnn
