#include "tests/cuda_on_cpu/engine/race_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "tests/cuda_on_cpu/engine/sites.h"

namespace giro::simt {
namespace {

constexpr unsigned int kWarp = 32;

bool same_kind(const Access& a, const Access& b) {
  return a.write == b.write && a.strong == b.strong && a.block_scope == b.block_scope;
}

// By lanes of one warp, on one line, and nothing in between that could order them.
bool same_moment(const Access& a, const Access& b) {
  return a.block == b.block && a.time == b.time && a.warp == b.warp && a.site == b.site && same_kind(a, b);
}

// Whether an access races with all that the other races with, by their strength.
bool as_exposed(const Access& access, const Access& other) {
  return !access.strong || (other.strong && (access.block_scope || !other.block_scope));
}

const char* doing(const Access& access, Kind kind) {
  return atomic(kind) ? "updates" : access.write ? "writes" : "reads";
}

}  // namespace

RaceCheck& race_check() {
  static auto* const check = new RaceCheck;
  return *check;
}

void RaceCheck::begin_launch(Operation operation, std::uint64_t blocks, unsigned int threads) {
  first_block_ = last_block_ + 1;
  block_ = last_block_;
  last_block_ += static_cast<std::uint32_t>(blocks);
  operation_ = operation;
  operations_.push_back({first_block_, operation});
  ordered_ranges_.fill({});
  const std::size_t warps = (threads + kWarp - 1) / kWarp;
  known_.assign(warps * kWarp, {});
  warp_sync_.assign(warps, 0);
  fences_.assign(warps * kWarp, {});
  releases_.clear();
  releasing_blocks_.clear();
}

void RaceCheck::begin_block() {
  ++block_;
  block_barrier();
  acquires_.clear();
}

void RaceCheck::end_launch() { block_ = last_block_; }

void RaceCheck::warp_sync(unsigned int warp, std::uint32_t mask, bool whole_warp) {
  ++now_;
  if (whole_warp) {
    warp_sync_[warp] = now_;
    return;
  }
  auto* lanes = &known_[warp * kWarp];
  std::array<std::uint32_t, kWarp> together{};
  for (unsigned int lane = 0; lane < kWarp; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    for (unsigned int other = 0; other < kWarp; ++other) {
      together[other] = std::max(together[other], lanes[lane][other]);
    }
    together[lane] = now_;
  }
  for (unsigned int lane = 0; lane < kWarp; ++lane) {
    if (mask >> lane & 1) lanes[lane] = together;
  }
}

void RaceCheck::fence(unsigned int thread, bool for_block_only) {
  Fences& fences = fences_[thread];
  fences.any = {block_, block_sync_, warp_sync_[thread / kWarp], now_};
  if (!for_block_only) fences.device = fences.any;
  for (Acquire& acquire : acquires_) {
    if (acquire.thread != thread || acquire.fenced) continue;
    if (for_block_only && acquire.release.fence.block != block_) continue;
    acquire.fenced = true;
    acquire.time = now_;
  }
  ++now_;
}

inline std::uint32_t RaceCheck::unordered(const Access& before, const Self& self) {
  if (before.block == block_) {
    if (before.time < block_sync_) return 0;
    const std::uint32_t lanes = unordered_in_warp(before, self.thread);
    return lanes == 0 || acquires_.empty() ? lanes : unordered_by_fences(before, lanes, self.thread);
  }
  if (self.shared) return 0;  // another block's shared memory that lay here
  if (before.block >= first_block_) {
    return acquires_.empty() ? before.lanes : unordered_by_fences(before, before.lanes, self.thread);
  }
  return ordered_across_operations(before, self) ? 0 : before.lanes;
}

std::uint32_t RaceCheck::unordered_in_warp(const Access& before, unsigned int thread) const {
  if (before.warp != thread / kWarp) return before.lanes;
  if (before.time < warp_sync_[before.warp]) return 0;
  const auto& known = known_[thread];
  std::uint32_t unordered = 0;
  for (std::uint32_t left = before.lanes & ~(1u << thread % kWarp); left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    if (before.time >= known[static_cast<unsigned int>(lane)]) unordered |= 1u << lane;
  }
  return unordered;
}

std::uint32_t RaceCheck::unordered_by_fences(const Access& before, std::uint32_t lanes, unsigned int thread) const {
  for (const Acquire& acquire : acquires_) {
    const Release& release = acquire.release;
    const Fence& fence = release.fence;
    if (fence.block != before.block || !knows(acquire, thread)) continue;
    const bool same_warp = release.thread / kWarp == before.warp;
    if (before.time < fence.block_sync || (same_warp && before.time < fence.warp_sync)) return 0;
    if (same_warp && before.time <= fence.time) lanes &= ~(1u << release.thread % kWarp);
  }
  return lanes;
}

bool RaceCheck::knows(const Acquire& acquire, unsigned int thread) const {
  return acquire.fenced && (acquire.thread == thread || acquire.time < block_sync_ ||
                            (acquire.thread / kWarp == thread / kWarp && acquire.time < warp_sync_[thread / kWarp]));
}

const Operation& RaceCheck::operation_of(std::uint32_t block) const {
  const auto next =
      std::upper_bound(operations_.begin(), operations_.end(), block,
                       [](std::uint32_t serial, const Begin& begin) { return serial < begin.first_block; });
  return std::prev(next)->operation;
}

bool RaceCheck::ordered_across_operations(const Access& before, const Self& self) {
  const auto& happens_before = memory().happens_before;
  if (!happens_before || operation_ == 0) return true;
  // A line of a kernel mostly follows the same operations again: who wrote, and who read.
  OrderedRange& range = ordered_ranges_[(2 * self.site + before.write) % ordered_ranges_.size()];
  if (before.block < range.begin || before.block >= range.end) {
    const auto next =
        std::upper_bound(operations_.begin(), operations_.end(), before.block,
                         [](std::uint32_t block, const Begin& begin) { return block < begin.first_block; });
    const Operation earlier = std::prev(next)->operation;
    range = {std::prev(next)->first_block, next == operations_.end() ? last_block_ + 1 : next->first_block,
             earlier == 0 || earlier == operation_ || happens_before(earlier, operation_)};
  }
  return range.ordered;
}

// A strong write after a fence releases, a strong read before one acquires.
void RaceCheck::synchronise(std::uintptr_t address, Kind kind, unsigned int thread) {
  const auto found = releases_.find(address);
  if (found != releases_.end()) {
    if (reads(kind)) {
      for (const Release& release : found->second) {
        const bool own = release.fence.block == block_ && release.thread == thread;
        const bool reaches = release.fence.block == block_ || (!release.for_block_only && !block_scope(kind));
        const Acquire acquire{release, now_, thread, false};
        const bool known = std::any_of(acquires_.begin(), acquires_.end(), [&](const Acquire& other) {
          return other.thread == thread && other.release == release;
        });
        if (!own && reaches && !known) acquires_.push_back(acquire);
      }
    } else {
      found->second.clear();  // who reads this write has not read those before it
    }
  }
  if (!writes(kind)) return;
  const auto release = [&](const Fence& fence, bool for_block_only) {
    releases_[address].push_back({fence, thread, for_block_only});
    releasing_blocks_.insert(block_);
  };
  const Fences& fences = fences_[thread];
  if (fences.any.block != block_) return;
  if (fences.device.block == block_) release(fences.device, block_scope(kind));
  if (fences.any.time != fences.device.time) release(fences.any, true);
  for (const Acquire& acquire : acquires_) {  // what one that releases has acquired goes on with it
    if (!knows(acquire, thread)) continue;
    std::vector<Release>& passed_on = releases_[address];
    if (std::find(passed_on.begin(), passed_on.end(), acquire.release) == passed_on.end()) {
      passed_on.push_back(acquire.release);
    }
  }
}

// What is wrong with the access, seen from those of other threads before it.
std::string RaceCheck::conflict(Accesses& earlier, const Access& access, const Self& self,
                                const char* does) {
  for (const Access& before : earlier) {
    if (!access.write && !before.write) continue;
    const bool in_scope = before.block == access.block || (!before.block_scope && !access.block_scope);
    if (access.strong && before.strong && before.block >= first_block_ && in_scope) continue;
    const std::uint32_t lanes = unordered(before, self);
    if (lanes == 0) continue;
    std::string who = "an earlier operation that nothing orders before this one";
    if (before.block >= first_block_) {
      who = fmt::format("thread {}{}", before.warp * kWarp + static_cast<unsigned int>(std::countr_zero(lanes)),
                        before.block == block_ ? "" : " of another block");
    }
    return fmt::format("race on {} memory: {} what {} {} at {}", self.shared ? "shared" : "global", does, who,
                       before.write ? "wrote" : "read", site_text(before.site));
  }
  return {};
}

// Whether whoever conflicts with `other` conflicts with `kept`, too: two of an earlier operation, or two of blocks
// that are over and have released nothing.
bool RaceCheck::stands_for(const Access& kept, const Access& other) const {
  if (!same_kind(kept, other)) return false;
  if (kept.block < first_block_ && other.block < first_block_) {
    return operation_of(kept.block) == operation_of(other.block);
  }
  const auto over = [&](const Access& access) {
    return access.block >= first_block_ && access.block != block_ && !releasing_blocks_.contains(access.block);
  };
  return over(kept) && over(other);
}

// What can still take part in a race that no other access of the list takes part in. An access goes when a later one
// comes after it and conflicts with all that it conflicts with.
void RaceCheck::remember(Accesses& accesses, const Access& access, const Self& self) {
  for (Access& before : accesses) {
    if (same_moment(before, access)) {
      before.lanes |= access.lanes;
      return;
    }
  }
  std::size_t kept = 0;
  for (Access& before : accesses) {
    if (self.shared && before.block != block_) continue;
    if ((access.write || !before.write) && as_exposed(access, before)) {
      before.lanes = unordered(before, self);
      if (before.lanes == 0) continue;
    }
    Access* const end = accesses.begin() + kept;
    if (std::any_of(accesses.begin(), end, [&](const Access& other) { return stands_for(other, before); })) continue;
    accesses.begin()[kept++] = before;
  }
  accesses.keep_first(kept);
  accesses.push_back(access);
}

std::string RaceCheck::access(Shadow& shadow, std::uintptr_t address, std::size_t offset, std::size_t bytes,
                              Kind kind, unsigned int thread, std::uint32_t site, bool shared) {
  if (strong(kind)) synchronise(address, kind, thread);
  const Self self{thread, shared, site};
  const Access access{.block = block_,
                      .time = now_,
                      .site = site,
                      .lanes = 1u << thread % kWarp,
                      .warp = static_cast<std::uint8_t>(thread / kWarp),
                      .write = writes(kind),
                      .strong = strong(kind),
                      .block_scope = block_scope(kind)};
  const char* does = doing(access, kind);
  if (std::string race = conflict(shadow.page(offset).accesses, access, self, does); !race.empty()) return race;
  for (Accesses& cell : shadow.cells(offset, bytes)) {
    if (std::string race = conflict(cell, access, self, does); !race.empty()) return race;
    remember(cell, access, self);
  }
  if (access.write) shadow.set_initialised(offset, bytes);
  return {};
}

std::string RaceCheck::operation(Shadow& shadow, std::size_t offset, std::size_t bytes, Operation operation,
                                 bool write, const char* what) {
  begin_launch(operation, 1, 1);
  begin_block();
  const Self self{0, false, intern_site(what)};
  const Access access{.block = block_, .time = now_, .site = self.site, .lanes = 1, .write = write};
  const char* does = write ? "writes" : "reads";
  for (std::size_t at = offset; at < offset + bytes;) {
    const std::size_t part = std::min(offset + bytes - at, Shadow::kPageBytes - at % Shadow::kPageBytes);
    Shadow::Page& page = shadow.page(at);
    const bool whole = part == Shadow::kPageBytes;
    if (std::string race = conflict(page.accesses, access, self, does); !race.empty()) return race;
    if (!whole || !page.cells.empty()) {
      for (Accesses& cell : shadow.cells(at, part)) {
        if (std::string race = conflict(cell, access, self, does); !race.empty()) return race;
        if (!whole) remember(cell, access, self);
      }
    }
    if (whole) {
      if (write) page = {};
      remember(page.accesses, access, self);
    }
    at += part;
  }
  return {};
}

}  // namespace giro::simt
