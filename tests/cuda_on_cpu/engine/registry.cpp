// The kernels and variables that translated files register before main().

#include <map>
#include <string_view>

#include "tests/cuda_on_cpu/engine/engine.h"

namespace giro::simt {
namespace {

std::map<std::string_view, Kernel>& all_kernels() {
  static auto* const all = new std::map<std::string_view, Kernel>;
  return *all;
}

std::map<std::string_view, Variable>& all_variables() {
  static auto* const all = new std::map<std::string_view, Variable>;
  return *all;
}

}  // namespace

KernelRegistration::KernelRegistration(const char* name, void (*run)(Thread&),
                                       std::initializer_list<Parameter> parameters, std::size_t parameter_bytes,
                                       std::size_t static_shared_bytes, unsigned int max_threads, bool waits,
                                       std::uint32_t first_site) {
  all_kernels().emplace(
      name, Kernel{name, run, parameters, parameter_bytes, static_shared_bytes, max_threads, waits, first_site});
}

VariableRegistration::VariableRegistration(const char* name, void* address, std::size_t bytes) {
  memory().add(address, bytes, true);
  all_variables().emplace(name, Variable{name, address, bytes});
}

const Kernel* find_kernel(std::string_view name) {
  const auto found = all_kernels().find(name);
  return found == all_kernels().end() ? nullptr : &found->second;
}

const Variable* find_variable(std::string_view name) {
  const auto found = all_variables().find(name);
  return found == all_variables().end() ? nullptr : &found->second;
}

std::vector<const Kernel*> kernels() {
  std::vector<const Kernel*> all;
  for (const auto& [name, kernel] : all_kernels()) all.push_back(&kernel);
  return all;
}

}  // namespace giro::simt
