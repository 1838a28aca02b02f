#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <mutex>
#include <string>

#include "tests/cuda_on_cpu/runtime/injection.h"

namespace cuda_on_cpu {

// Thrown inside the emulation by calls and by queued work. No exception leaves an entry point: `api` turns it into the
// code that the call returns, and keeps `why` for cudaGetErrorString.
struct CudaError {
  cudaError_t code;
  std::string why;
};

[[noreturn]] void fail(cudaError_t code, std::string why);

// Makes this error the calling thread's last error and returns its code.
cudaError_t report(const CudaError& error);

// When queued work fails, the device is lost: as on a GPU, every later call returns that error.
void lose_device(const CudaError& error);
bool device_is_lost();
// Throws the error that lost the device. With `reports` false the failure does not count as reported: for calls that
// free, since programs ignore their status.
void throw_if_lost(bool reports = true);

// At exit: the failure of queued work that no call has returned, or an empty string.
std::string unreported_failure();

// While a host function runs, CUDA's calls are refused with cudaErrorNotPermitted.
void forbid_in_host_function();

// Allows one call at a time across all threads. Queued work runs under it too, except while it waits for another
// process.
class ApiMutex {
 public:
  void lock() {
    mutex_.lock();
    ++depth_;
  }
  void unlock() {
    --depth_;
    mutex_.unlock();
  }
  // Returns whether it got the lock within about that time.
  bool try_lock_for(std::chrono::milliseconds duration);
  // Releases the lock for that time. The calling thread holds it, once or several times.
  void release_for(std::chrono::microseconds duration);

 private:
  std::recursive_mutex mutex_;
  int depth_ = 0;
};
ApiMutex& api_mutex();

// Runs the body of the entry point `call`.
template <class Body>
cudaError_t api(Body&& body, const char* call = __builtin_FUNCTION()) {
  const std::lock_guard lock(api_mutex());
  try {
    forbid_in_host_function();
    throw_if_lost();
    inject_call(call);
    body();
    return cudaSuccess;
  } catch (const CudaError& error) {
    return report(error);
  }
}

// The same for calls that destroy or free. They also work on a lost device, so that nothing counts as a leak.
template <class Body>
cudaError_t api_of_release(Body&& body) {
  const std::lock_guard lock(api_mutex());
  try {
    forbid_in_host_function();
    body();
    return cudaSuccess;
  } catch (const CudaError& error) {
    return report(error);
  }
}

}  // namespace cuda_on_cpu
