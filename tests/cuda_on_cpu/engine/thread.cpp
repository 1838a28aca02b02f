#include "tests/cuda_on_cpu/engine/thread.h"

#include <fmt/format.h>

#include <cstring>

#include "tests/cuda_on_cpu/engine/block.h"
#include "tests/cuda_on_cpu/engine/race_check.h"
#include "tests/cuda_on_cpu/engine/sites.h"

namespace giro::simt {
namespace {

const char* does(Kind kind) { return atomic(kind) ? "update" : writes(kind) ? "write" : "read"; }

void check_bounds(const Thread& thread, std::uint64_t offset, std::size_t bytes, std::size_t size, Kind kind,
                  const char* space, std::uint32_t site) {
  if (offset <= size && bytes <= size - offset) return;
  stop(thread, Fault::illegal_address,
       fmt::format("{} of {} bytes out of bounds: at offset {} of {} bytes of {} memory", does(kind), bytes,
                   static_cast<std::int64_t>(offset), size, space),
       site);
}

}  // namespace

void Thread::reset() {
  state = State::ready;
  ticks = kTicks;
  ticks_spent_ = 0;
  locals = nullptr;
}

void Thread::run() {
  if (_setjmp(end_) == 0) block->kernel().run(this);
}

void Thread::leave() { std::longjmp(end_, 1); }

void stop(const Thread& thread, Fault fault, const std::string& message, std::uint32_t site) {
  const Dim3 &index = thread.index, &block = *thread.block_index;
  throw Stop{fault, fmt::format("thread ({},{},{}) of block ({},{},{}) at {}: {}", index.x, index.y, index.z, block.x,
                                block.y, block.z, site_text(thread.block->kernel().first_site + site), message)};
}

void Thread::check_alignment(std::uint64_t address, std::size_t bytes, Kind kind, const char* space,
                             std::uint32_t site) const {
  if (address % bytes == 0) return;
  stop(*this, Fault::misaligned_address,
       fmt::format("{} of {} bytes in {} memory at an address that is not a multiple of that size", does(kind), bytes,
                   space),
       site);
}

void Thread::check(Shadow& shadow, std::uintptr_t address, std::size_t offset, std::size_t bytes, Kind kind,
                   std::uint32_t site, bool shared, Sense sense) const {
  if (!block->checks_races()) return;
  if (reads(kind) && !shadow.initialised(offset, bytes)) {
    stop(*this, Fault::uninitialised,
         fmt::format("{} of uninitialised {} memory, {} bytes at offset {}", does(kind), shared ? "shared" : "global",
                     bytes, offset),
         site);
  }
  const std::string race = race_check().access(shadow, address, offset, bytes, kind, linear,
                                               block->kernel().first_site + site, shared, sense);
  if (!race.empty()) stop(*this, Fault::race, race, site);
}

char* Thread::global(std::uint64_t address, std::size_t bytes, Kind kind, std::uint32_t site, Sense sense) {
  Allocation*& allocation = block->last_allocation(site);
  if (allocation == nullptr || address - allocation->begin >= allocation->bytes) {
    allocation = memory().find(address);
    const std::string refused = allocation != nullptr && memory().before_use ? memory().before_use(address) : "";
    if (!refused.empty()) stop(*this, Fault::illegal_address, fmt::format("{} of {}", does(kind), refused), site);
  }
  if (allocation == nullptr || bytes > allocation->end() - address) {
    stop(*this, Fault::illegal_address,
         fmt::format("{} of {} bytes out of bounds: {:#x} is {}", does(kind), bytes, address,
                     memory().describe(address)),
         site);
  }
  check_alignment(address, bytes, kind, "global", site);
  check(allocation->shadow, address, address - allocation->begin, bytes, kind, site, false, sense);
  return reinterpret_cast<char*>(address);
}

char* Thread::shared(std::uint64_t address, std::size_t bytes, Kind kind, std::uint32_t site, Sense sense) {
  check_bounds(*this, address, bytes, block->shared_bytes(), kind, "shared", site);
  check_alignment(address, bytes, kind, "shared", site);
  char* place = block->shared() + address;
  check(block->shared_shadow(), reinterpret_cast<std::uintptr_t>(place), address, bytes, kind, site, true, sense);
  return place;
}

char* Thread::local(std::uint64_t address, std::size_t bytes, Kind kind, std::uint32_t site) {
  const LocalArray* const array = local_array(address) != nullptr ? local_array(address) : locals;
  const std::uint64_t offset = array != nullptr ? address - array->begin : address;
  check_bounds(*this, offset, bytes, array != nullptr ? array->bytes : 0, kind, "local", site);
  check_alignment(offset, bytes, kind, "local", site);
  return reinterpret_cast<char*>(address);
}

char* Thread::generic(std::uint64_t address, std::size_t bytes, Kind kind, std::uint32_t site, Sense sense) {
  if (is_shared(address)) return shared(shared_of_generic(address), bytes, kind, site, sense);
  if (is_local(address)) return local(address, bytes, kind, site);
  return global(address, bytes, kind, site, sense);
}

const char* Thread::parameter(std::uint64_t address, std::size_t bytes, std::uint32_t site) {
  const std::uint64_t offset = address - reinterpret_cast<std::uintptr_t>(parameters);
  const std::size_t size = block->parameters().size();
  if (offset > size || bytes > size - offset) {
    stop(*this, Fault::illegal_address,
         fmt::format("read of {} bytes out of bounds: at offset {} of {} bytes of parameters", bytes,
                     static_cast<std::int64_t>(offset), size),
         site);
  }
  return reinterpret_cast<const char*>(address);
}

std::uint64_t Thread::generic_of_shared(std::uint64_t address) const {
  return reinterpret_cast<std::uintptr_t>(block->shared()) + address;
}

std::uint64_t Thread::shared_of_generic(std::uint64_t address) const {
  return address - reinterpret_cast<std::uintptr_t>(block->shared());
}

bool Thread::is_shared(std::uint64_t address) const { return shared_of_generic(address) < block->shared_bytes(); }

bool Thread::is_local(std::uint64_t address) const { return local_array(address) != nullptr; }

const LocalArray* Thread::local_array(std::uint64_t address) const {
  const LocalArray* array = locals;
  while (array != nullptr && address - array->begin >= array->bytes) array = array->outer;
  return array;
}

std::uint32_t Thread::barrier(bool vote, std::uint32_t site) {
  barrier_vote = vote;
  barrier_site = site;
  return block->barrier(*this);
}

void Thread::fence(bool for_block_only, bool sequential) {
  if (block->checks_races()) race_check().fence(linear, for_block_only, sequential);
}

void Thread::trap(std::uint32_t site) { stop(*this, Fault::trap, "trap", site); }

void Thread::yield() {
  if (block->kernel().waits) fiber.pause();
}

void Thread::out_of_ticks(std::uint32_t site) {
  ticks = kTicks;
  ticks_spent_ += kTicks;
  if (ticks_spent_ > options().watchdog) {
    stop(*this, Fault::timeout,
         fmt::format("more than {} iterations of a loop: it never ends, or waits for another block (blocks run one "
                     "after another here)",
                     options().watchdog),
         site);
  }
  yield();
}

}  // namespace giro::simt
