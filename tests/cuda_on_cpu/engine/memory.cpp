#include "tests/cuda_on_cpu/engine/memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "tests/cuda_on_cpu/engine/engine.h"
#include "tests/cuda_on_cpu/engine/race_check.h"

namespace giro::simt {
namespace {

constexpr std::size_t kRegion = std::size_t{1} << 20;  // bytes of pageable memory that share a shadow

std::uintptr_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

}  // namespace

Memory& memory() {
  static auto* const memory = new Memory;
  return *memory;
}

void Memory::add(void* begin, std::size_t bytes, bool initialised) {
  const std::uintptr_t at = number(begin);
  for (auto freed = freed_.lower_bound(at); freed != freed_.end() && freed->first < at + bytes;) {
    freed = freed_.erase(freed);
  }
  allocations_[at] = std::make_unique<Allocation>(Allocation{at, bytes, Shadow(bytes, initialised)});
}

void Memory::remove(void* begin) {
  const auto found = allocations_.find(number(begin));
  if (found == allocations_.end()) return;
  freed_[found->first] = found->second->bytes;
  allocations_.erase(found);
}

Allocation* Memory::find(std::uintptr_t address) {
  auto next = allocations_.upper_bound(address);
  if (next == allocations_.begin()) return nullptr;
  Allocation* before = std::prev(next)->second.get();
  return address < before->end() ? before : nullptr;
}

std::string Memory::touch_pageable(const void* begin, std::size_t bytes, Operation operation, const char* what,
                                   bool write) {
  if (!options().race_check) return {};
  for (std::uintptr_t at = number(begin), end = at + bytes; at < end;) {
    const std::size_t offset = at % kRegion, part = std::min(end - at, kRegion - offset);
    Shadow& shadow = pageable_.try_emplace(at - offset, kRegion, true).first->second;
    if (const std::string race = race_check().operation(shadow, offset, part, operation, write, what); !race.empty()) {
      return fmt::format("{}, in pageable memory: {}", what, race);
    }
    at += part;
  }
  return {};
}

std::string Memory::touch(const void* begin, std::size_t bytes, Operation operation, const char* what, bool write,
                          bool needs_initialised) {
  Allocation* allocation = find(begin);
  if (allocation == nullptr) return touch_pageable(begin, bytes, operation, what, write);
  if (bytes == 0) return {};
  const std::size_t offset = number(begin) - allocation->begin;
  const char* does = write ? "writes" : "reads";
  if (bytes > allocation->bytes - offset) {
    return fmt::format("{} {} {} bytes at offset {} of an allocation of {} bytes", what, does, bytes, offset,
                       allocation->bytes);
  }
  if (!options().race_check) return {};
  if (needs_initialised) {
    const std::size_t good = allocation->shadow.first_uninitialised(offset, bytes);
    if (good < bytes) {
      return fmt::format("{} reads uninitialised memory: byte {} of an allocation of {} bytes", what, offset + good,
                         allocation->bytes);
    }
  }
  if (const std::string race = race_check().operation(allocation->shadow, offset, bytes, operation, write, what);
      !race.empty()) {
    return fmt::format("{}: {}", what, race);
  }
  if (write) allocation->shadow.set_initialised(offset, bytes);
  return {};
}

std::string Memory::write(const void* begin, std::size_t bytes, Operation operation, const char* what) {
  return touch(begin, bytes, operation, what, true, false);
}

std::string Memory::read(const void* begin, std::size_t bytes, Operation operation, const char* what) {
  return touch(begin, bytes, operation, what, false, true);
}

std::string Memory::copy(const void* to, const void* from, std::size_t bytes, Operation operation, const char* what) {
  if (std::string error = touch(from, bytes, operation, what, false, false); !error.empty()) return error;
  if (std::string error = touch(to, bytes, operation, what, true, false); !error.empty()) return error;
  Allocation* source = find(from);
  Allocation* target = find(to);
  if (source == nullptr || target == nullptr) return {};
  const std::size_t read_at = number(from) - source->begin, write_at = number(to) - target->begin;
  for (std::size_t done = 0; done < bytes; ++done) {
    done += source->shadow.first_uninitialised(read_at + done, bytes - done);
    if (done < bytes) target->shadow.set_initialised(write_at + done, 1, false);
  }
  return {};
}

void Memory::forget(const void* begin, std::size_t bytes) {
  if (Allocation* allocation = find(begin)) {
    const std::size_t offset = number(begin) - allocation->begin;
    allocation->shadow.set_initialised(offset, std::min(bytes, allocation->bytes - offset), false);
  }
}

std::string Memory::describe(std::uintptr_t address) const {
  const auto next_freed = freed_.upper_bound(address);
  if (next_freed != freed_.begin()) {
    const auto& [begin, bytes] = *std::prev(next_freed);
    if (address < begin + bytes) return fmt::format("in an allocation of {} bytes that was freed", bytes);
  }
  const auto next = allocations_.upper_bound(address);
  if (next != allocations_.begin()) {
    const Allocation& before = *std::prev(next)->second;
    if (address < before.end()) {
      return fmt::format("at offset {} of an allocation of {} bytes", address - before.begin, before.bytes);
    }
    // Anything more than a page away is not a neighbour.
    if (address - before.end() < Shadow::kPageBytes) {
      return fmt::format("{} bytes after an allocation of {} bytes", address - before.end(), before.bytes);
    }
  }
  if (next != allocations_.end() && next->first - address < Shadow::kPageBytes) {
    return fmt::format("{} bytes before an allocation of {} bytes", next->first - address, next->second->bytes);
  }
  return "in no allocation";
}

}  // namespace giro::simt
