#pragma once

// Runs CUDA kernels on the CPU, one block after another, switching between the threads of a block. The kernels are
// nvcc's PTX translated to C (tests/cuda_on_cpu/ptx). The caller (tests/cuda_on_cpu/runtime) registers the memory
// that exists (memory.h). A seed determines the order of blocks and threads.
//
// One launch runs at a time: callers on several host threads take turns.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/cuda_on_cpu/engine/kernel.h"
#include "tests/cuda_on_cpu/engine/memory.h"

namespace giro::simt {

// What the translator knows about a kernel.
struct Kernel {
  const char* name;  // mangled, as __cudaRegisterFunction gives it
  void (*run)(ThreadView*);
  std::vector<Parameter> parameters;
  std::size_t parameter_bytes;
  std::size_t static_shared_bytes;
  unsigned int max_threads;  // per block, by __launch_bounds__; 1024 without it
  bool waits;                // has a barrier or a warp operation: each thread needs its own stack
  std::uint32_t first_site;  // of the translated file (sites.h): site i in its code is site first_site + i
};

// A __device__ or __constant__ variable.
struct Variable {
  const char* name;  // mangled
  void* address;
  std::size_t bytes;
};

// Look up by mangled name; null if no translated file has it. Only variables that a kernel uses are registered.
const Kernel* find_kernel(std::string_view name);
const Variable* find_variable(std::string_view name);
std::vector<const Kernel*> kernels();

struct Launch {
  Dim3 grid, block;
  std::size_t dynamic_shared_bytes = 0;
  // arguments[i] points at parameter i, as for cudaLaunchKernel. Only launch() reads them. A caller that queues a
  // launch copies parameters[i].bytes of each beforehand.
  void* const* arguments = nullptr;
  // The launch's operation number (memory.h). 0 is ordered after everything earlier.
  Operation operation = 0;
};

// Why a launch ended. The comments name CUDA's error; all but the first are sticky.
enum class Fault {
  none,
  invalid_configuration,  // cudaErrorInvalidConfiguration: nothing ran
  illegal_address,        // cudaErrorIllegalAddress: outside every allocation, or freed
  misaligned_address,     // cudaErrorMisalignedAddress
  trap,                   // cudaErrorLaunchFailure: trap instruction
  timeout,                // cudaErrorLaunchTimeout: the watchdog stopped it
  divergence,             // (hangs or worse on a GPU) not all threads reach a barrier or warp operation
  race,                   // (silent on a GPU)
  uninitialised,          // (silent on a GPU) a read of memory that was never written
};

// `message` names the kernel, block and thread, and the file and line in the .cu. Empty if fault is none.
struct Outcome {
  Fault fault = Fault::none;
  std::string message;
  explicit operator bool() const { return fault == Fault::none; }
};

// Whether CUDA accepts this launch. If not, cudaLaunchKernel returns the error immediately. `shared_limit` bounds the
// kernel's dynamic plus static shared memory (cudaFuncSetAttribute raises it).
Outcome check_configuration(const Kernel& kernel, const Launch& launch,
                            std::size_t shared_limit = Limits::kSharedBytes);

// Runs the launch to its end or to its first fault. What was written before a fault stays written.
Outcome launch(const Kernel& kernel, const Launch& launch);

struct Options {
  std::uint64_t seed = 0;  // for the order of blocks and threads; GIRO_SIMT_SEED
  bool race_check = true;  // races and uninitialised reads; bounds are always checked; GIRO_SIMT_RACE_CHECK=0
  std::uint64_t watchdog = std::uint64_t{1} << 26;  // loop iterations a thread may take; GIRO_SIMT_WATCHDOG
};

// Taken from the environment until a test changes them.
Options& options();

// For the runtime: `set` runs when a kernel calls cudaGraphSetConditional. It returns an error message, or nothing.
void on_set_conditional(std::function<std::string(std::uint64_t handle, std::uint32_t value)> set);

}  // namespace giro::simt
