#pragma once

// The libraries' opaque objects. Each is an object of the emulation, entered in the account of handles under its kind.

#include <type_traits>
#include <utility>

#include "tests/cuda_on_cpu/runtime/handles.h"

namespace cuda_on_cpu {

// Returns false if the pointer for it is null.
template <class T, class Opaque>
bool create_object(Opaque** out, const char* kind, T value) {
  if (out == nullptr) return false;
  *out = reinterpret_cast<Opaque*>(new T(std::move(value)));
  add_handle(kind, *out);
  return true;
}

// Returns false if there is no such object.
template <class T, class Opaque>
bool destroy_object(Opaque* opaque, const char* kind) {
  if (!remove_handle(kind, opaque)) return false;
  delete reinterpret_cast<const T*>(opaque);
  return true;
}

// The same for a descriptor, which may be null. The libraries then do nothing (cudnn_real_codes).
template <class T, class Opaque>
bool destroy_descriptor(Opaque* opaque, const char* kind) {
  return opaque == nullptr || destroy_object<T>(opaque, kind);
}

// Returns null if there is no such object.
template <class T, class Opaque>
T* object(Opaque* opaque, const char* kind) {
  return is_alive(kind, opaque) ? reinterpret_cast<T*>(const_cast<std::remove_const_t<Opaque>*>(opaque)) : nullptr;
}

}  // namespace cuda_on_cpu
