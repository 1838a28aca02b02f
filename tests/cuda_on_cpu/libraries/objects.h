#pragma once

// The libraries' opaque objects: each is one of our own, on the account of handles under the name of its
// kind.

#include <type_traits>
#include <utility>

#include "tests/cuda_on_cpu/runtime/handles.h"

namespace cuda_on_cpu {

// False if there is nowhere to store it.
template <class T, class Opaque>
bool create_object(Opaque** out, const char* kind, T value) {
  if (out == nullptr) return false;
  *out = reinterpret_cast<Opaque*>(new T(std::move(value)));
  add_handle(kind, *out);
  return true;
}

// False if there is no such object.
template <class T, class Opaque>
bool destroy_object(Opaque* opaque, const char* kind) {
  if (!remove_handle(kind, opaque)) return false;
  delete reinterpret_cast<const T*>(opaque);
  return true;
}

// The same of a descriptor, of which there may be none: the libraries themselves then do nothing (cudnn_real_codes).
template <class T, class Opaque>
bool destroy_descriptor(Opaque* opaque, const char* kind) {
  return opaque == nullptr || destroy_object<T>(opaque, kind);
}

// Null if there is no such object.
template <class T, class Opaque>
T* object(Opaque* opaque, const char* kind) {
  return is_alive(kind, opaque) ? reinterpret_cast<T*>(const_cast<std::remove_const_t<Opaque>*>(opaque)) : nullptr;
}

}  // namespace cuda_on_cpu
