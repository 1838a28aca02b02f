#pragma once

// Runs CUDA kernels on the CPU, one block after another, a block's threads in turn. The kernels are nvcc's PTX
// turned into C++ (tests/cuda_on_cpu/ptx); whoever launches them (tests/cuda_on_cpu/runtime) says which memory
// exists (memory.h). Order of blocks and threads is drawn from a seed.
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

// What the translator knows of a kernel.
struct Kernel {
  const char* name;  // mangled, as __cudaRegisterFunction gives it
  void (*run)(Thread&);
  std::vector<Parameter> parameters;
  std::size_t parameter_bytes;
  std::size_t static_shared_bytes;
  unsigned int max_threads;  // of a block, by __launch_bounds__; 1024 where it has none
  bool waits;                // has a barrier or a warp operation: each thread needs a stack of its own
  std::uint32_t first_site;  // of the translated file (sites.h): site i in its code is site first_site + i
};

// A __device__ or __constant__ variable.
struct Variable {
  const char* name;  // mangled
  void* address;
  std::size_t bytes;
};

// By mangled name; null where no translated file holds it. Of variables only those that a kernel names are there.
const Kernel* find_kernel(std::string_view name);
const Variable* find_variable(std::string_view name);
std::vector<const Kernel*> kernels();

struct Launch {
  Dim3 grid, block;
  std::size_t dynamic_shared_bytes = 0;
  // arguments[i] points at parameter i, as cudaLaunchKernel takes them. Read by launch() only; one that queues
  // a launch copies parameters[i].bytes of each beforehand.
  void* const* arguments = nullptr;
  // Which operation of the runtime this is (memory.h); 0: everything earlier is ordered before it.
  Operation operation = 0;
};

// What ended a launch. In brackets the error that CUDA would give, sticky but for the first.
enum class Fault {
  none,
  invalid_configuration,  // cudaErrorInvalidConfiguration: nothing ran
  illegal_address,        // cudaErrorIllegalAddress: outside every allocation, or freed
  misaligned_address,     // cudaErrorMisalignedAddress
  trap,                   // cudaErrorLaunchFailure: trap instruction
  timeout,                // cudaErrorLaunchTimeout: the watchdog's
  divergence,             // (hangs or worse on a GPU) a barrier or warp operation that not all its threads reach
  race,                   // (silent on a GPU)
  uninitialised,          // (silent on a GPU) a read of memory that nothing wrote
};

// `message` names kernel, block, thread, and file and line of the .cu; empty where fault is none.
struct Outcome {
  Fault fault = Fault::none;
  std::string message;
  explicit operator bool() const { return fault == Fault::none; }
};

// Whether CUDA takes this launch: what cudaLaunchKernel answers at once. `shared_limit`: what the kernel may
// have as dynamic shared memory together with its static (cudaFuncSetAttribute raises it).
Outcome check_configuration(const Kernel& kernel, const Launch& launch,
                            std::size_t shared_limit = Limits::kSharedBytes);

// Runs the launch to its end or to its first fault. What was written before a fault stays written.
Outcome launch(const Kernel& kernel, const Launch& launch);

struct Options {
  std::uint64_t seed = 0;  // of the order of blocks and threads; GIRO_SIMT_SEED
  bool race_check = true;  // races and uninitialised reads; bounds are always checked; GIRO_SIMT_RACE_CHECK=0
  std::uint64_t watchdog = std::uint64_t{1} << 26;  // loop iterations a thread may take; GIRO_SIMT_WATCHDOG
};

// As the environment says, until a test changes them.
Options& options();

// What cudaGraphSetConditional, called by a kernel, does. Set by the runtime; returns what is wrong with the call, or
// nothing.
void on_set_conditional(std::function<std::string(std::uint64_t handle, std::uint32_t value)> set);

}  // namespace giro::simt
