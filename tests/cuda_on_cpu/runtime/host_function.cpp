// cudaLaunchHostFunc. A host function runs late like all work, when a call waits for it. But a program may also wait
// for it without a CUDA call.

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <memory>

#include "tests/cuda_on_cpu/runtime/capture.h"
#include "tests/cuda_on_cpu/runtime/error.h"
#include "tests/cuda_on_cpu/runtime/graph.h"
#include "tests/cuda_on_cpu/runtime/memory.h"
#include "tests/cuda_on_cpu/runtime/run_when_idle.h"
#include "tests/cuda_on_cpu/runtime/stream.h"

namespace cuda_on_cpu {
namespace {

bool running = false;  // guarded by api_mutex(), so the thread that finds it true is the one that runs the function

void run(cudaHostFn_t function, void* argument) {
  const DeviceClosed host_code;
  running = true;
  function(argument);
  running = false;
}

}  // namespace

void forbid_in_host_function() {
  if (running) fail(cudaErrorNotPermitted, "a host function must not call CUDA");
}

}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

extern "C" {

cudaError_t cudaLaunchHostFunc(cudaStream_t on, cudaHostFn_t function, void* argument) {
  return api([&] {
    const char* const call = "cudaLaunchHostFunc";
    if (function == nullptr) fail(cudaErrorInvalidValue, fmt::format("{}: no function", call));
    CUstream_st& stream = resolve(on, call);
    if (is_legacy(stream)) forbid_legacy_during_capture(call);
    if (stream.capture) {
      return capture_node(
          stream, {.name = "host function", .type = cudaGraphNodeTypeHost, .work = [=] { run(function, argument); }});
    }
    // When it starts, the host counts as having waited for all earlier work in the stream.
    enqueue(stream, "host function", [=](const Place& place) {
      merge(host_clock(), *place.before);
      run(function, argument);
      return true;
    });
    run_when_idle(stream.queue->end());
  });
}
}
