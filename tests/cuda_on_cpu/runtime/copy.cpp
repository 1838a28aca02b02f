// Copies and fills. All are queued, even between the device and pageable memory: CUDA does not say when it reads or
// writes pageable memory, so the emulation does it as late as it can. cudaMemcpyAsync within the host is synchronous.

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/cuda_on_cpu/engine/memory.h"
#include "tests/cuda_on_cpu/runtime/capture.h"
#include "tests/cuda_on_cpu/runtime/error.h"
#include "tests/cuda_on_cpu/runtime/injection.h"
#include "tests/cuda_on_cpu/runtime/memory.h"
#include "tests/cuda_on_cpu/runtime/operands.h"
#include "tests/cuda_on_cpu/runtime/order.h"
#include "tests/cuda_on_cpu/runtime/stream.h"

namespace cuda_on_cpu {
namespace {

bool is_device(const void* address) {
  const Block* block = find_block(address);
  return block != nullptr && block->kind == Block::Kind::device;
}

struct Copy {
  void* to;
  const void* from;
  std::size_t bytes;
  const char* call;

  bool uses_pageable_memory() const { return find_block(to) == nullptr || find_block(from) == nullptr; }
  bool overlaps() const {
    const auto *a = static_cast<const char*>(to), *b = static_cast<const char*>(from);
    const std::less<const char*> before;
    return before(a, b + bytes) && before(b, a + bytes);
  }
};

void check(const Copy& copy, cudaMemcpyKind kind) {
  check_range(copy.to, copy.bytes, copy.call);
  check_range(copy.from, copy.bytes, copy.call);
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) {
    fail(cudaErrorInvalidMemcpyDirection, fmt::format("{}: unknown direction {}", copy.call, static_cast<int>(kind)));
  }
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (kind != cudaMemcpyDefault && (is_device(copy.to) != to_device || is_device(copy.from) != from_device)) {
    fail(cudaErrorInvalidValue, fmt::format("{}: the direction contradicts the addresses", copy.call));
  }
  if (copy.overlaps()) {
    fail(cudaErrorInvalidValue,
         fmt::format("{}: the source overlaps the target, which CUDA leaves undefined", copy.call));
  }
  inject(Injection::copy, cudaErrorInvalidValue, copy.call);
}

// Runs as queued work.
void run(const Copy& copy) {
  check_range(copy.to, copy.bytes, copy.call);
  check_range(copy.from, copy.bytes, copy.call);
  const std::string wrong = giro::simt::memory().copy(copy.to, copy.from, copy.bytes, current_operation(), copy.call);
  if (!wrong.empty()) fail(cudaErrorIllegalAddress, wrong);
  std::memcpy(copy.to, copy.from, copy.bytes);
}

void submit_copy(const Copy& copy, cudaStream_t stream) {
  if (copy.bytes == 0) return;
  submit(
      stream, copy.call, [=] { run(copy); }, cudaGraphNodeTypeMemcpy, copy.uses_pageable_memory());
}

// Copies from pageable memory to the device. When the call returns, the source has been read, but the target need not
// have been written.
void submit_staged(const Copy& copy) {
  if (copy.bytes == 0) return;
  const auto staged = std::make_shared<std::vector<char>>(copy.bytes);
  submit(nullptr, copy.call, [=] {
    will_read(copy.from, copy.bytes, copy.call);
    std::memcpy(staged->data(), copy.from, copy.bytes);
  });
  run_until(resolve(cudaStream_t{}, copy.call).queue->end());
  submit(nullptr, copy.call, [=] {
    will_write(copy.to, copy.bytes, copy.call);
    std::memcpy(copy.to, staged->data(), copy.bytes);
  });
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
        will_write(to, bytes, call);
        std::memset(to, value, bytes);
      },
      cudaGraphNodeTypeMemset);
}

}  // namespace
}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

extern "C" {

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return api([&] {
    const Copy copy{to, from, bytes, "cudaMemcpyAsync"};
    check(copy, kind);
    submit_copy(copy, stream);
    const CUstream_st& on = resolve(stream, copy.call);
    if (!is_device(to) && !is_device(from) && !on.capture) run_until(on.queue->end());
  });
}

// CUDA Runtime API, "API synchronization behavior", specifies what this call waits for.
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return api([&] {
    const Copy copy{to, from, bytes, "cudaMemcpy"};
    forbid_during_capture(copy.call);
    check(copy, kind);
    if (is_device(to) && find_block(from) == nullptr) return submit_staged(copy);
    submit_copy(copy, nullptr);
    if (!is_device(to) || !is_device(from)) run_until(resolve(cudaStream_t{}, copy.call).queue->end());
  });
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return api([&] { submit_fill(to, value, bytes, stream, "cudaMemsetAsync"); });
}

// Returns before the fill is done, except for pinned memory.
cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  return api([&] {
    forbid_during_capture("cudaMemset");
    submit_fill(to, value, bytes, nullptr, "cudaMemset");
    if (!is_device(to)) run_until(resolve(cudaStream_t{}, "cudaMemset").queue->end());
  });
}
}
