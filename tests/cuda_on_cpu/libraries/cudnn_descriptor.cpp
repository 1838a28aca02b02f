// The entry points for descriptors of cuDNN's backend API. They accept and reject what cuDNN 9.19 does, checked by the
// ctest cudnn_real_codes. Where the real one crashes (a descriptor of another kind, for example), this one rejects.
//
// Only cudnnBackendExecute is a `call` that can be made to fail (injection.h): cudnn-frontend takes any other failure
// to mean that the plan does not exist, and tries the next one.

#include "tests/cuda_on_cpu/libraries/cudnn_descriptor.h"

#include <algorithm>

#include "tests/cuda_on_cpu/libraries/cudnn.h"

namespace cuda_on_cpu::dnn {
namespace {

constexpr const char* kBackend = "cuDNN backend descriptor";

enum class Use { one, many, computed };  // `computed`: by cuDNN, when the descriptor is finalized

struct Rule {
  cudnnBackendDescriptorType_t kind;
  cudnnBackendAttributeType_t type;
  Use use = Use::one;
};

const std::map<cudnnBackendAttributeName_t, Rule>& rules() {
  static const std::map<cudnnBackendAttributeName_t, Rule> all = [] {
    std::map<cudnnBackendAttributeName_t, Rule> made;
    const auto add =
        [&](cudnnBackendDescriptorType_t kind,
            std::initializer_list<std::tuple<cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, Use>>
                attributes) {
          for (const auto& [name, type, use] : attributes) made[name] = {kind, type, use};
        };
    using enum Use;
    constexpr auto kInt64 = CUDNN_TYPE_INT64, kReal = CUDNN_TYPE_DOUBLE, kType = CUDNN_TYPE_DATA_TYPE,
                   kDescriptor = CUDNN_TYPE_BACKEND_DESCRIPTOR, kHandle = CUDNN_TYPE_HANDLE;
    add(CUDNN_BACKEND_TENSOR_DESCRIPTOR, {{CUDNN_ATTR_TENSOR_DATA_TYPE, kType, one},
                                          {CUDNN_ATTR_TENSOR_DIMENSIONS, kInt64, many},
                                          {CUDNN_ATTR_TENSOR_STRIDES, kInt64, many},
                                          {CUDNN_ATTR_TENSOR_UNIQUE_ID, kInt64, one},
                                          {CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kInt64, one},
                                          {CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, one},
                                          {CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, one}});
    add(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, {{CUDNN_ATTR_CONVOLUTION_COMP_TYPE, kType, one},
                                               {CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, one},
                                               {CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, kInt64, one},
                                               {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, kInt64, many},
                                               {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, kInt64, many},
                                               {CUDNN_ATTR_CONVOLUTION_DILATIONS, kInt64, many},
                                               {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, kInt64, many}});
    add(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, {{CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, one},
                                             {CUDNN_ATTR_POINTWISE_MATH_PREC, kType, one},
                                             {CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, one},
                                             {CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, kReal, one},
                                             {CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, kReal, one},
                                             {CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, kReal, one}});
    add(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
        {{CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, kReal, one},
         {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, kReal, one},
         {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, kDescriptor, one},
         {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, kDescriptor, one},
         {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, kDescriptor, one},
         {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, kDescriptor, one}});
    add(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
        {{CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, kReal, one},
         {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, kReal, one},
         {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, kDescriptor, one},
         {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, kDescriptor, one},
         {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, kDescriptor, one},
         {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, kDescriptor, one}});
    add(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
        {{CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, kReal, one},
         {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, kReal, one},
         {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, kDescriptor, one},
         {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, kDescriptor, one},
         {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, kDescriptor, one},
         {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, kDescriptor, one}});
    add(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, {{CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kDescriptor, one},
                                                       {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, kDescriptor, one},
                                                       {CUDNN_ATTR_OPERATION_POINTWISE_BDESC, kDescriptor, one},
                                                       {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, kDescriptor, one},
                                                       {CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, kReal, one},
                                                       {CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, kReal, one}});
    add(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, {{CUDNN_ATTR_OPERATIONGRAPH_HANDLE, kHandle, one},
                                                  {CUDNN_ATTR_OPERATIONGRAPH_OPS, kDescriptor, many},
                                                  {CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, kInt64, computed}});
    add(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, {{CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, one},
                                              {CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, kDescriptor, one},
                                              {CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, kDescriptor, one},
                                              {CUDNN_ATTR_ENGINEHEUR_RESULTS, kDescriptor, computed}});
    add(CUDNN_BACKEND_ENGINE_DESCRIPTOR, {{CUDNN_ATTR_ENGINE_OPERATION_GRAPH, kDescriptor, one},
                                          {CUDNN_ATTR_ENGINE_GLOBAL_INDEX, kInt64, one},
                                          {CUDNN_ATTR_ENGINE_DEVICEPROP, kDescriptor, one},
                                          {CUDNN_ATTR_ENGINE_KNOB_INFO, kDescriptor, computed},
                                          {CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, computed},
                                          {CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE, computed}});
    add(CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR, {{CUDNN_ATTR_KNOB_INFO_TYPE, CUDNN_TYPE_KNOB_TYPE, computed},
                                             {CUDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE, kInt64, computed},
                                             {CUDNN_ATTR_KNOB_INFO_MINIMUM_VALUE, kInt64, computed},
                                             {CUDNN_ATTR_KNOB_INFO_STRIDE, kInt64, computed}});
    add(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, {{CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, one},
                                               {CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, kInt64, one}});
    add(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, {{CUDNN_ATTR_ENGINECFG_ENGINE, kDescriptor, one},
                                             {CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, kDescriptor, many},
                                             {CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, kInt64, computed},
                                             {CUDNN_ATTR_ENGINECFG_SHARED_MEMORY_USED, CUDNN_TYPE_INT32, computed}});
    add(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR,
        {{CUDNN_ATTR_EXECUTION_PLAN_HANDLE, kHandle, one},
         {CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, kDescriptor, one},
         {CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, many},
         {CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, kDescriptor, one},
         {CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, kInt64, computed}});
    add(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, {{CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, kInt64, many},
                                                {CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, many},
                                                {CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, one}});
    add(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, {{CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32, one},
                                              {CUDNN_ATTR_DEVICEPROP_HANDLE, kHandle, one},
                                              {CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, many}});
    return made;
  }();
  return all;
}

const Rule* rule_of(cudnnBackendDescriptorType_t kind, cudnnBackendAttributeName_t name) {
  const auto found = rules().find(name);
  return found != rules().end() && found->second.kind == kind ? &found->second : nullptr;
}

std::size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
      return 1;
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    default:
      return 4;
  }
}

