// The kernels and variables that translated files register before main().

#include <map>
#include <span>
#include <string_view>

#include "tests/cuda_on_cpu/engine/engine.h"
#include "tests/cuda_on_cpu/engine/sites.h"

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

extern "C" void simt_register(const char* const* sites, u64 site_count, const KernelRegistration* kernels,
                              u64 kernel_count, const VariableRegistration* variables, u64 variable_count) {
  const std::uint32_t first_site = add_sites(sites, site_count);
  for (const auto& kernel : std::span(kernels, kernel_count)) {
    all_kernels().emplace(kernel.name, Kernel{kernel.name,
                                              kernel.run,
                                              {kernel.parameters, kernel.parameters + kernel.parameter_count},
                                              kernel.parameter_bytes,
                                              kernel.static_shared_bytes,
                                              kernel.max_threads,
                                              kernel.waits,
                                              first_site});
  }
  for (const auto& variable : std::span(variables, variable_count)) {
    memory().add(variable.address, variable.bytes, true);
    all_variables().emplace(variable.name, Variable{variable.name, variable.address, variable.bytes});
  }
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
