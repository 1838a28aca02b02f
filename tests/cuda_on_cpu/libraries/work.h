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
#include "tests/cuda_on_cpu/runtime/operands.h"
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

// A real library leaves its own values in all of the workspace that it asked for.
inline void scribble(Operands& operands, void* workspace, std::size_t bytes) {
  if (bytes == 0) return;
  operands.write(workspace, bytes);
  std::memset(workspace, 0xa5, bytes);
}

}  // namespace cuda_on_cpu
