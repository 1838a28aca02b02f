#include <giro/runtime/buffer.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <giro/runtime/stream.h>

#include "tests/support/environment_setting.h"
#include "tests/support/expect_error.h"

namespace giro {
namespace {

static_assert(!std::is_copy_constructible_v<Buffer> && !std::is_copy_assignable_v<Buffer>);
static_assert(std::is_nothrow_move_constructible_v<Buffer> && std::is_nothrow_move_assignable_v<Buffer>);

TEST(Buffer, IsAligned) {
  for (const std::size_t bytes : {1, 7, 255, 256, 1000, 1 << 20}) {
    const Buffer buffer = Buffer::allocate(Device::cpu(), bytes);
    EXPECT_EQ(buffer.size(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % Buffer::kAlignment, 0u);
    std::memset(buffer.data(), 1, bytes);
  }
}

TEST(Buffer, EmptyBuffersHoldNothing) {
  EXPECT_FALSE(Buffer());
  const Buffer none = Buffer::allocate(Device::cpu(), 0);
  EXPECT_FALSE(none);
  EXPECT_EQ(none.data(), nullptr);
}

TEST(Buffer, MovesItsBlock) {
  Buffer a = Buffer::allocate(Device::cpu(), 100);
  void* const data = a.data();
  Buffer b = std::move(a);
  EXPECT_FALSE(a);  // NOLINT: the moved-from buffer is what this checks
  EXPECT_EQ(a.size(), 0u);
  EXPECT_EQ(b.data(), data);
  Buffer c = Buffer::allocate(Device::cpu(), 10);
  c = std::move(b);
  EXPECT_EQ(c.data(), data);
  EXPECT_EQ(c.size(), 100u);
}

TEST(Buffer, PinnedMemoryOfTheCpuIsOrdinary) {
  const Buffer buffer = Buffer::allocate(Device::cpu(), 64, MemoryKind::pinned);
  EXPECT_EQ(buffer.kind(), MemoryKind::pinned);
  std::memset(buffer.data(), 1, 64);
}

#ifndef __SANITIZE_ADDRESS__  // ASan terminates the program instead
TEST(Buffer, OutOfMemoryIsAnError) {
  test::expect_error(ErrorCode::out_of_memory, {"bytes"},
                     [] { Buffer::allocate(Device::cpu(), std::numeric_limits<std::size_t>::max() / 4); });
}
#endif

TEST(Arena, OutOfMemoryIsAnError) {
  const Stream stream(Device::cpu());
  for (const std::size_t gap : {0u, 1u, 254u, 255u}) {
    const std::size_t bytes = std::numeric_limits<std::size_t>::max() - gap;
    test::expect_error(ErrorCode::out_of_memory, {std::to_string(bytes)}, [&] { stream.allocate(bytes); });
    test::expect_error(ErrorCode::out_of_memory, {std::to_string(bytes)},
                       [&] { Buffer::allocate(Device::cpu(), bytes); });
  }
}

TEST(Arena, ReusesReleasedBlocks) {
  const test::ArenaSetting on("1");
  const Stream stream(Device::cpu());
  void* first;
  {
    const Buffer a = stream.allocate(1000);
    first = a.data();
    const Buffer b = stream.allocate(1000);
    EXPECT_NE(a.data(), b.data());
  }
  EXPECT_EQ(stream.allocate(1000).data(), first);
  EXPECT_EQ(stream.allocate(500).data(), first);
}

TEST(Arena, BlocksAreAlignedAndDoNotOverlap) {
  const Stream stream(Device::cpu());
  std::vector<Buffer> live;
  std::uint32_t random = 1;
  for (int i = 0; i < 2000; ++i) {
    random = random * 1664525u + 1013904223u;
    if (live.size() > 20 && random % 3 != 0) {
      const std::size_t victim = random / 3 % live.size();
      std::swap(live[victim], live.back());
      live.pop_back();
      continue;
    }
    const std::size_t bytes = random % 200'000;
    live.push_back(stream.allocate(bytes));
    const char* begin = static_cast<const char*>(live.back().data());
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(begin) % Buffer::kAlignment, 0u);
    for (std::size_t other = 0; other + 1 < live.size(); ++other) {
      const char* data = static_cast<const char*>(live[other].data());
      ASSERT_TRUE(begin + bytes <= data || data + live[other].size() <= begin);
    }
  }
}

TEST(Arena, FreeNeighboursMerge) {
  const test::ArenaSetting on("1");
  const Stream stream(Device::cpu());
  void* whole;
  {
    const Buffer all = stream.allocate(3 << 18);
    whole = all.data();
  }
  {
    Buffer a = stream.allocate(1 << 18), b = stream.allocate(1 << 18), c = stream.allocate(1 << 18);
    a = Buffer();
    c = Buffer();
    b = Buffer();
  }
  EXPECT_EQ(stream.allocate(3 << 18).data(), whole);
}

// Chunks may be adjacent in memory and still are separate allocations: a block across two of them would run past the
// end of the first. The allocator decides where chunks lie, so this checks many pairs.
TEST(Arena, BlocksOfTwoChunksNeverMerge) {
  const test::ArenaSetting on("1");
  constexpr std::size_t kChunk = 1 << 20;
  const Stream stream(Device::cpu());
  std::vector<std::pair<const char*, const char*>> chunks;
  {
    std::vector<Buffer> all;
    for (int i = 0; i < 64; ++i) {
      all.push_back(stream.allocate(kChunk));
      const auto* data = static_cast<const char*>(all.back().data());
      chunks.emplace_back(data, data + kChunk);
    }
  }
  const Buffer larger = stream.allocate(kChunk + 1);
  const auto* begin = static_cast<const char*>(larger.data());
  for (const auto& [first, last] : chunks) EXPECT_TRUE(begin + kChunk + 1 <= first || last <= begin);
}

TEST(Arena, OutlivesItsStreamWhileABlockIsHeld) {
  Buffer held;
  {
    const Stream stream(Device::cpu());
    held = stream.allocate(100);
  }
  std::memset(held.data(), 1, 100);
}

}  // namespace
}  // namespace giro
