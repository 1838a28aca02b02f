// Libraries: kernels that a program loads as PTX at run time. They are translated and compiled like the kernels of .cu
// files in the emulation's build. The build keeps the resulting shared objects for later processes.

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "tests/cuda_on_cpu/engine/engine.h"
#include "tests/cuda_on_cpu/runtime/error.h"
#include "tests/cuda_on_cpu/runtime/launch.h"

namespace cuda_on_cpu {
namespace {

// What cudaLibrary_t points at.
struct Library {
  std::string ptx;
};

std::set<Library*>& libraries() {
  static auto* const all = new std::set<Library*>;
  return *all;
}

Library& library_of(cudaLibrary_t handle) {
  auto* const library = reinterpret_cast<Library*>(handle);
  if (!libraries().contains(library)) fail(cudaErrorInvalidResourceHandle, "no such library");
  return *library;
}

// Two FNV-1a hashes, so that texts do not collide by chance.
std::string digits_of(const std::string& text) {
  std::uint64_t hashes[2] = {0xcbf29ce484222325u, 0x9ae16a3b2f90404fu};
  for (const char c : text) {
    for (std::uint64_t& hash : hashes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    hashes[1] ^= hashes[1] >> 29;
  }
  return fmt::format("{:016x}{:016x}", hashes[0], hashes[1]);
}

// Starts a shell command without preloading the emulation.
pid_t start(const std::string& command, const posix_spawn_file_actions_t* files = nullptr) {
  std::vector<char*> environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (std::strncmp(*variable, "LD_PRELOAD=", 11) != 0) environment.push_back(*variable);
  }
  environment.push_back(nullptr);
  std::string text = command, shell = "sh", option = "-c";
  char* const arguments[] = {shell.data(), option.data(), text.data(), nullptr};
  pid_t child = 0;
  return posix_spawn(&child, "/bin/sh", files, nullptr, arguments, environment.data()) == 0 ? child : -1;
}

// Returns the command's output if it failed, or an empty string.
std::string run(const std::string& command, const std::string& log) {
  const pid_t child = start(fmt::format("( {} ) > '{}' 2>&1", command, log));
  int status = 1;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  std::ifstream file(log);
  const std::string said{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return status == 0 ? "" : said.empty() ? "the command failed: " + command : said;
}

// The translator of PTX. It runs until this process ends: it takes ten times as long to start as to translate a kernel.
class Translator {
 public:
  // A process that was forked must not share its parent's.
  static Translator& instance() {
    static Translator* one = nullptr;
    if (one == nullptr || one->owner_ != getpid()) one = new Translator;
    return *one;
  }

  // Returns the errors, or an empty string.
  std::string translate(const std::string& ptx, const std::string& c) {
    if (to_ == nullptr || std::fprintf(to_, "%s\t%s\n", ptx.c_str(), c.c_str()) < 0 || std::fflush(to_) != 0) {
      return "the translator did not start: " CUDA_ON_CPU_TRANSLATE;
    }
    const std::string count = line();
    if (count.empty()) return "the translator ended: " CUDA_ON_CPU_TRANSLATE;
    std::string errors;
    for (int i = std::stoi(count); i > 0; --i) errors += line();
    return errors;
  }

 private:
  Translator() {
    int input[2], output[2];
    if (pipe2(input, O_CLOEXEC) != 0 || pipe2(output, O_CLOEXEC) != 0) return;
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, input[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, output[1], STDOUT_FILENO);
    const pid_t child = start("exec " CUDA_ON_CPU_TRANSLATE " '" CUDA_ON_CPU_ROOT "'", &files);
    posix_spawn_file_actions_destroy(&files);
    close(input[0]);
    close(output[1]);
    if (child < 0) return;
    to_ = fdopen(input[1], "w");
    from_ = fdopen(output[0], "r");
  }

  // With its end.
  std::string line() {
    std::string text;
    for (int c = std::fgetc(from_); c != EOF; c = std::fgetc(from_)) {
      text += static_cast<char>(c);
      if (c == '\n') break;
    }
    return text;
  }

  const pid_t owner_ = getpid();
  std::FILE* to_ = nullptr;
  std::FILE* from_ = nullptr;
};

// Several processes may compile the same PTX at once. Each uses its own file names, and the last to finish wins.
std::string compiled(const std::string& ptx) {
  const std::string folder = CUDA_ON_CPU_COMPILED, path = fmt::format("{}/{}.so", folder, digits_of(ptx));
  if (access(path.c_str(), R_OK) == 0) return path;
  (void)mkdir(folder.c_str(), 0777);
  const std::string own = fmt::format("{}.{}", path, getpid());
  std::ofstream(own + ".ptx") << ptx;
  std::string why = Translator::instance().translate(own + ".ptx", own + ".c");
  if (why.empty()) {
    why = run(fmt::format("{} -I'{}' -o '{}' '{}.c'", CUDA_ON_CPU_COMPILE, CUDA_ON_CPU_ROOT, own, own), own + ".log");
  }
  const bool is_made = why.empty() && std::rename(own.c_str(), path.c_str()) == 0;
  for (const char* suffix : {".ptx", ".c", ".log"}) {
    if (is_made) (void)std::remove((own + suffix).c_str());
  }
  if (!is_made) fail(cudaErrorInvalidPtx, fmt::format("kernels of {}.ptx: {}", own, why));
  return path;
}

// Opening the object registers its kernels. It is never closed, because queued work may still run them.
void open(const std::string& ptx) {
  if (dlopen(compiled(ptx).c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
    fail(cudaErrorSharedObjectInitFailed, fmt::format("kernels compiled from PTX: {}", dlerror()));
  }
}

}  // namespace
}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

extern "C" {

cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption*, void**,
                                unsigned int jit_options, cudaLibraryOption*, void**, unsigned int options) {
  return api([&] {
    if (jit_options + options > 0) fail(cudaErrorNotSupported, "cudaLibraryLoadData: options are not emulated");
    const std::string text(static_cast<const char*>(code));
    if (text.find(".version") == std::string::npos) {
      fail(cudaErrorNoKernelImageForDevice, "cudaLibraryLoadData: the code is not PTX, the only kind that is emulated");
    }
    open(text);
    *library = reinterpret_cast<cudaLibrary_t>(*libraries().insert(new Library{text}).first);
  });
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
  return api([&] {
    const Library& from = library_of(library);
    if (from.ptx.find(fmt::format(".entry {}(", name)) == std::string::npos) {
      fail(cudaErrorSymbolNotFound, fmt::format("cudaLibraryGetKernel: the library has no kernel '{}'", name));
    }
    *kernel = kernel_handle(name);
  });
}
}