thread_local std::string last_error;

cudnnStatus_t set(Descriptor& descriptor, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                  std::int64_t count, const void* elements) {
  const Rule* const rule = rule_of(descriptor.kind, name);
  if (descriptor.finalized) return reject(CUDNN_STATUS_BAD_PARAM, "the descriptor is already finalized");
  if (rule == nullptr || rule->use == Use::computed) {
    return reject(CUDNN_STATUS_BAD_PARAM, "this kind of descriptor has no such attribute to set");
  }
  const bool is_float = rule->type == CUDNN_TYPE_DOUBLE && type == CUDNN_TYPE_FLOAT;
  if (type != rule->type && !is_float) return reject(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "the type is wrong");
  const bool is_descriptor = type == CUDNN_TYPE_BACKEND_DESCRIPTOR;
  const std::int64_t least = is_descriptor && rule->use == Use::many ? 0 : 1;
  if (count < least || (count > 0 && elements == nullptr) || (rule->use == Use::one && count != 1)) {
    return reject(CUDNN_STATUS_BAD_PARAM, "the number of elements is wrong");
  }
  Attribute attribute{rule->type, {}, {}};
  if (is_descriptor) {
    const auto* const given = static_cast<const cudnnBackendDescriptor_t*>(elements);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto* const one = object<const Descriptor>(given[i], kBackend);
      if (one == nullptr) return reject(CUDNN_STATUS_BAD_PARAM, "an element is not a descriptor");
      if (name == CUDNN_ATTR_OPERATIONGRAPH_OPS && !one->finalized) {
        return reject(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "an operation is not finalized");
      }
      attribute.descriptors.push_back(std::make_shared<const Descriptor>(*one));
    }
  } else if (is_float) {
    const double value = *static_cast<const float*>(elements);
    attribute.elements.assign(reinterpret_cast<const char*>(&value), sizeof(value));
  } else {
    attribute.elements.assign(static_cast<const char*>(elements), static_cast<std::size_t>(count) * size_of(type));
    if (type == CUDNN_TYPE_HANDLE && !is_alive(kHandle, *static_cast<const cudnnHandle_t*>(elements))) {
      return reject(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "there is no such handle");
    }
  }
  descriptor.attributes[name] = std::move(attribute);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t get(const Descriptor& descriptor, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                  std::int64_t wanted, std::int64_t* count, void* elements) {
  if (!descriptor.finalized) return reject(CUDNN_STATUS_NOT_INITIALIZED, "the descriptor is not finalized");
  const Rule* const rule = rule_of(descriptor.kind, name);
  if (rule == nullptr || wanted < 0) return reject(CUDNN_STATUS_BAD_PARAM, "there is no such attribute or number");
  if (type != rule->type) return reject(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "the type is wrong");
  const auto found = descriptor.attributes.find(name);
  if (found == descriptor.attributes.end()) return reject(CUDNN_STATUS_NOT_SUPPORTED, "the attribute is not set");
  const auto& [_, bytes, descriptors] = found->second;
  const bool is_descriptor = type == CUDNN_TYPE_BACKEND_DESCRIPTOR;
  std::int64_t there = static_cast<std::int64_t>(is_descriptor ? descriptors.size() : bytes.size() / size_of(type));
  if (elements == nullptr) {
    // cuDNN 9.19 counts everything it might suggest, and then returns only what works.
    if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) ++there;
  } else {
    there = std::min(there, wanted);
    for (std::int64_t i = 0; is_descriptor && i < there; ++i) {
      auto* const target = object<Descriptor>(static_cast<cudnnBackendDescriptor_t*>(elements)[i], kBackend);
      const Descriptor& source = *descriptors[static_cast<std::size_t>(i)];
      if (target == nullptr || target->kind != source.kind) return reject(CUDNN_STATUS_BAD_PARAM, "an element's kind");
      *target = source;
    }
    if (!is_descriptor) std::memcpy(elements, bytes.data(), static_cast<std::size_t>(there) * size_of(type));
  }
  if (count != nullptr) *count = there;
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

