#pragma once

#include <cuda_runtime_api.h>

namespace cuda_on_cpu {

// Injected errors, so that a test can check how a program handles them. Set by GIRO_CUDA_ON_CPU_FAIL in the environment
// ("allocation:3,launch:10": the third allocation and the tenth launch of the process fail), or by cuda_on_cpu_fail. A
// `call` is a call of any entry point, including the libraries', except those that destroy, free, or read the last
// error: a program need not check their status.
enum class Injection { allocation, copy, launch, call };

// Counts the call, and throws CudaError(code) if this is the call that must fail.
void inject(Injection kind, cudaError_t code, const char* call);

// Counts a call of an entry point, and throws CudaError(cudaErrorUnknown) if this is the call that must fail.
void inject_call(const char* call);

}  // namespace cuda_on_cpu

// Makes the nth call from now on fail (1: the next); 0 cancels it. `kind` is "allocation", "copy", "launch" or "call";
// for any other it returns false. Tests that also run on a GPU look this up with dlsym.
extern "C" bool cuda_on_cpu_fail(const char* kind, unsigned long long nth);

// The `call` that has failed since cuda_on_cpu_fail and the program's later calls, separated by spaces. Empty if none
// has failed. Valid until the next call.
extern "C" const char* cuda_on_cpu_calls_since_failure();

// How often the program has called this entry point so far, if it counts as a `call`.
extern "C" unsigned long long cuda_on_cpu_calls(const char* name);
