#pragma once

#include <cuda_runtime_api.h>

namespace cuda_on_cpu {

// Errors made to happen, so that a test can see what a program does about them. Either GIRO_CUDA_ON_CPU_FAIL
// in the environment ("allocation:3,launch:10": the third allocation and the tenth launch of the process
// fail), or cuda_on_cpu_fail. A `call` is one of any entry point, of the libraries' too, that returns a
// status which a program has to look at: not what destroys, frees, or reads the last error.
enum class Injection { allocation, copy, launch, call };

// Counts the call, and throws CudaError(code) if it is the one that is to fail.
void inject(Injection kind, cudaError_t code, const char* call);

// Counts a call of an entry point, and throws CudaError(cudaErrorUnknown) if it is the one that is to fail.
void inject_call(const char* call);

}  // namespace cuda_on_cpu

// The nth call from now on (1: the next) fails; 0 takes it back. `kind` is "allocation", "copy", "launch" or
// "call"; false for any other. Tests that also run on a GPU look it up with dlsym.
extern "C" bool cuda_on_cpu_fail(const char* kind, unsigned long long nth);

// The `call` that failed since cuda_on_cpu_fail, and those that the program made after it, with a space
// between them; empty if none has failed. Valid until the next call.
extern "C" const char* cuda_on_cpu_calls_since_failure();

// How often the program has called the entry point of that name so far, of those that count as a `call`.
extern "C" unsigned long long cuda_on_cpu_calls(const char* name);
