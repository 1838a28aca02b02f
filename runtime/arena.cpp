#include "runtime/arena.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <mutex>
#include <string_view>
#include <utility>

#include <giro/runtime/error.h>
#include <giro/runtime/place.h>

#include "runtime/backend.h"
#include "runtime/throw_error.h"

namespace giro {
namespace {
// Bytes allocated at a time. Workspaces of a recording's ops are small. A large chunk is rounded up, by at most a 32nd
// and 32 MiB: the next recording of a step often needs a little more than the first one, and would take a second chunk.
std::size_t chunk_size(Arena::Kind kind, std::size_t needed) {
  const std::size_t least = std::size_t{1} << (kind == Arena::Kind::stream ? 20 : 18);
  const std::size_t unit =
      std::clamp<std::size_t>(std::bit_floor(needed) / 32, Buffer::kAlignment, std::size_t{32} << 20);
  const std::size_t rounded = (needed + unit - 1) / unit * unit;
  return std::max(least, rounded >= needed ? rounded : needed);
}

// The names of all traces (detail::is_name), which take them by the range.
struct TraceNames {
  std::mutex mutex;
  struct Range {
    const char* end;
    Arena* trace;
  };
  std::map<const char*, Range> ranges{};  // by where they begin
  std::uintptr_t next = std::uintptr_t{1} << 62;
};
TraceNames& trace_names() {
  static auto* const all = new TraceNames;  // values may outlive what is destroyed at exit
  return *all;
}

}  // namespace

void* detail::address_of(const void* name) {
  const std::lock_guard lock(trace_names().mutex);
  const auto after = trace_names().ranges.upper_bound(static_cast<const char*>(name));
  if (after == trace_names().ranges.begin() || name >= std::prev(after)->second.end) {
    throw_invalid("the address of a value is asked for whose recording, and its graph, are gone");
  }
  Arena& trace = *std::prev(after)->second.trace;
  const Arena::Named* const block = trace.block_named(name);
  if (block == nullptr || (block->memory == nullptr && block->free)) {
    throw_invalid(
        "the address of a value of a recording is asked for that has no memory: it was released with the last nn::Var "
        "or buffer that held it; expected one that is kept until the recording ends");
  }
  return trace.settle(name);
}

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

Arena::~Arena() {
  if (next_name_ == nullptr) return;
  const std::lock_guard lock(trace_names().mutex);
  std::erase_if(trace_names().ranges, [this](const auto& range) { return range.second.trace == this; });
}

// Much of what a recording's chunk is rounded up by is never written. On the CPU such memory must not lie in the heap,
// where the blocks' headers would make large pages resident. A small chunk has none of these, and mapping it would take
// a fifth of the time of recording a small step.
char* Arena::add_chunk(std::size_t bytes) {
  std::shared_ptr<void> memory;
  constexpr std::size_t kLargePage = std::size_t{2} << 20;
  if (device_.is_cpu() && kind_ != Kind::stream && shares_ && bytes >= kLargePage) {
    memory = cpu::map(bytes);
    cpu::use_large_pages(memory.get(), bytes);
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
  if (size > unused_names_) {
    constexpr std::size_t kLeast = std::size_t{1} << 32, kMost = std::size_t{1} << 56;
    const std::size_t range = std::max(size, kLeast);
    const std::lock_guard lock(trace_names().mutex);
    if (size > kMost || range > (std::uintptr_t{1} << 63) - trace_names().next) {
      throw_error(ErrorCode::out_of_memory, "a recording has a temporary of {} bytes, expected at most {}", bytes,
                  std::min(kMost, static_cast<std::size_t>((std::uintptr_t{1} << 63) - trace_names().next)));
    }
    char* const first = reinterpret_cast<char*>(trace_names().next);
    trace_names().ranges.emplace(first, TraceNames::Range{first + range, this});
    trace_names().next += range;
    next_name_ = first;
    unused_names_ = range;
  }
  named_.push_back({next_name_, bytes});
  next_name_ += size;
  unused_names_ -= size;
  return {named_.back().name, bytes, device_, MemoryKind::device, shared_from_this()};
}

bool Arena::holds(const void* place) const {
  if (block_named(place) != nullptr) return true;
  return std::ranges::any_of(chunks_, [&](const Chunk& chunk) {
    const auto* const begin = static_cast<const char*>(chunk.memory.get());
    return place >= begin && place < begin + chunk.size;
  });
}

const Arena::Named* Arena::block_named(const void* place) const {
  if (named_.empty() || place < named_.front().name) return nullptr;
  const Named& block = *std::prev(std::ranges::upper_bound(named_, place, {}, &Named::name));
  return place < block.name + block_size(block.bytes) ? &block : nullptr;
}

char* Arena::place_of(const void* place) const {
  char* const given = static_cast<char*>(const_cast<void*>(place));
  const Named* const block = block_named(place);
  if (block == nullptr) return detail::is_name(place) ? static_cast<char*>(detail::address_of(place)) : given;
  return block->memory != nullptr ? block->memory + (given - block->name) : given;
}

void Arena::settle(Named& block) {
  if (block.memory == nullptr) block.memory = take(block.bytes);
}

char* Arena::settle(const void* place) {
  if (const Named* const block = block_named(place)) settle(named_[index_of(*block)]);
  return place_of(place);
}

void Arena::settle_held() {
  for (Named& block : named_) {
    if (!block.free) settle(block);
  }
}

Buffer Arena::allocate(std::size_t bytes) {
  if (kind_ == Kind::trace) return allocate_traced(bytes);
  if (shares_ || kind_ == Kind::recording) {
    return {take(bytes), bytes, device_, MemoryKind::device, shared_from_this()};
  }
  Buffer own = Buffer::allocate(device_, std::max<std::size_t>(bytes, 1));
  own.size_ = bytes;
  return own;
}

// Without sharing, a chunk ends with its block, so that a sanitizer detects accesses beyond the block. It is kept,
// since a recording uses its temporaries at every replay.
char* Arena::take(std::size_t bytes) {
  if (!shares_) return add_chunk(std::max<std::size_t>(bytes, 1));
  const std::size_t size = block_size(bytes);
  const auto fits = [&](const auto& entry) { return entry.second.free && entry.second.size >= size; };
  auto found = std::find_if(kind_ == Kind::trace ? first_free_ : blocks_.begin(), blocks_.end(), fits);
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
  if (kind_ == Kind::trace) first_free_ = std::next(found);
  return found->first;
}

void Arena::release(void* data) noexcept {
  if (kind_ == Kind::trace) {
    named_[index_of(*block_named(data))].free = true;
    return;
  }
  if (!shares_) return;
  auto block = blocks_.find(static_cast<char*>(data));
  block->second.free = true;
  const auto join = [this](Blocks::iterator first, Blocks::iterator second) {
    Block &a = first->second, &b = second->second;
    if (!a.free || !b.free || a.chunk != b.chunk) return;
    a.size += b.size;
    blocks_.erase(second);
  };
  if (const auto next = std::next(block); next != blocks_.end()) join(block, next);
  if (block != blocks_.begin()) join(std::prev(block), block);
}

}  // namespace giro
