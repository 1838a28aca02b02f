#pragma once

// A descriptor of cuDNN's backend API: a kind, and attributes by their names.

#include <cudnn.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace cuda_on_cpu::dnn {

struct Descriptor;

struct Attribute {
  cudnnBackendAttributeType_t type;
  std::string elements;                                        // their bytes, unless they are descriptors
  std::vector<std::shared_ptr<const Descriptor>> descriptors;  // as they were when they were set
};

struct Descriptor {
  cudnnBackendDescriptorType_t kind;
  bool finalized = false;
  std::map<cudnnBackendAttributeName_t, Attribute> attributes{};

  // The attribute's elements; none if it is not set.
  template <class T>
  std::vector<T> all(cudnnBackendAttributeName_t name) const {
    const auto found = attributes.find(name);
    if (found == attributes.end()) return {};
    std::vector<T> values(found->second.elements.size() / sizeof(T));
    std::memcpy(values.data(), found->second.elements.data(), values.size() * sizeof(T));
    return values;
  }
  template <class T>
  T get(cudnnBackendAttributeName_t name, T if_not_set = {}) const {
    const auto found = attributes.find(name);
    if (found != attributes.end()) std::memcpy(&if_not_set, found->second.elements.data(), sizeof(T));
    return if_not_set;
  }
  // Returns null unless it is a single finalized descriptor of this kind.
  const Descriptor* descriptor(cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t expected) const {
    const auto found = attributes.find(name);
    if (found == attributes.end() || found->second.descriptors.size() != 1) return nullptr;
    const Descriptor* const one = found->second.descriptors.front().get();
    return one->kind == expected && one->finalized ? one : nullptr;
  }
  template <class T>
  void put(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const std::vector<T>& values) {
    attributes[name] = {type, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)}, {}};
  }
};

// Keeps the reason for cudnnGetLastErrorString, and returns the status.
cudnnStatus_t reject(cudnnStatus_t status, const std::string& reason);

// The checks of cudnnBackendFinalize for each kind of descriptor. Also sets the attributes that cuDNN computes.
cudnnStatus_t finalize(Descriptor& descriptor);

}  // namespace cuda_on_cpu::dnn
