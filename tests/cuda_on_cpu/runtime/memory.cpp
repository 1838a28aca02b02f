#include "tests/cuda_on_cpu/runtime/memory.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

#include "tests/cuda_on_cpu/engine/memory.h"
#include "tests/cuda_on_cpu/runtime/capture.h"
#include "tests/cuda_on_cpu/runtime/error.h"
#include "tests/cuda_on_cpu/runtime/handles.h"
#include "tests/cuda_on_cpu/runtime/injection.h"
#include "tests/cuda_on_cpu/runtime/order.h"
#include "tests/cuda_on_cpu/runtime/pool.h"
#include "tests/cuda_on_cpu/runtime/stream.h"

namespace cuda_on_cpu {
namespace {

constexpr const char* kDeviceMemory = "block of device memory";
constexpr const char* kPinnedMemory = "block of pinned memory";

constexpr int kFresh = 0xff;  // fills new memory, rather than zeros: a NaN as a float, -1 as an index
constexpr std::size_t kPage = 4096;
constexpr std::size_t kHeapBytes = std::size_t{1} << 40;  // addresses, not memory

std::size_t whole_pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// Memory is taken from one range of reserved addresses, front to back, with a closed page between blocks. Queued work
// opens the blocks that it names.
struct Heap {
  char* base = nullptr;
  char* top = nullptr;  // end of everything allocated so far
  std::size_t used = 0;
  int working = 0;             // nested DeviceAccess
  std::vector<Block*> opened;  // by queued work, while it runs
};
Heap& heap = *new Heap;  // never destroyed: remaining work runs at exit

std::map<const char*, Block>& blocks() {  // never destroyed: static objects of the program free late
  static auto* const blocks = new std::map<const char*, Block>;
  return *blocks;
}
std::uint64_t allocations = 0;

// Freed blocks, the earliest first. Work that was queued before the free may use them.
struct Freed {
  char* begin;
  std::vector<Point> users;
};
std::deque<Freed>& freed() {
  static auto* const freed = new std::deque<Freed>;
  return *freed;
}

bool in_heap(const void* address) {
  const auto* p = static_cast<const char*>(address);
  return heap.base != nullptr && p >= heap.base && p < heap.base + kHeapBytes;
}

// Reports that host code accessed device memory, before the process dies. Makes only async-signal-safe calls.
struct sigaction earlier_action;

void say(const char* text) { (void)!write(STDERR_FILENO, text, std::strlen(text)); }

void on_segmentation_fault(int signal, siginfo_t* info, void*) {
  if (in_heap(info->si_addr)) {
    const Block* block = find_block(info->si_addr);
    char number[24] = {};
    char* digit = number + sizeof number - 1;
    for (std::uint64_t n = block != nullptr ? block->number : 0; digit == number + sizeof number - 1 || n > 0;
         n /= 10) {
      *--digit = static_cast<char>('0' + n % 10);
    }
    if (heap.working > 0) {
      say("cuda_on_cpu: queued work accessed memory that it did not declare, or that was never allocated\n");
    } else if (block == nullptr) {
      say("cuda_on_cpu: host code accessed memory that CUDA has freed or never allocated\n");
    } else {
      say("cuda_on_cpu: host code accessed device memory, in allocation number ");
      say(digit);
      say("\n");
    }
  }
  // The faulting access runs again and reaches the earlier handler.
  sigaction(signal, &earlier_action, nullptr);
}

// Whether the running queued work was queued after the block was freed.
bool is_freed(const Block& block) { return block.freed_at > 0 && current_entry() > block.freed_at; }

void open(Block& block);

void reserve_heap() {
  if (heap.base != nullptr) return;
  void* base = mmap(nullptr, kHeapBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) fail(cudaErrorMemoryAllocation, "the emulation cannot reserve addresses for device memory");
  heap.base = heap.top = static_cast<char*>(base);
  struct sigaction action {};
  action.sa_sigaction = on_segmentation_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, &earlier_action);
  giro::simt::memory().before_use = [](std::uintptr_t address) -> std::string {
    Block* block = find_block(reinterpret_cast<const void*>(address));
    if (block == nullptr) return {};
    if (is_freed(*block)) return fmt::format("an allocation of {} bytes that was freed", block->bytes);
    open(*block);
    return {};
  };
}

void protect(char* begin, std::size_t bytes, int protection) {
  if (mprotect(begin, whole_pages(bytes), protection) != 0) {
    fail(cudaErrorUnknown, "the emulation cannot open or close device memory: mprotect failed");
  }
}

void open(Block& block) {
  if (block.open || heap.working == 0 || (block.kind != Block::Kind::device && !block.free_is_queued)) return;
  protect(block.begin, block.bytes, PROT_READ | PROT_WRITE);
  block.open = true;
  heap.opened.push_back(&block);
}

void close(Block& block) {
  protect(block.begin, block.bytes, PROT_NONE);
  block.open = false;
}

void close_all() {
  for (Block* block : std::exchange(heap.opened, {})) close(*block);
}

char* allocate_in_heap(std::size_t bytes, Block::Kind kind, const char* call) {
  reserve_heap();
  const bool device = kind == Block::Kind::device;
  const std::size_t pages = whole_pages(bytes) + kPage;
  if ((device && bytes > kDeviceBytes - heap.used) ||
      pages > kHeapBytes - static_cast<std::size_t>(heap.top - heap.base)) {
    fail(cudaErrorMemoryAllocation,
         fmt::format("{} of {} bytes: {} of {} are in use", call, bytes, heap.used, kDeviceBytes));
  }
  char* begin = heap.top;
  heap.top += pages;
  protect(begin, bytes, PROT_READ | PROT_WRITE);
  std::memset(begin, kFresh, bytes);
  if (device) {
    heap.used += bytes;
    protect(begin, bytes, PROT_NONE);
  }
  return begin;
}

const char* account_of(Block::Kind kind) { return kind == Block::Kind::device ? kDeviceMemory : kPinnedMemory; }

void give_back(const Block& block) {
  untrack(block);
  if (block.kind == Block::Kind::device) heap.used -= block.bytes;
}

// Returns the memory to the system. The addresses stay reserved and closed.
void unmap(const Block& gone) {
  std::erase(heap.opened, &gone);
  const Block block = gone;
  blocks().erase(block.begin);
  giro::simt::memory().remove(block.begin);
  mmap(block.begin, whole_pages(block.bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
       0);
}

void allocate(void** out, std::size_t bytes, Block::Kind kind, const char* call) {
  if (out == nullptr) fail(cudaErrorInvalidValue, fmt::format("{}: a null pointer for the address", call));
  forbid_during_capture(call);
  *out = nullptr;
  if (bytes > 0) *out = add_block(bytes, kind, call).begin;
}

void release(void* pointer, Block::Kind kind, const char* call) {
  if (pointer == nullptr) return;
  forbid_during_capture(call);
  Block& block = block_at(pointer, call);
  if (block.kind != kind) {
    fail(cudaErrorInvalidValue, fmt::format("{}: {} is another kind of memory", call, fmt::ptr(pointer)));
  }
  if (block.pool) {
    free_unordered(block, call);
  } else {
    give_back(block);
    block.free_is_queued = true;
    block.freed_at = last_entry();
    if (!block.open) close(block);
    freed().push_back({block.begin, all_pending()});
    remove_freed_memory();
  }
  throw_if_lost(false);
}

}  // namespace

Block* find_block(const void* address) {
  auto after = blocks().upper_bound(static_cast<const char*>(address));
  if (after == blocks().begin()) return nullptr;
  Block& block = std::prev(after)->second;
  return static_cast<const char*>(address) < block.begin + block.bytes ? &block : nullptr;
}

Block& add_block(std::size_t bytes, Block::Kind kind, const char* call) {
  inject(Injection::allocation, cudaErrorMemoryAllocation, call);
  const bool device = kind == Block::Kind::device;
  char* const begin = allocate_in_heap(bytes, kind, call);
  giro::simt::memory().add(begin, bytes, !device);
  add_handle(account_of(kind), begin, bytes);
  return blocks()[begin] = {begin, bytes, kind, ++allocations};
}

void remove_block(const Block& block) {
  give_back(block);
  unmap(block);
}

void remove_freed_memory() {
  for (; !freed().empty(); freed().pop_front()) {
    const Freed& block = freed().front();
    const auto is_done = [](const Point& user) { return user.queue->is_done(user.entry); };
    if (!std::all_of(block.users.begin(), block.users.end(), is_done)) return;
    unmap(blocks().at(block.begin));
  }
}

void untrack(const Block& block) { remove_handle(account_of(block.kind), block.begin); }

Block& block_at(void* begin, const char* call) {
  const auto found = blocks().find(static_cast<const char*>(begin));
  if (found == blocks().end() || found->second.free_is_queued) {
    fail(cudaErrorInvalidValue, fmt::format("{}: {} is not the address of a live block: freed before, or never "
                                            "allocated by that call's counterpart",
                                            call, fmt::ptr(begin)));
  }
  return found->second;
}

void check_range(const void* begin, std::size_t bytes, const char* call) {
  if (bytes == 0) return;
  Block* block = find_block(begin);
  if (block != nullptr && block->free_is_queued && current_operation() == 0) {
    fail(cudaErrorInvalidValue, fmt::format("{}: {} has been freed", call, fmt::ptr(begin)));
  } else if (block != nullptr && is_freed(*block)) {
    fail(cudaErrorIllegalAddress,
         fmt::format("{}: {} is in an allocation of {} bytes that was freed", call, fmt::ptr(begin), block->bytes));
  } else if (block != nullptr) {
    const auto left = static_cast<std::size_t>(block->begin + block->bytes - static_cast<const char*>(begin));
    if (bytes > left) {
      fail(cudaErrorInvalidValue, fmt::format("{}: {} bytes at an address with {} left of the {} of allocation {}",
                                              call, bytes, left, block->bytes, block->number));
    }
    open(*block);
  } else if (in_heap(begin)) {
    fail(cudaErrorInvalidValue, fmt::format("{}: {} is not allocated memory", call, fmt::ptr(begin)));
  } else if (begin == nullptr) {
    fail(cudaErrorInvalidValue, fmt::format("{}: {} bytes at a null address", call, bytes));
  }
}

DeviceAccess::DeviceAccess() { ++heap.working; }

DeviceAccess::~DeviceAccess() {
  if (--heap.working == 0) close_all();
}

DeviceClosed::DeviceClosed() : working_(std::exchange(heap.working, 0)) { close_all(); }

DeviceClosed::~DeviceClosed() { heap.working = working_; }

std::size_t free_device_bytes() { return kDeviceBytes - heap.used; }

}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

