#include "tests/cuda_on_cpu/runtime/error.h"

#include <map>
#include <optional>
#include <thread>
#include <utility>

namespace cuda_on_cpu {
namespace {

// The codes that the emulation returns, with CUDA's names and descriptions.
struct Description {
  const char *name, *text;
};

const Description* describe(cudaError_t code) {
#define ENTRY(code, text) \
  {                       \
    code, { #code, text } \
  }
  static const std::map<cudaError_t, Description> descriptions{
      ENTRY(cudaSuccess, "no error"),
      ENTRY(cudaErrorInvalidValue, "invalid argument"),
      ENTRY(cudaErrorMemoryAllocation, "out of memory"),
      ENTRY(cudaErrorInvalidConfiguration, "invalid configuration argument"),
      ENTRY(cudaErrorInvalidDeviceFunction, "invalid device function"),
      ENTRY(cudaErrorInvalidDevice, "invalid device ordinal"),
      ENTRY(cudaErrorNoKernelImageForDevice, "no kernel image is available for execution on the device"),
      ENTRY(cudaErrorInvalidResourceHandle, "invalid resource handle"),
      ENTRY(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
      ENTRY(cudaErrorNotReady, "device not ready"),
      ENTRY(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
      ENTRY(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
      ENTRY(cudaErrorLaunchTimeout, "the launch timed out and was terminated"),
      ENTRY(cudaErrorAssert, "device-side assert triggered"),
      ENTRY(cudaErrorMisalignedAddress, "misaligned address"),
      ENTRY(cudaErrorLaunchFailure, "unspecified launch failure"),
      ENTRY(cudaErrorNotPermitted, "operation not permitted"),
      ENTRY(cudaErrorNotSupported, "operation not supported"),
      ENTRY(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
      ENTRY(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture"),
      ENTRY(cudaErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences"),
      ENTRY(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began"),
      ENTRY(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
      ENTRY(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream"),
      ENTRY(cudaErrorStreamCaptureImplicit,
            "operation would make the legacy stream depend on a capturing blocking stream"),
      ENTRY(cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream"),
      ENTRY(cudaErrorStreamCaptureWrongThread,
            "attempt to terminate a thread-local capture sequence from another thread"),
      ENTRY(cudaErrorUnknown, "unknown error"),
  };
#undef ENTRY
  const auto found = descriptions.find(code);
  return found == descriptions.end() ? nullptr : &found->second;
}

struct LastError {
  cudaError_t code = cudaSuccess;
  std::map<cudaError_t, std::string> texts;  // the texts of cudaGetErrorString for codes that this thread has met
};
LastError& last_error() {
  static thread_local LastError last;
  return last;
}

struct Lost {
  std::optional<CudaError> error;
  bool reported = false;
};
Lost lost;

}  // namespace

void fail(cudaError_t code, std::string why) { throw CudaError{code, std::move(why)}; }

cudaError_t report(const CudaError& error) {
  const Description* description = describe(error.code);
  std::string text = description != nullptr ? description->text : "error";
  if (!error.why.empty()) text += ": " + error.why;
  last_error().texts[error.code] = std::move(text);
  last_error().code = error.code;
  return error.code;
}

void lose_device(const CudaError& error) {
  if (!lost.error) lost.error = error;
}

bool device_is_lost() { return lost.error.has_value(); }

void throw_if_lost(bool reports) {
  if (!lost.error) return;
  lost.reported = lost.reported || reports;
  throw CudaError(*lost.error);
}

std::string unreported_failure() { return lost.error && !lost.reported ? lost.error->why : std::string(); }

bool ApiMutex::try_lock_for(std::chrono::milliseconds duration) {
  const auto end = std::chrono::steady_clock::now() + duration;
  while (!mutex_.try_lock()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ++depth_;
  return true;
}

void ApiMutex::release_for(std::chrono::microseconds duration) {
  const int depth = std::exchange(depth_, 0);
  for (int i = 0; i < depth; ++i) mutex_.unlock();
  std::this_thread::sleep_for(duration);
  for (int i = 0; i < depth; ++i) mutex_.lock();
  depth_ = depth;
}

ApiMutex& api_mutex() {
  static auto* const mutex = new ApiMutex;
  return *mutex;
}

}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

extern "C" {

// A lost device's error cannot be cleared.
cudaError_t cudaGetLastError() {
  const std::lock_guard lock(api_mutex());
  const cudaError_t code = std::exchange(last_error().code, cudaSuccess);
  if (device_is_lost()) {
    lost.reported = true;
    return report(*lost.error);
  }
  return code;
}

cudaError_t cudaPeekAtLastError() {
  const std::lock_guard lock(api_mutex());
  if (device_is_lost()) {
    lost.reported = true;
    return report(*lost.error);
  }
  return last_error().code;
}

const char* cudaGetErrorName(cudaError_t code) {
  const Description* description = describe(code);
  return description != nullptr ? description->name : "unrecognized error code";
}

// CUDA's own text, followed by the reason why the emulation last returned the code to this thread.
const char* cudaGetErrorString(cudaError_t code) {
  const auto& texts = last_error().texts;
  if (const auto found = texts.find(code); found != texts.end()) return found->second.c_str();
  const Description* description = describe(code);
  return description != nullptr ? description->text : "unrecognized error code";
}
}