cudnnStatus_t reject(cudnnStatus_t status, const std::string& reason) {
  last_error = reason;
  return status;
}

}  // namespace cuda_on_cpu::dnn

using namespace cuda_on_cpu;
using namespace cuda_on_cpu::dnn;

extern "C" {

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t kind, cudnnBackendDescriptor_t* descriptor) {
  const std::lock_guard lock(api_mutex());
  const bool known =
      std::any_of(rules().begin(), rules().end(), [&](const auto& rule) { return rule.second.kind == kind; });
  if (kind == CUDNN_BACKEND_MATMUL_DESCRIPTOR || kind == CUDNN_BACKEND_REDUCTION_DESCRIPTOR) {
    return reject(CUDNN_STATUS_NOT_SUPPORTED, "attention is not emulated");
  }
  if (!known) return reject(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, "an unknown kind of descriptor");
  return create_object(descriptor, kBackend, Descriptor{kind}) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  const std::lock_guard lock(api_mutex());
  const bool destroyed = destroy_object<Descriptor>(descriptor, kBackend);
  return destroyed ? CUDNN_STATUS_SUCCESS : reject(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "there is no such descriptor");
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count, const void* elements) {
  const std::lock_guard lock(api_mutex());
  auto* const found = object<Descriptor>(descriptor, kBackend);
  return found ? set(*found, name, type, count, elements)
               : reject(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "there is no such descriptor");
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t wanted, std::int64_t* count,
                                       void* elements) {
  const std::lock_guard lock(api_mutex());
  const auto* const found = object<const Descriptor>(descriptor, kBackend);
  return found ? get(*found, name, type, wanted, count, elements)
               : reject(CUDNN_STATUS_BAD_PARAM, "there is no such descriptor");
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  const std::lock_guard lock(api_mutex());
  auto* const found = object<Descriptor>(descriptor, kBackend);
  if (found == nullptr) return reject(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "there is no such descriptor");
  if (found->finalized) return reject(CUDNN_STATUS_BAD_PARAM, "the descriptor is already finalized");
  const cudnnStatus_t status = finalize(*found);
  found->finalized = status == CUDNN_STATUS_SUCCESS;
  return status;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
  return cudnn([&] {
    const auto* const library = object<Library>(handle, kHandle);
    const auto *const a = object<const Descriptor>(plan, kBackend), *const b = object<const Descriptor>(pack, kBackend);
    if (!library || !a || !b || a->kind != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR ||
        b->kind != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR) {
      return reject(CUDNN_STATUS_BAD_PARAM, "the handle, the plan or the variant pack is invalid");
    }
    if (!a->finalized || !b->finalized) {
      return reject(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "the plan or the variant pack is not finalized");
    }
    return execute(*library, *a, *b);
  });
}

void cudnnGetLastErrorString(char* message, std::size_t size) {
  if (message == nullptr || size == 0) return;
  message[last_error.copy(message, size - 1)] = 0;
}
}