extern "C" {

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  return api([&] { allocate(pointer, bytes, Block::Kind::device, "cudaMalloc"); });
}

cudaError_t cudaFree(void* pointer) {
  return api_of_release([&] { release(pointer, Block::Kind::device, "cudaFree"); });
}

cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned int flags) {
  return api([&] {
    constexpr unsigned int kFlags = cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
    if ((flags & ~kFlags) != 0) fail(cudaErrorInvalidValue, "cudaHostAlloc: unknown flags");
    allocate(pointer, bytes, Block::Kind::pinned, "cudaHostAlloc");
  });
}

cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) {
  return cudaHostAlloc(pointer, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void* pointer) {
  return api_of_release([&] { release(pointer, Block::Kind::pinned, "cudaFreeHost"); });
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return api([&] {
    *free = free_device_bytes();
    *total = kDeviceBytes;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  return api([&] {
    *attributes = {};
    const Block* block = find_block(pointer);
    void* address = const_cast<void*>(pointer);
    if (block == nullptr) {
      attributes->type = cudaMemoryTypeUnregistered;
      attributes->device = -2;  // cudaInvalidDeviceId
      attributes->hostPointer = address;
    } else {
      const bool device = block->kind == Block::Kind::device;
      attributes->type = device ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
      attributes->devicePointer = address;
      attributes->hostPointer = device ? nullptr : address;
    }
  });
}
}
