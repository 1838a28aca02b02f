#include "runtime/cuda/nvrtc.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nvrtc.h>

#include <algorithm>

#include "runtime/cuda/library.h"
#include "runtime/throw_error.h"

namespace giro::cuda {

struct Nvrtc::Functions : Library {
  using Library::Library;

  decltype(&nvrtcVersion) version = find("nvrtcVersion");
  decltype(&nvrtcGetErrorString) error_string = find("nvrtcGetErrorString");
  decltype(&nvrtcGetNumSupportedArchs) num_architectures = find("nvrtcGetNumSupportedArchs");
  decltype(&nvrtcGetSupportedArchs) architectures = find("nvrtcGetSupportedArchs");
  decltype(&nvrtcCreateProgram) create = find("nvrtcCreateProgram");
  decltype(&nvrtcDestroyProgram) destroy = find("nvrtcDestroyProgram");
  decltype(&nvrtcCompileProgram) compile = find("nvrtcCompileProgram");
  decltype(&nvrtcGetProgramLogSize) log_size = find("nvrtcGetProgramLogSize");
  decltype(&nvrtcGetProgramLog) log = find("nvrtcGetProgramLog");
  decltype(&nvrtcGetCUBINSize) cubin_size = find("nvrtcGetCUBINSize");
  decltype(&nvrtcGetCUBIN) cubin = find("nvrtcGetCUBIN");
  decltype(&nvrtcGetPTXSize) ptx_size = find("nvrtcGetPTXSize");
  decltype(&nvrtcGetPTX) ptx = find("nvrtcGetPTX");
};

static constexpr const char* kPackage =
    "version 12.0 or later comes with the CUDA toolkit (cuda-nvrtc) and with PyPI's nvidia-cuda-nvrtc";

const Nvrtc& Nvrtc::instance() {
  static const Nvrtc nvrtc;
  return nvrtc;
}

Nvrtc::Nvrtc() {
  static const Functions functions({.name = "NVRTC, which compiles kernels at run time,",
                                    .files = {"libnvrtc.so.13", "libnvrtc.so.12"},
                                    .package = kPackage,
                                    .newest = "nvrtcGetCUBIN"});
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
