// The kernels and variables that translated files register before main() begins.

#include <map>
#include <string_view>
#include <utility>

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

KernelRegistration::KernelRegistration(Kernel kernel) { all_kernels().emplace(kernel.name, std::move(kernel)); }

VariableRegistration::VariableRegistration(const Variable& variable) {
  memory().add(variable.address, variable.bytes, true);
  all_variables().emplace(variable.name, variable);
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
