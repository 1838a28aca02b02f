// The real NVRTC compiles, but PTX is returned in place of machine code, for the emulation's cudaLibraryLoadData. This
// NVRTC reports another version, so that a cache never mixes up the two. The sources are kept for generated_kernels.py.

#include <dlfcn.h>
#include <fmt/format.h>
#include <nvrtc.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace {

template <class F>
F real(F, const char* name) {
  static void* const library = dlopen(CUDA_ON_CPU_NVRTC, RTLD_NOW | RTLD_LOCAL);
  void* const function = library == nullptr ? nullptr : dlsym(library, name);
  if (function == nullptr) {
    std::fprintf(stderr, "cuda_on_cpu: %s is not in %s: %s\n", name, CUDA_ON_CPU_NVRTC, dlerror());
    std::abort();
  }
  return reinterpret_cast<F>(function);
}

// giro's kernel cache stays within the build.
const bool has_cache = setenv("GIRO_CACHE", CUDA_ON_CPU_COMPILED "/cache", 1) == 0;

// Asks for the PTX of the architecture instead of its machine code.
std::string virtual_architecture(std::string option) {
  const std::string begin = "--gpu-architecture=sm_";
  if (option.rfind(begin, 0) == 0) option.replace(0, begin.size(), "--gpu-architecture=compute_");
  return option;
}

// The sources of programs that have not been compiled yet.
class Sources {
 public:
  void add(nvrtcProgram program, const char* source) {
    const std::lock_guard lock(mutex_);
    sources_[program] = source;
  }
  // Writes the source to a file, with its options in the first line. Another process may write the same file.
  void keep(nvrtcProgram program, const std::string& options) {
    const std::lock_guard lock(mutex_);
    const std::string text = fmt::format("//{}\n{}", options, sources_[program]);
    sources_.erase(program);
    const std::string folder = CUDA_ON_CPU_COMPILED "/sources";
    const std::string path = fmt::format("{}/{:016x}.cu", folder, std::hash<std::string>()(text));
    const std::string own = fmt::format("{}.{}", path, getpid());
    std::error_code ignored;  // the file is then missing for generated_kernels.py
    std::filesystem::create_directories(folder, ignored);
    std::ofstream(own) << text;
    std::filesystem::rename(own, path, ignored);
  }

 private:
  std::mutex mutex_;
  std::map<nvrtcProgram, std::string> sources_;
};

Sources& sources() {
  static auto* const all = new Sources;
  return *all;
}

}  // namespace

#define REAL(function) real(&function, #function)

extern "C" {

nvrtcResult nvrtcVersion(int* major, int* minor) {
  const nvrtcResult result = REAL(nvrtcVersion)(major, minor);
  *minor += 1000;
  return result;
}

const char* nvrtcGetErrorString(nvrtcResult result) { return REAL(nvrtcGetErrorString)(result); }

nvrtcResult nvrtcGetNumSupportedArchs(int* count) { return REAL(nvrtcGetNumSupportedArchs)(count); }

nvrtcResult nvrtcGetSupportedArchs(int* architectures) { return REAL(nvrtcGetSupportedArchs)(architectures); }

nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* source, const char* name, int headers,
                               const char* const* contents, const char* const* names) {
  const nvrtcResult result = REAL(nvrtcCreateProgram)(program, source, name, headers, contents, names);
  if (result == NVRTC_SUCCESS) sources().add(*program, source);
  return result;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) { return REAL(nvrtcDestroyProgram)(program); }

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count, const char* const* options) {
  std::vector<std::string> texts{"-lineinfo"};
  std::string others;
  for (int i = 0; i < count; ++i) {
    texts.push_back(virtual_architecture(options[i]));
    if (texts.back() == options[i]) others += " " + texts.back();
  }
  std::vector<const char*> pointers;
  for (const std::string& text : texts) pointers.push_back(text.c_str());
  const nvrtcResult result = REAL(nvrtcCompileProgram)(program, static_cast<int>(pointers.size()), pointers.data());
  if (result == NVRTC_SUCCESS) sources().keep(program, others);
  return result;
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, std::size_t* size) {
  return REAL(nvrtcGetProgramLogSize)(program, size);
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* log) { return REAL(nvrtcGetProgramLog)(program, log); }

nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, std::size_t* size) { return REAL(nvrtcGetPTXSize)(program, size); }

nvrtcResult nvrtcGetPTX(nvrtcProgram program, char* ptx) { return REAL(nvrtcGetPTX)(program, ptx); }

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, std::size_t* size) { return nvrtcGetPTXSize(program, size); }

nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* cubin) { return nvrtcGetPTX(program, cubin); }
}
