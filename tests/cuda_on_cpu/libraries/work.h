#pragma once

// What the emulated libraries share: how their work is queued and what it says it touches.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstring>
#include <mutex>
#include <utility>

#include "tests/cuda_on_cpu/engine/memory.h"
#include "tests/cuda_on_cpu/runtime/error.h"
#include "tests/cuda_on_cpu/runtime/memory.h"
#include "tests/cuda_on_cpu/runtime/order.h"
#include "tests/cuda_on_cpu/runtime/stream.h"

namespace cuda_on_cpu {

// The body of a library's entry point, which is `call` and returns one of the library's statuses; `failed`
// where queueing fails.
template <class Status, class Body>
Status library_call(Status failed, Body&& body, const char* call = __builtin_FUNCTION()) {
  const std::lock_guard lock(api_mutex());
  try {
    forbid_in_host_function();
    throw_if_lost();
    inject_call(call);
    return body();
  } catch (const CudaError& error) {
    report(error);
    return failed;
  }
}

// Within queued work: these bytes are read, or written, by it. Throws CudaError where that is out of bounds,
// a race, or a read of what nothing wrote.
inline void will_read(const void* begin, std::size_t bytes, const char* what) {
  check_range(begin, bytes, what);
  const std::string wrong = giro::simt::memory().read(begin, bytes, current_operation(), what);
  if (!wrong.empty()) fail(cudaErrorIllegalAddress, wrong);
}

inline void will_write(const void* begin, std::size_t bytes, const char* what) {
  check_range(begin, bytes, what);
  const std::string wrong = giro::simt::memory().write(begin, bytes, current_operation(), what);
  if (!wrong.empty()) fail(cudaErrorIllegalAddress, wrong);
}

// A real library leaves its own values in all of the workspace that it asked for. Done before the operands
// are read, so a workspace that overlaps one shows.
inline void scribble(void* workspace, std::size_t bytes, const char* what) {
  if (bytes == 0) return;
  will_write(workspace, bytes, what);
  std::memset(workspace, 0xa5, bytes);
}

}  // namespace cuda_on_cpu
