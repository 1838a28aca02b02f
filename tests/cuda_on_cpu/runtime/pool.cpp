#include "tests/cuda_on_cpu/runtime/pool.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "tests/cuda_on_cpu/engine/memory.h"
#include "tests/cuda_on_cpu/runtime/capture.h"
#include "tests/cuda_on_cpu/runtime/error.h"
#include "tests/cuda_on_cpu/runtime/handles.h"
#include "tests/cuda_on_cpu/runtime/memory.h"
#include "tests/cuda_on_cpu/runtime/operands.h"
#include "tests/cuda_on_cpu/runtime/order.h"
#include "tests/cuda_on_cpu/runtime/stream.h"

namespace cuda_on_cpu {

// `reserved` is what is in use plus the freed memory that the pool keeps, up to the release threshold.
struct Pool {
  std::uint64_t max_bytes = 0;  // 0: limited by the device only
  std::uint64_t release_threshold = 0;
  std::uint64_t used = 0, max_used = 0, reserved = 0, max_reserved = 0;
  int follow_events = 1, opportunistic = 1, internal_dependencies = 1;

  void take(std::uint64_t bytes) {
    used += bytes;
    reserved = std::max(reserved, used);
    max_used = std::max(max_used, used);
    max_reserved = std::max(max_reserved, reserved);
  }
  void give_back(std::uint64_t bytes) {
    used -= bytes;
    trim_to(release_threshold);
  }
  void trim_to(std::uint64_t bytes) { reserved = std::max(used, std::min(reserved, bytes)); }
};

}  // namespace cuda_on_cpu

struct CUmemPoolHandle_st {
  std::shared_ptr<cuda_on_cpu::Pool> pool;  // blocks hold it as well, because they may outlive the handle
};

namespace cuda_on_cpu {
namespace {

constexpr const char* kPool = "memory pool";

// Null if the attribute is not one of those that allow the reuse of memory.
int* reuse_of(Pool& pool, cudaMemPoolAttr attribute) {
  if (attribute == cudaMemPoolReuseFollowEventDependencies) return &pool.follow_events;
  if (attribute == cudaMemPoolReuseAllowOpportunistic) return &pool.opportunistic;
  if (attribute == cudaMemPoolReuseAllowInternalDependencies) return &pool.internal_dependencies;
  return nullptr;
}

cudaMemPool_t default_pool() {
  static auto* const pool = new CUmemPoolHandle_st{std::make_shared<Pool>()};
  return pool;
}

cudaMemPool_t& current_pool() {
  static cudaMemPool_t pool = default_pool();
  return pool;
}

Pool& pool_behind(cudaMemPool_t pool, const char* call) {
  if (pool != default_pool() && !is_alive(kPool, pool)) {
    fail(cudaErrorInvalidValue, fmt::format("{}: no such memory pool: destroyed before, or never created", call));
  }
  return *pool->pool;
}

void expect_the_device(int device, const char* call) {
  if (device != 0) fail(cudaErrorInvalidDevice, fmt::format("{}: no device {}, there is only 0", call, device));
}

void reject_in_capture(const CUstream_st& stream, const char* call) {
  if (is_legacy(stream)) forbid_legacy_during_capture(call);
  if (stream.capture) {
    fail(cudaErrorNotSupported, fmt::format("{}: allocations of a graph are not emulated", call));
  }
}

void allocate(void** out, std::size_t bytes, cudaMemPool_t handle, cudaStream_t on, const char* call) {
  if (out == nullptr) fail(cudaErrorInvalidValue, fmt::format("{}: a null pointer for the address", call));
  Pool& pool = pool_behind(handle, call);
  CUstream_st& stream = resolve(on, call);
  reject_in_capture(stream, call);
  *out = nullptr;
  if (bytes == 0) return;
  if (pool.max_bytes > 0 && bytes > pool.max_bytes - pool.used) {
    fail(cudaErrorMemoryAllocation,
         fmt::format("{} of {} bytes: {} of the pool's {} are in use", call, bytes, pool.used, pool.max_bytes));
  }
  Block& block = add_block(bytes, Block::Kind::device, call);
  block.pool = handle->pool;
  pool.take(bytes);
  *out = block.begin;
  submit(on, call, [begin = block.begin, bytes, call] {
    if (find_block(begin) == nullptr) {
      fail(cudaErrorIllegalAddress, "race: the memory was freed by work that is not ordered after its allocation");
    }
    will_write(begin, bytes, call);  // covers the whole block, so that any use not ordered after this is a race
    giro::simt::memory().forget(begin, bytes);
  });
}

void remove(const Block& block) {
  if (block.pool) block.pool->give_back(block.bytes);
  remove_block(block);
}

}  // namespace

void free_unordered(const Block& block, const char* call) {
  try {
    run_operation({.before = std::make_shared<const Clock>(host_clock())},
                  [&] { will_write(block.begin, block.bytes, call); });
  } catch (const CudaError& error) {
    lose_device({cudaErrorIllegalAddress, fmt::format("{} waits for nothing: {}", call, error.why)});
  }
  remove(block);
}

}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

