#pragma once

// Where the library does not contain the CUDA backend, stand-ins define the backend's functions (runtime/no_cuda,
// kernels/no_cuda, distributed/no_nccl). A shared giro has the backend in a module, which the stand-ins load when a
// device is first asked for: it lies beside libgiro.so, and may be absent. A static giro has none: its stand-ins always
// fail.

#include <string>

namespace giro::detail {

#ifdef GIRO_CUDA_MODULE
// Why there is no module, in one line; empty if it is loaded.
const std::string& no_cuda_module_reason();
// The module's function of the same name.
void* find_in_cuda_module(const void* stand_in);
#else
inline std::string no_cuda_module_reason() { return "giro was built without the CUDA toolkit"; }
inline void* find_in_cuda_module(const void*) { return nullptr; }
#endif

// The function that the stand-in stands in for; null without the module, or if the module lacks it.
template <auto* kStandIn>
auto in_cuda_module() {
  static const auto function =
      reinterpret_cast<decltype(kStandIn)>(find_in_cuda_module(reinterpret_cast<const void*>(kStandIn)));
  return function;
}

}  // namespace giro::detail
