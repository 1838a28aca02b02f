#include "runtime/cuda/nvrtc.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nvrtc.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "runtime/internal/throw_error.h"

// Directories where the build found CUDA's libraries, separated by colons.
#ifndef GIRO_NVRTC_PLACES
#define GIRO_NVRTC_PLACES "/usr/local/cuda/lib64"
#endif

namespace giro::cuda {

struct Nvrtc::Functions {
  decltype(&nvrtcVersion) version;
  decltype(&nvrtcGetErrorString) error_string;
  decltype(&nvrtcGetNumSupportedArchs) num_architectures;
  decltype(&nvrtcGetSupportedArchs) architectures;
  decltype(&nvrtcCreateProgram) create;
  decltype(&nvrtcDestroyProgram) destroy;
  decltype(&nvrtcCompileProgram) compile;
  decltype(&nvrtcGetProgramLogSize) log_size;
  decltype(&nvrtcGetProgramLog) log;
  decltype(&nvrtcGetCUBINSize) cubin_size;
  decltype(&nvrtcGetCUBIN) cubin;
  decltype(&nvrtcGetPTXSize) ptx_size;
  decltype(&nvrtcGetPTX) ptx;

  // False if the library lacks one.
  bool find_in(void* library) {
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
      return function != nullptr;
    };
    return find(version, "nvrtcVersion") && find(error_string, "nvrtcGetErrorString") &&
           find(num_architectures, "nvrtcGetNumSupportedArchs") && find(architectures, "nvrtcGetSupportedArchs") &&
           find(create, "nvrtcCreateProgram") && find(destroy, "nvrtcDestroyProgram") &&
           find(compile, "nvrtcCompileProgram") && find(log_size, "nvrtcGetProgramLogSize") &&
           find(log, "nvrtcGetProgramLog") && find(cubin_size, "nvrtcGetCUBINSize") && find(cubin, "nvrtcGetCUBIN") &&
           find(ptx_size, "nvrtcGetPTXSize") && find(ptx, "nvrtcGetPTX");
  }
};

namespace {

constexpr const char* kPackage = "it comes with the CUDA toolkit (cuda-nvrtc) and with PyPI's nvidia-cuda-nvrtc";

void* open_library(std::string& tried) {
  constexpr const char* kNames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};
  std::vector<std::string> paths(std::begin(kNames), std::end(kNames));
  std::istringstream places(GIRO_NVRTC_PLACES);
  for (std::string place; std::getline(places, place, ':');) {
    for (const char* name : kNames) paths.push_back(place + "/" + name);
  }
  for (const std::string& path : paths) {
    if (void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  }
  tried = fmt::format("{}", fmt::join(paths, ", "));
  return nullptr;
}

}  // namespace

const Nvrtc& Nvrtc::instance() {
  static const Nvrtc nvrtc;
  return nvrtc;
}

Nvrtc::Nvrtc() {
  static Functions functions{};
  if (!functions.find_in(RTLD_DEFAULT)) {
    std::string tried;
    void* const library = open_library(tried);
    if (library == nullptr) {
      throw_error(ErrorCode::unsupported, "NVRTC, which compiles kernels at run time, was not found; {}; looked for {}",
                  kPackage, tried);
    }
    if (!functions.find_in(library)) {
      throw_error(ErrorCode::unsupported, "the NVRTC that was found is too old: 12.0 or later is needed; {}", kPackage);
    }
  }
  functions_ = &functions;
  int major = 0, minor = 0;
  (void)functions_->version(&major, &minor);
  version_ = fmt::format("{}.{}", major, minor);
}

// No fused multiply-add: every operation is rounded separately, as in the CPU kernels.
const std::vector<std::string>& Nvrtc::options() {
  static const std::vector<std::string> options{"--fmad=false", "--std=c++17", "--device-as-default-execution-space",
                                                "--disable-warnings"};
  return options;
}

std::string Nvrtc::compiled(const std::string& source, int architecture, bool as_ptx) const {
  const auto check = [&](nvrtcResult result, const std::string& call) {
    if (result == NVRTC_SUCCESS) return;
    const ErrorCode code = result == NVRTC_ERROR_OUT_OF_MEMORY ? ErrorCode::out_of_memory : ErrorCode::device;
    throw_error(code, "NVRTC {}: {}: {}", version_, call, functions_->error_string(result));
  };
  struct Program {
    const Functions& functions;
    nvrtcProgram handle = nullptr;
    ~Program() {
      if (handle != nullptr) (void)functions.destroy(&handle);
    }
  } program{*functions_};
  check(functions_->create(&program.handle, source.c_str(), "giro.cu", 0, nullptr, nullptr), "nvrtcCreateProgram");
  const std::string target = fmt::format("--gpu-architecture={}_{}", as_ptx ? "compute" : "sm", architecture);
  std::vector<const char*> arguments{target.c_str()};
  for (const std::string& option : options()) arguments.push_back(option.c_str());
  const nvrtcResult result = functions_->compile(program.handle, static_cast<int>(arguments.size()), arguments.data());
  const auto text = [&](auto get_size, auto get, const std::string& call) {
    std::size_t size = 0;
    check(get_size(program.handle, &size), call + "Size");
    std::string content(size, '\0');
    check(get(program.handle, content.data()), call);
    return content;
  };
  if (result == NVRTC_ERROR_COMPILATION) {
    const std::string log = text(functions_->log_size, functions_->log, "nvrtcGetProgramLog");
    throw_invalid("NVRTC {} failed to compile a kernel: {}", version_, log.c_str());
  }
  check(result, "nvrtcCompileProgram");
  return as_ptx ? text(functions_->ptx_size, functions_->ptx, "nvrtcGetPTX")
                : text(functions_->cubin_size, functions_->cubin, "nvrtcGetCUBIN");
}

std::string Nvrtc::compile(const std::string& source, int architecture) const {
  int count = 0;
  (void)functions_->num_architectures(&count);
  std::vector<int> known(static_cast<std::size_t>(count));
  (void)functions_->architectures(known.data());
  if (std::find(known.begin(), known.end(), architecture) == known.end()) {
    throw_error(ErrorCode::unsupported, "NVRTC {} does not support GPUs of compute capability {}.{}, only {}; {}",
                version_, architecture / 10, architecture % 10, fmt::join(known, ", "), kPackage);
  }
  return compiled(source, architecture, /*as_ptx=*/false);
}

std::string Nvrtc::ptx(const std::string& source, int architecture) const {
  return compiled(source, architecture, /*as_ptx=*/true);
}

}  // namespace giro::cuda
