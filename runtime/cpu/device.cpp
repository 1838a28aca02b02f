#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <limits>
#include <new>
#include <string>

#include "runtime/backend.h"
#include "runtime/throw_error.h"

namespace giro::cpu {
namespace {

[[noreturn]] void fail_out_of_memory(std::size_t bytes) {
  throw_error(ErrorCode::out_of_memory, "the host does not have {} bytes of memory left", bytes);
}

}  // namespace

DeviceInfo device_info() {
  const long pages = sysconf(_SC_PHYS_PAGES), page_size = sysconf(_SC_PAGE_SIZE);
  const bool known = pages > 0 && page_size > 0;
  return {Device::cpu(), "CPU", known ? static_cast<std::size_t>(pages) * static_cast<std::size_t>(page_size) : 0};
}

std::optional<std::size_t> free_memory() {
  // On Linux, includes the memory that caches would give back.
  std::ifstream meminfo("/proc/meminfo");
  for (std::string line; std::getline(meminfo, line);) {
    unsigned long long kilobytes = 0;
    if (std::sscanf(line.c_str(), "MemAvailable: %llu kB", &kilobytes) == 1) return std::size_t{1'024} * kilobytes;
  }
  const long pages = sysconf(_SC_AVPHYS_PAGES), page_size = sysconf(_SC_PAGE_SIZE);
  if (pages < 0 || page_size < 0) return {};
  return static_cast<std::size_t>(pages) * static_cast<std::size_t>(page_size);
}

void use_large_pages([[maybe_unused]] void* data, [[maybe_unused]] std::size_t bytes) {
#if defined(MADV_HUGEPAGE)
  constexpr std::uintptr_t kLargePage = std::uintptr_t{2} << 20;
  const auto first = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t begin = (first + kLargePage - 1) / kLargePage * kLargePage;
  const std::uintptr_t end = (first + bytes) / kLargePage * kLargePage;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

void* allocate(std::size_t bytes) {
  // The allocator rounds up to the alignment, which may overflow.
  const bool too_many = bytes > std::numeric_limits<std::size_t>::max() - Buffer::kAlignment;
  void* data = too_many ? nullptr : ::operator new(bytes, std::align_val_t{Buffer::kAlignment}, std::nothrow);
  if (data == nullptr) fail_out_of_memory(bytes);
  use_large_pages(data, bytes);
  return data;
}

void deallocate(void* data) noexcept { ::operator delete(data, std::align_val_t{Buffer::kAlignment}); }

std::shared_ptr<void> map(std::size_t bytes) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) fail_out_of_memory(bytes);
  return {data, [bytes](void* pages) { munmap(pages, bytes); }};
}

}  // namespace giro::cpu
