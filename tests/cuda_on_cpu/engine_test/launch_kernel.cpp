#include "tests/cuda_on_cpu/engine_test/launch_kernel.h"

#include <cxxabi.h>

#include <cstdlib>
#include <stdexcept>

namespace giro::simt {

const Kernel& kernel_named(const std::string& part) {
  const Kernel* found = nullptr;
  for (const Kernel* kernel : kernels()) {
    const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(kernel->name, nullptr, nullptr, nullptr),
                                                      std::free);
    const std::string name = text ? text.get() : kernel->name;
    if (name.find(part) == std::string::npos) continue;
    if (name == part) return *kernel;
    if (found != nullptr) throw std::runtime_error("several kernels are named " + part);
    found = kernel;
  }
  if (found == nullptr) throw std::runtime_error("no kernel is named " + part);
  return *found;
}

}  // namespace giro::simt
