// The real NVRTC compiles, but PTX is returned in place of machine code, for the emulation's cudaLibraryLoadData. This
// NVRTC reports another version, so that a cache never mixes up the two. The sources and their PTX are kept for
// generated_kernels.py.

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
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
#include <string_view>
#include <utility>
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

// The sources of programs that have not been compiled yet.
class Sources {
 public:
  void add(nvrtcProgram program, const char* source) {
    const std::lock_guard lock(mutex_);
    sources_[program] = source;
  }
  // Writes them to files: the source, with its options in the first line, last. Another process may write the same.
  void keep(nvrtcProgram program, const std::string& options, const std::string& ptx) {
    const std::lock_guard lock(mutex_);
    const std::string text = fmt::format("//{}\n{}", options, sources_[program]);
    sources_.erase(program);
    const std::string folder = CUDA_ON_CPU_COMPILED "/sources";
    const std::string name = fmt::format("{}/{:016x}", folder, std::hash<std::string>()(text));
    std::error_code ignored;  // the kernels are then missing for generated_kernels.py
    std::filesystem::create_directories(folder, ignored);
    for (const auto& [ending, content] : {std::pair(".ptx", &ptx), {".cu", &text}}) {
      const std::string path = name + ending, own = fmt::format("{}.{}", path, getpid());
      std::ofstream(own) << *content;
      std::filesystem::rename(own, path, ignored);
    }
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

namespace {

template <class GetSize, class Get>
std::string text_of(nvrtcProgram program, GetSize get_size, Get get) {
  std::size_t size = 0;
  if (get_size(program, &size) != NVRTC_SUCCESS || size == 0) return {};
  std::string text(size, '\0');
  if (get(program, text.data()) != NVRTC_SUCCESS) return {};
  text.pop_back();  // the terminating null
  return text;
}

}  // namespace

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
  // --minimal leaves out what no generated kernel uses, and a tenth of the time.
  std::vector<const char*> all{"-lineinfo", "--minimal"};
  all.insert(all.end(), options, options + count);
  // For a virtual architecture: machine code, which nothing runs here, would take a third of the time.
  std::string architecture;
  for (const char*& option : all) {
    constexpr std::string_view kReal = "--gpu-architecture=sm_";
    if (!std::string_view(option).starts_with(kReal)) continue;
    architecture = fmt::format("--gpu-architecture=compute_{}", option + kReal.size());
    option = architecture.c_str();
  }
  const nvrtcResult result = REAL(nvrtcCompileProgram)(program, static_cast<int>(all.size()), all.data());
  if (result == NVRTC_SUCCESS) {
    sources().keep(program, fmt::format("{}", fmt::join(options, options + count, " ")),
                   text_of(program, nvrtcGetPTXSize, nvrtcGetPTX));
  }
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
