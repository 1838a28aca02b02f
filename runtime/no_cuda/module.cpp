#include "runtime/cuda_module.h"

#ifdef GIRO_CUDA_MODULE
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

namespace giro::detail {
namespace {

struct Module {
  void* library = nullptr;
  std::string missing_reason = {};
};

Module load() {
  Dl_info own{};
  ::dladdr(reinterpret_cast<const void*>(&load), &own);
  const std::string library = own.dli_fname;
  const std::string path = library.substr(0, library.rfind('/') + 1) + GIRO_CUDA_MODULE;
  if (::access(path.c_str(), F_OK) != 0) return {.missing_reason = fmt::format("there is no CUDA module {}", path)};
  void* const module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) {
    return {.missing_reason = fmt::format("the CUDA module {} cannot be loaded: {}", path, ::dlerror())};
  }
  // Any difference may break the private interface.
  const auto* const version = static_cast<const char*>(::dlsym(module, "giro_cuda_version"));
  if (version == nullptr || std::string(version) != GIRO_VERSION) {
    const std::string found = version == nullptr ? "no version" : version;
    ::dlclose(module);
    return {.missing_reason = fmt::format("the CUDA module {} is of giro {}, expected {}", path, found, GIRO_VERSION)};
  }
  return {.library = module};
}

const Module& of_process() {
  static const Module module = load();
  return module;
}

}  // namespace

const std::string& no_cuda_module_reason() { return of_process().missing_reason; }

void* find_in_cuda_module(const void* stand_in) {
  void* const module = of_process().library;
  Dl_info own{};
  if (module == nullptr || ::dladdr(stand_in, &own) == 0 || own.dli_sname == nullptr) return nullptr;
  return ::dlsym(module, own.dli_sname);
}

}  // namespace giro::detail
#endif
