#include "runtime/cuda/library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>
#include <string>

#include "runtime/throw_error.h"

// Directories where the build found CUDA's libraries, separated by colons.
#ifndef GIRO_CUDA_PLACES
#define GIRO_CUDA_PLACES "/usr/local/cuda/lib64"
#endif

namespace giro::cuda {

Library::Library(const Description& description) : handle_(RTLD_DEFAULT), package_(description.package) {
  if (::dlsym(RTLD_DEFAULT, description.newest) != nullptr) return;
  std::vector<std::string> paths(description.files.begin(), description.files.end());
  std::istringstream places(GIRO_CUDA_PLACES);
  for (std::string place; std::getline(places, place, ':');) {
    for (const char* file : description.files) paths.push_back(place + "/" + file);
  }
  for (const std::string& path : paths) {
    handle_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ != nullptr) return;
  }
  throw_error(ErrorCode::unsupported, "{} was not found; {}; looked for {}", description.name, package_,
              fmt::join(paths, ", "));
}

Library::Function Library::find(const char* name) const {
  void* const address = ::dlsym(handle_, name);
  if (address == nullptr) {
    throw_error(ErrorCode::unsupported, "the library that was found has no {}: it is too old; {}", name, package_);
  }
  return {address};
}

}  // namespace giro::cuda
