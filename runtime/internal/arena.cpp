#include "runtime/internal/arena.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <utility>

namespace giro {
namespace {
constexpr std::size_t kMinChunk = std::size_t{1} << 20;

// The next multiple of a block's alignment, at least one. What is too much to be rounded is left to the allocation to
// refuse.
std::size_t block_size(std::size_t bytes) {
  constexpr std::size_t kAlignment = Buffer::kAlignment;
  if (bytes > std::numeric_limits<std::size_t>::max() - kAlignment) return bytes;
  return std::max(bytes + kAlignment - 1, kAlignment) / kAlignment * kAlignment;
}
}  // namespace

bool Arena::is_off() {
  const char* setting = std::getenv("GIRO_ARENA");
  return setting != nullptr && std::string_view(setting) == "0";
}

Arena::Arena(Device device, Of of) : device_(device), of_(of), shares_(!is_off()) {}

Buffer Arena::lend(char* data, std::size_t bytes) {
  Buffer buffer;
  buffer.data_ = data;
  buffer.size_ = bytes;
  buffer.device_ = device_;
  buffer.arena_ = shared_from_this();
  return buffer;
}

// A recording uses its temporaries at every replay: they stay.
Buffer Arena::allocate_apart(std::size_t bytes) {
  Buffer own = Buffer::allocate(device_, std::max<std::size_t>(bytes, 1));
  if (of_ == Of::stream) {
    own.size_ = bytes;
    return own;
  }
  reserved_ += own.size();
  chunks_.push_back(std::move(own));
  return lend(static_cast<char*>(chunks_.back().data()), bytes);
}

Buffer Arena::allocate(std::size_t bytes) {
  if (!shares_) return allocate_apart(bytes);
  const std::size_t size = block_size(bytes);
  const auto fits = [&](const auto& entry) { return entry.second.free && entry.second.size >= size; };
  auto found = std::find_if(blocks_.begin(), blocks_.end(), fits);
  if (found == blocks_.end()) {
    const std::size_t chunk = std::max(size, kMinChunk);
    chunks_.push_back(Buffer::allocate(device_, chunk));
    reserved_ += chunk;
    found = blocks_.emplace(static_cast<char*>(chunks_.back().data()), Block{chunk, chunks_.size() - 1, true}).first;
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
  if (!shares_) return;
  auto block = blocks_.find(static_cast<char*>(data));
  block->second.free = true;
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
