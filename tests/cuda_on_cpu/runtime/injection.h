#pragma once

#include <cuda_runtime_api.h>

namespace cuda_on_cpu {

// Errors made to happen, so that a test can see what a program does about them. Either GIRO_CUDA_ON_CPU_FAIL
// in the environment ("allocation:3,launch:10": the third allocation and the tenth launch of the process
// fail), or cuda_on_cpu_fail.
enum class Injection { allocation, copy, launch };

// Counts the call, and throws CudaError(code) if it is the one that is to fail.
void inject(Injection kind, cudaError_t code, const char* call);

}  // namespace cuda_on_cpu

// The nth call from now on (1: the next) fails; 0 takes it back. `kind` is "allocation", "copy" or "launch";
// false for any other. Tests that also run on a GPU look it up with dlsym.
extern "C" bool cuda_on_cpu_fail(const char* kind, unsigned long long nth);
