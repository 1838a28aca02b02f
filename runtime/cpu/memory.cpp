#include <sys/mman.h>

#include <cstdint>
#include <limits>
#include <new>

#include "runtime/backend.h"
#include "runtime/throw_error.h"

namespace giro::cpu {

void use_large_pages([[maybe_unused]] void* data, [[maybe_unused]] std::size_t bytes) {
#if defined(MADV_HUGEPAGE)
  constexpr std::uintptr_t kLargePage = std::uintptr_t{2} << 20;
  const auto first = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t begin = (first + kLargePage - 1) / kLargePage * kLargePage;
  const std::uintptr_t end = (first + bytes) / kLargePage * kLargePage;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

namespace {

[[noreturn]] void fail_out_of_memory(std::size_t bytes) {
  throw_error(ErrorCode::out_of_memory, "the host does not have {} bytes of memory left", bytes);
}

}  // namespace

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