extern "C" {

cudaError_t cudaMallocAsync(void** pointer, std::size_t bytes, cudaStream_t stream) {
  return api([&] { allocate(pointer, bytes, current_pool(), stream, "cudaMallocAsync"); });
}

cudaError_t cudaMallocFromPoolAsync(void** pointer, std::size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
  return api([&] { allocate(pointer, bytes, pool, stream, "cudaMallocFromPoolAsync"); });
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t on) {
  return api_of_release([&] {
    const char* const call = "cudaFreeAsync";
    reject_in_capture(resolve(on, call), call);
    if (pointer == nullptr) return;
    Block& block = block_at(pointer, call);
    if (block.kind != Block::Kind::device) {
      fail(cudaErrorInvalidValue, fmt::format("{}: {} is not device memory", call, fmt::ptr(pointer)));
    }
    block.free_is_queued = true;
    untrack(block);
    submit(on, call, [&block, call] {
      will_write(block.begin, block.bytes, call);
      remove(block);
    });
  });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return api([&] {
    expect_the_device(device, "cudaDeviceGetDefaultMemPool");
    *pool = default_pool();
  });
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  return api([&] {
    expect_the_device(device, "cudaDeviceGetMemPool");
    *pool = current_pool();
  });
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  return api([&] {
    expect_the_device(device, "cudaDeviceSetMemPool");
    pool_behind(pool, "cudaDeviceSetMemPool");
    current_pool() = pool;
  });
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  return api([&] {
    const char* const call = "cudaMemPoolCreate";
    if (pool == nullptr || properties == nullptr) {
      fail(cudaErrorInvalidValue, fmt::format("{}: no properties, or a null pointer for the pool", call));
    }
    if (properties->allocType != cudaMemAllocationTypePinned ||
        properties->location.type != cudaMemLocationTypeDevice || properties->location.id != 0) {
      fail(cudaErrorInvalidValue, fmt::format("{}: not pinned memory of device 0", call));
    }
    if (properties->handleTypes != cudaMemHandleTypeNone) {
      fail(cudaErrorNotSupported, fmt::format("{}: pools to share are not emulated", call));
    }
    *pool = new CUmemPoolHandle_st{std::make_shared<Pool>(Pool{.max_bytes = properties->maxSize})};
    add_handle(kPool, *pool);
  });
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  return api_of_release([&] {
    pool_behind(pool, "cudaMemPoolDestroy");
    if (pool == default_pool()) fail(cudaErrorInvalidValue, "cudaMemPoolDestroy: the device's default pool");
    if (current_pool() == pool) current_pool() = default_pool();
    remove_handle(kPool, pool);
    delete pool;
  });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, std::size_t bytes) {
  return api([&] { pool_behind(pool, "cudaMemPoolTrimTo").trim_to(bytes); });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attribute, void* value) {
  return api([&] {
    Pool& pool = pool_behind(handle, "cudaMemPoolGetAttribute");
    if (value == nullptr) fail(cudaErrorInvalidValue, "cudaMemPoolGetAttribute: a null pointer for the value");
    auto* const bytes = static_cast<std::uint64_t*>(value);
    if (const int* const reuse = reuse_of(pool, attribute)) {
      *static_cast<int*>(value) = *reuse;
      return;
    }
    switch (attribute) {
      case cudaMemPoolAttrReleaseThreshold:
        *bytes = pool.release_threshold;
        return;
      case cudaMemPoolAttrReservedMemCurrent:
        *bytes = pool.reserved;
        return;
      case cudaMemPoolAttrReservedMemHigh:
        *bytes = pool.max_reserved;
        return;
      case cudaMemPoolAttrUsedMemCurrent:
        *bytes = pool.used;
        return;
      case cudaMemPoolAttrUsedMemHigh:
        *bytes = pool.max_used;
        return;
      default:
        fail(cudaErrorInvalidValue, "cudaMemPoolGetAttribute: no such attribute");
    }
  });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attribute, void* value) {
  return api([&] {
    Pool& pool = pool_behind(handle, "cudaMemPoolSetAttribute");
    if (value == nullptr) fail(cudaErrorInvalidValue, "cudaMemPoolSetAttribute: no value");
    const auto bytes = [&] { return *static_cast<const std::uint64_t*>(value); };
    const auto reset = [&](std::uint64_t& most, std::uint64_t current) {
      if (bytes() != 0) fail(cudaErrorInvalidValue, "cudaMemPoolSetAttribute: a high watermark can only be reset to 0");
      most = current;
    };
    if (int* const reuse = reuse_of(pool, attribute)) {
      *reuse = *static_cast<const int*>(value);
      return;
    }
    switch (attribute) {
      case cudaMemPoolAttrReleaseThreshold:
        pool.release_threshold = bytes();
        return;
      case cudaMemPoolAttrReservedMemHigh:
        return reset(pool.max_reserved, pool.reserved);
      case cudaMemPoolAttrUsedMemHigh:
        return reset(pool.max_used, pool.used);
      default:
        fail(cudaErrorInvalidValue, "cudaMemPoolSetAttribute: no such attribute, or one that cannot be set");
    }
  });
}
}
