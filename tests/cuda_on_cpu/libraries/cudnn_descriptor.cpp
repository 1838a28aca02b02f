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

struct Attributes {
  cudnnBackendAttributeType_t type;
  Use use;
  std::vector<cudnnBackendAttributeName_t> names;
};

const std::map<cudnnBackendAttributeName_t, Rule>& rules() {
  static const std::map<cudnnBackendAttributeName_t, Rule> all = [] {
    std::map<cudnnBackendAttributeName_t, Rule> made;
    const auto of = [](cudnnBackendAttributeType_t type, Use use, auto... names) {
      return Attributes{type, use, {names...}};
    };
    const auto add = [&](cudnnBackendDescriptorType_t kind, const std::vector<Attributes>& attributes) {
      for (const auto& [type, use, names] : attributes) {
        for (const auto name : names) made[name] = {kind, type, use};
      }
    };
    using enum Use;
    constexpr auto kInt64 = CUDNN_TYPE_INT64, kReal = CUDNN_TYPE_DOUBLE, kType = CUDNN_TYPE_DATA_TYPE,
                   kDescriptor = CUDNN_TYPE_BACKEND_DESCRIPTOR, kHandle = CUDNN_TYPE_HANDLE;
    const auto of_convolution = [&](auto alpha, auto beta, auto... descriptors) {
      return std::vector{of(kReal, one, alpha, beta), of(kDescriptor, one, descriptors...)};
    };
    add(CUDNN_BACKEND_TENSOR_DESCRIPTOR,
        {of(kType, one, CUDNN_ATTR_TENSOR_DATA_TYPE),
         of(kInt64, many, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_ATTR_TENSOR_STRIDES),
         of(kInt64, one, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT),
         of(CUDNN_TYPE_BOOLEAN, one, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_ATTR_TENSOR_IS_BY_VALUE)});
    add(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR,
        {of(kType, one, CUDNN_ATTR_CONVOLUTION_COMP_TYPE),
         of(CUDNN_TYPE_CONVOLUTION_MODE, one, CUDNN_ATTR_CONVOLUTION_CONV_MODE),
         of(kInt64, one, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS),
         of(kInt64, many, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS,
            CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES)});
    add(CUDNN_BACKEND_POINTWISE_DESCRIPTOR,
        {of(CUDNN_TYPE_POINTWISE_MODE, one, CUDNN_ATTR_POINTWISE_MODE), of(kType, one, CUDNN_ATTR_POINTWISE_MATH_PREC),
         of(CUDNN_TYPE_NAN_PROPOGATION, one, CUDNN_ATTR_POINTWISE_NAN_PROPAGATION),
         of(kReal, one, CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP,
            CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE)});
    add(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
        of_convolution(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
                       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y));
    add(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
        of_convolution(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
                       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY));
    add(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
        of_convolution(
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY));
    add(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
        {of(kDescriptor, one, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
            CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_ATTR_OPERATION_POINTWISE_YDESC),
         of(kReal, one, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2)});
    add(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR,
        {of(kHandle, one, CUDNN_ATTR_OPERATIONGRAPH_HANDLE), of(kDescriptor, many, CUDNN_ATTR_OPERATIONGRAPH_OPS),
         of(kInt64, computed, CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT)});
    add(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR,
        {of(CUDNN_TYPE_HEUR_MODE, one, CUDNN_ATTR_ENGINEHEUR_MODE),
         of(kDescriptor, one, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP),
         of(kDescriptor, computed, CUDNN_ATTR_ENGINEHEUR_RESULTS)});
    add(CUDNN_BACKEND_ENGINE_DESCRIPTOR,
        {of(kDescriptor, one, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_ATTR_ENGINE_DEVICEPROP),
         of(kInt64, one, CUDNN_ATTR_ENGINE_GLOBAL_INDEX), of(kDescriptor, computed, CUDNN_ATTR_ENGINE_KNOB_INFO),
         of(CUDNN_TYPE_NUMERICAL_NOTE, computed, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE),
         of(CUDNN_TYPE_BEHAVIOR_NOTE, computed, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE)});
    add(CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR, {of(CUDNN_TYPE_KNOB_TYPE, computed, CUDNN_ATTR_KNOB_INFO_TYPE),
                                             of(kInt64, computed, CUDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE,
                                                CUDNN_ATTR_KNOB_INFO_MINIMUM_VALUE, CUDNN_ATTR_KNOB_INFO_STRIDE)});
    add(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, {of(CUDNN_TYPE_KNOB_TYPE, one, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE),
                                               of(kInt64, one, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE)});
    add(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
        {of(kDescriptor, one, CUDNN_ATTR_ENGINECFG_ENGINE), of(kDescriptor, many, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES),
         of(kInt64, computed, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE),
         of(CUDNN_TYPE_INT32, computed, CUDNN_ATTR_ENGINECFG_SHARED_MEMORY_USED)});
    add(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR,
        {of(kHandle, one, CUDNN_ATTR_EXECUTION_PLAN_HANDLE),
         of(kDescriptor, one, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP),
         of(CUDNN_TYPE_CHAR, many, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION),
         of(kInt64, computed, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)});
    add(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, {of(kInt64, many, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS),
                                                of(CUDNN_TYPE_VOID_PTR, many, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS),
                                                of(CUDNN_TYPE_VOID_PTR, one, CUDNN_ATTR_VARIANT_PACK_WORKSPACE)});
    add(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR,
        {of(CUDNN_TYPE_INT32, one, CUDNN_ATTR_DEVICEPROP_DEVICE_ID), of(kHandle, one, CUDNN_ATTR_DEVICEPROP_HANDLE),
         of(CUDNN_TYPE_CHAR, many, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION)});
    return made;
  }();
  return all;
}

const Rule* rule_of(cudnnBackendDescriptorType_t kind, cudnnBackendAttributeName_t name) {
  const auto found = rules().find(name);
  return found != rules().end() && found->second.kind == kind ? &found->second : nullptr;
}

std::size_t size_of(cudnnBackendAttributeType_t type) {
  if (type == CUDNN_TYPE_BOOLEAN || type == CUDNN_TYPE_CHAR) return 1;
  switch (type) {
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
