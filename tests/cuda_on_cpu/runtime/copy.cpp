// Copies and fills. All of them are queued, those from and to pageable memory too: CUDA does not say when it
// reads or writes that, so the emulation does it as late as it can.

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstring>
#include <string>

#include "tests/cuda_on_cpu/engine/memory.h"
#include "tests/cuda_on_cpu/runtime/capture.h"
#include "tests/cuda_on_cpu/runtime/error.h"
#include "tests/cuda_on_cpu/runtime/injection.h"
#include "tests/cuda_on_cpu/runtime/memory.h"
#include "tests/cuda_on_cpu/runtime/order.h"
#include "tests/cuda_on_cpu/runtime/stream.h"

namespace cuda_on_cpu {
namespace {

bool is_device(const void* address) {
  const Block* block = find_block(address);
  return block != nullptr && block->kind == Block::Kind::device;
}

void check_direction(const void* to, const void* from, cudaMemcpyKind kind, const char* call) {
  if (kind == cudaMemcpyDefault) return;
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (is_device(to) != to_device || is_device(from) != from_device) {
    fail(cudaErrorInvalidValue, fmt::format("{}: the direction says otherwise than the addresses", call));
  }
}

void submit_copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream,
                 const char* call) {
  check_range(to, bytes, call);
  check_range(from, bytes, call);
  check_direction(to, from, kind, call);
  inject(Injection::copy, cudaErrorInvalidValue, call);
  if (bytes == 0) return;
  submit(
      stream, call,
      [=] {
        check_range(to, bytes, call);
        check_range(from, bytes, call);
        const std::string wrong = giro::simt::memory().copy(to, from, bytes, current_operation(), call);
        if (!wrong.empty()) fail(cudaErrorIllegalAddress, wrong);
        std::memmove(to, from, bytes);
      },
      cudaGraphNodeTypeMemcpy, find_block(to) == nullptr || find_block(from) == nullptr);
}

void submit_fill(void* to, int value, std::size_t bytes, cudaStream_t stream, const char* call) {
  check_range(to, bytes, call);
  if (bytes > 0 && find_block(to) == nullptr) {
    fail(cudaErrorInvalidValue, fmt::format("{}: not memory that CUDA has allocated", call));
  }
  inject(Injection::copy, cudaErrorInvalidValue, call);
  if (bytes == 0) return;
  submit(
      stream, call,
      [=] {
        check_range(to, bytes, call);
        const std::string wrong = giro::simt::memory().write(to, bytes, current_operation(), call);
        if (!wrong.empty()) fail(cudaErrorIllegalAddress, wrong);
        std::memset(to, value, bytes);
      },
      cudaGraphNodeTypeMemset);
}

}  // namespace
}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

extern "C" {

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return api([&] { submit_copy(to, from, bytes, kind, stream, "cudaMemcpyAsync"); });
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return api([&] {
    forbid_during_capture("cudaMemcpy");
    submit_copy(to, from, bytes, kind, nullptr, "cudaMemcpy");
    run_until(resolve(nullptr, "cudaMemcpy").queue->end());
  });
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return api([&] { submit_fill(to, value, bytes, stream, "cudaMemsetAsync"); });
}

// On device memory it returns before the fill is done.
cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  return api([&] {
    forbid_during_capture("cudaMemset");
    submit_fill(to, value, bytes, nullptr, "cudaMemset");
  });
}
}
