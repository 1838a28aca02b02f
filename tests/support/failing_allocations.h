#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>
#include <string>

#include <giro/runtime/error.h>

// Replaces the program's operator new and delete: include it in exactly one source file. It also works under the
// sanitizers because it calls their malloc; they then cannot tell memory from new and memory from malloc apart.
namespace giro::test {

namespace allocations {
inline std::atomic<std::int64_t> live = 0;
inline std::atomic<std::size_t> min_bytes = std::numeric_limits<std::size_t>::max();
inline std::atomic<std::int64_t> seen = 0, first_to_fail = 0, last_to_fail = 0;
}  // namespace allocations

// Counts the allocations of at least `min_bytes` in all threads, from 1, and fails numbers `first` to `last`. Lasts
// until its destruction; only one may exist at a time.
class FailingAllocations {
 public:
  FailingAllocations(std::size_t min_bytes, std::int64_t first, std::int64_t last) {
    allocations::seen = 0;
    allocations::first_to_fail = first;
    allocations::last_to_fail = last;
    allocations::min_bytes = min_bytes;
  }
  FailingAllocations(const FailingAllocations&) = delete;
  FailingAllocations& operator=(const FailingAllocations&) = delete;
  ~FailingAllocations() { allocations::min_bytes = std::numeric_limits<std::size_t>::max(); }
};

// Allocations that have not been freed.
inline std::int64_t live_allocations() { return allocations::live; }

// Smaller allocations never fail: the destructor of nlohmann::json 3.11 allocates to free a tree, and a failure there
// terminates the program. For the trees in the tests that takes 512 bytes.
inline constexpr std::size_t kMinBytes = 1'024;

// Whether a call ends with Error(out_of_memory) or std::bad_alloc.
template <class F>
bool runs_out_of_memory(F&& call) {
  try {
    call();
    return false;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory) << error.what();
  } catch (const std::bad_alloc&) {
  }
  return true;
}

// Fails each allocation of at least kMinBytes in Scene::call(), first alone and then with all that follow. Each time
// a new Scene's call must run out of memory, check_failed() must hold, the same call must then succeed, and nothing may
// stay allocated. check_done() must hold after the successful call.
template <class Scene>
void fail_each_allocation() {
  {
    Scene scene;  // for one-time initialization
    scene.call();
    scene.check_done();
  }
  for (const bool alone : {true, false}) {
    std::int64_t number = 0;
    for (bool failed = true; failed;) {
      ++number;
      SCOPED_TRACE(testing::Message() << "allocation " << number << (alone ? "" : " and all that follow"));
      const std::int64_t live = live_allocations();
      {
        Scene scene;
        failed = runs_out_of_memory([&] {
          const FailingAllocations failing(kMinBytes, number,
                                           alone ? number : std::numeric_limits<std::int64_t>::max());
          scene.call();
        });
        if (failed) {
          scene.check_failed();
          scene.call();
        }
        scene.check_done();
      }
      ASSERT_EQ(live_allocations(), live);
    }
    EXPECT_GT(number, 5) << "so few allocations are large enough";
    testing::Test::RecordProperty(alone ? "failed_alone" : "failed_with_all_that_follow", std::to_string(number - 1));
  }
}

namespace allocations {

inline void* allocate(std::size_t bytes, std::size_t alignment) noexcept {
  if (bytes >= min_bytes) {
    const std::int64_t number = ++seen;
    if (number >= first_to_fail && number <= last_to_fail) return nullptr;
  }
  void* const memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  live += memory != nullptr;
  return memory;
}
inline void* allocate_or_throw(std::size_t bytes, std::size_t alignment) {
  void* const memory = allocate(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
inline void deallocate(void* memory) noexcept {
  live -= memory != nullptr;
  std::free(memory);
}

inline constexpr std::size_t kAlignment = alignof(std::max_align_t);

}  // namespace allocations
}  // namespace giro::test

// noinline: otherwise GCC warns that free does not match new.
#define GIRO_NEW [[gnu::noinline]]
namespace giro_allocations = giro::test::allocations;

GIRO_NEW void* operator new(std::size_t n) {
  return giro_allocations::allocate_or_throw(n, giro_allocations::kAlignment);
}
GIRO_NEW void* operator new[](std::size_t n) { return operator new(n); }
GIRO_NEW void* operator new(std::size_t n, std::align_val_t alignment) {
  return giro_allocations::allocate_or_throw(n, static_cast<std::size_t>(alignment));
}
GIRO_NEW void* operator new[](std::size_t n, std::align_val_t alignment) { return operator new(n, alignment); }
GIRO_NEW void* operator new(std::size_t n, const std::nothrow_t&) noexcept {
  return giro_allocations::allocate(n, giro_allocations::kAlignment);
}
GIRO_NEW void* operator new[](std::size_t n, const std::nothrow_t& tag) noexcept { return operator new(n, tag); }
GIRO_NEW void* operator new(std::size_t n, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return giro_allocations::allocate(n, static_cast<std::size_t>(alignment));
}
GIRO_NEW void* operator new[](std::size_t n, std::align_val_t alignment, const std::nothrow_t& tag) noexcept {
  return operator new(n, alignment, tag);
}

GIRO_NEW void operator delete(void* p) noexcept { giro_allocations::deallocate(p); }
GIRO_NEW void operator delete[](void* p) noexcept { operator delete(p); }
GIRO_NEW void operator delete(void* p, std::size_t) noexcept { operator delete(p); }
GIRO_NEW void operator delete[](void* p, std::size_t) noexcept { operator delete(p); }
GIRO_NEW void operator delete(void* p, std::align_val_t) noexcept { operator delete(p); }
GIRO_NEW void operator delete[](void* p, std::align_val_t) noexcept { operator delete(p); }
GIRO_NEW void operator delete(void* p, std::size_t, std::align_val_t) noexcept { operator delete(p); }
GIRO_NEW void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { operator delete(p); }
GIRO_NEW void operator delete(void* p, const std::nothrow_t&) noexcept { operator delete(p); }
GIRO_NEW void operator delete[](void* p, const std::nothrow_t&) noexcept { operator delete(p); }
GIRO_NEW void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept { operator delete(p); }
GIRO_NEW void operator delete[](void* p, std::align_val_t, const std::nothrow_t&) noexcept { operator delete(p); }

#undef GIRO_NEW
