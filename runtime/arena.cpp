#include "runtime/arena.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <string_view>
#include <utility>

#include "runtime/backend.h"

namespace giro {
namespace {
// Bytes allocated at a time. Workspaces of a recording's ops are small. A large chunk is rounded up, by at most a 32nd
// and 32 MiB: the next recording of a step often needs a little more than the first one, and would take a second chunk.
std::size_t chunk_size(Arena::Kind kind, std::size_t needed) {
  const std::size_t least = std::size_t{1} << (kind == Arena::Kind::recording ? 18 : 20);
  const std::size_t unit =
      std::clamp<std::size_t>(std::bit_floor(needed) / 32, Buffer::kAlignment, std::size_t{32} << 20);
  const std::size_t rounded = (needed + unit - 1) / unit * unit;
  return std::max(least, rounded >= needed ? rounded : needed);
}

}  // namespace

bool Arena::is_off() {
  const char* setting = std::getenv("GIRO_ARENA");
  return setting != nullptr && std::string_view(setting) == "0";
}

// The next multiple of a block's alignment, at least one. A size too large to round is returned as it is; its
// allocation fails.
std::size_t Arena::block_size(std::size_t bytes) {
  constexpr std::size_t kAlignment = Buffer::kAlignment;
  if (bytes > std::numeric_limits<std::size_t>::max() - kAlignment) return bytes;
  return std::max(bytes + kAlignment - 1, kAlignment) / kAlignment * kAlignment;
}

Arena::Arena(Device device, Kind kind) : device_(device), kind_(kind), shares_(!is_off()) {}

Buffer Arena::lend(char* data, std::size_t bytes) {
  Buffer buffer;
  buffer.data_ = data;
  buffer.size_ = bytes;
  buffer.device_ = device_;
  buffer.arena_ = shared_from_this();
  return buffer;
}

// A recording uses its temporaries at every replay, so their memory is kept.
Buffer Arena::allocate_separately(std::size_t bytes) {
  const std::size_t size = std::max<std::size_t>(bytes, 1);
  if (kind_ != Kind::stream) return lend(add_chunk(size), bytes);
  Buffer own = Buffer::allocate(device_, size);
  own.size_ = bytes;
  return own;
}

// Most of a trace is never written, nor what its rounding adds to a recording's chunk. On the CPU such memory must not
// lie in the heap, where the blocks' headers would make large pages resident. A small chunk has none of these, and
// mapping it would take a fifth of the time of recording a small step.
char* Arena::add_chunk(std::size_t bytes) {
  std::shared_ptr<void> memory;
  constexpr std::size_t kLargePage = std::size_t{2} << 20;
  if (device_.is_cpu() && kind_ != Kind::stream && shares_ && bytes >= kLargePage) {
    memory = cpu::map(bytes);
    if (kind_ != Kind::trace) cpu::use_large_pages(memory.get(), bytes);  // most of a trace is never touched
  } else {
    const auto own = std::make_shared<Buffer>(Buffer::allocate(device_, bytes));
    memory = {own, own->data()};
  }
  chunks_.push_back({std::move(memory), bytes});
  reserved_ += bytes;
  return static_cast<char*>(chunks_.back().memory.get());
}

Buffer Arena::allocate_traced(std::size_t bytes) {
  const std::size_t size = block_size(bytes);
  if (kind_ == Kind::nowhere && unused_ == nullptr) {
    // Between the program and its libraries, where nothing is mapped.
    unused_ = reinterpret_cast<char*>(std::uintptr_t{1} << 44);
    unused_bytes_ = std::numeric_limits<std::size_t>::max() / 2;
  }
  if (unused_bytes_ < size) {
    // Without sharing, a chunk ends with its block, so that a sanitizer detects accesses beyond the block.
    const std::size_t chunk = shares_ ? chunk_size(kind_, size) : std::max<std::size_t>(bytes, 1);
    unused_ = add_chunk(chunk);
    unused_bytes_ = std::max(size, chunk);
  }
  char* const data = unused_;
  blocks_.emplace(data, Block{size, chunks_.empty() ? 0 : chunks_.size() - 1, false});
  unused_ += size;
  unused_bytes_ -= size;
  return lend(data, bytes);
}

const Arena::Blocks::value_type* Arena::block_at(const void* address) const {
  const auto after = blocks_.upper_bound(static_cast<char*>(const_cast<void*>(address)));
  if (after == blocks_.begin()) return nullptr;
  const auto& block = *std::prev(after);
  return address < block.first + block.second.size ? &block : nullptr;
}

void Arena::pin_held() {
  for (auto& [data, block] : blocks_) block.pinned = block.pinned || !block.free;
}

void Arena::pin(const void* address) {
  if (const auto* const block = block_at(address)) blocks_.at(block->first).pinned = true;
}

void Arena::drop_unpinned() {
  if (!shares_) return;
  std::vector<bool> stays(chunks_.size());
  for (const auto& [data, block] : blocks_) stays[block.chunk] = stays[block.chunk] || block.pinned;
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    if (stays[i]) {
      if (kind_ == Kind::trace && device_.is_cpu()) cpu::use_large_pages(chunks_[i].memory.get(), chunks_[i].size);
      continue;
    }
    reserved_ -= chunks_[i].size;
    chunks_[i] = {};
  }
  unused_bytes_ = 0;
}

Buffer Arena::allocate(std::size_t bytes) {
  if (is_trace()) return allocate_traced(bytes);
  if (!shares_) return allocate_separately(bytes);
  const std::size_t size = block_size(bytes);
  const auto fits = [&](const auto& entry) { return entry.second.free && entry.second.size >= size; };
  auto found = std::find_if(blocks_.begin(), blocks_.end(), fits);
  if (found == blocks_.end()) {
    const std::size_t chunk = chunk_size(kind_, size);
    char* const data = add_chunk(chunk);
    found = blocks_.emplace(data, Block{chunk, chunks_.size() - 1, true}).first;
  }
  Block& block = found->second;
  if (block.size > size) {
    blocks_.emplace_hint(std::next(found), found->first + size, Block{block.size - size, block.chunk, true});
    block.size = size;
  }
  block.free = false;
  return lend(found->first, bytes);
}

void Arena::release(void* data) noexcept {
  if (!shares_ && !is_trace()) return;
  auto block = blocks_.find(static_cast<char*>(data));
  block->second.free = true;
  if (is_trace()) return;
  const auto joins = [](const Block& a, const Block& b) { return a.free && b.free && a.chunk == b.chunk; };
  if (auto next = std::next(block); next != blocks_.end() && joins(block->second, next->second)) {
    block->second.size += next->second.size;
    blocks_.erase(next);
  }
  if (block != blocks_.begin()) {
    if (auto previous = std::prev(block); joins(previous->second, block->second)) {
      previous->second.size += block->second.size;
      blocks_.erase(block);
    }
  }
}

}  // namespace giro
