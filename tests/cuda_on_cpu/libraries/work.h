#pragma once

// Shared code of the emulated libraries: how their work is queued, and how it declares what it touches.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "tests/cuda_on_cpu/engine/memory.h"
#include "tests/cuda_on_cpu/runtime/capture.h"
#include "tests/cuda_on_cpu/runtime/error.h"
#include "tests/cuda_on_cpu/runtime/memory.h"
#include "tests/cuda_on_cpu/runtime/operands.h"
#include "tests/cuda_on_cpu/runtime/order.h"
#include "tests/cuda_on_cpu/runtime/stream.h"

namespace cuda_on_cpu {

// Runs the body of a library's entry point named `call`. The body returns one of the library's statuses; `failed` is
// returned if queueing fails.
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

// Opening a library may wait for the device. A thread must not do that in the middle of its own capture.
template <class Status, class Body>
Status library_open(Status failed, Body&& body, const char* call = __builtin_FUNCTION()) {
  const auto opened = [&] {
    forbid_in_own_capture(call);
    return body();
  };
  return library_call(failed, opened, call);
}

// Closing a library waits for the device, so it breaks every capture under way, of whichever thread. Work that was
// launched before runs while the handle still exists.
template <class Status, class Body>
Status library_close(Status failed, Body&& body, const char* call = __builtin_FUNCTION()) {
  const std::lock_guard lock(api_mutex());
  std::optional<Status> broken;
  try {
    forbid_wait_during_capture(nullptr, call);
    run_everything();
  } catch (const CudaError& error) {
    report(error);
    broken = failed;
  }
  const Status status = body();
  return broken.value_or(status);
}

// Memory of a library's handle, used by the work that is queued through it. A graph may run that work at any later
// time.
using LibraryMemory = std::shared_ptr<const void>;

// `submit` for that work. Work queued in a stream is done when the handle is destroyed, because that waits for it. Work
// in a graph must find the handle alive at every launch.
inline void submit_with(const LibraryMemory& memory, cudaStream_t stream, const char* name,
                        std::function<void()> work) {
  if (!resolve(stream, name).capture) return submit(stream, name, std::move(work));
  submit(stream, name, [memory = std::weak_ptr(memory), name, work = std::move(work)] {
    if (memory.expired()) {
      fail(cudaErrorIllegalAddress, std::string(name) + ": the graph uses memory of a handle that was destroyed");
    }
    work();
  });
}

// A real library may leave any values in the whole workspace that it asked for.
inline void scribble(Operands& operands, void* workspace, std::size_t bytes) {
  if (bytes == 0) return;
  operands.write(workspace, bytes);
  std::memset(workspace, 0xa5, bytes);
}

}  // namespace cuda_on_cpu
