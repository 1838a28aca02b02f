#include "tests/cuda_on_cpu/engine/race_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <iterator>

#include "tests/cuda_on_cpu/engine/sites.h"

namespace giro::simt {
namespace {

constexpr unsigned int kWarp = 32;
constexpr std::uint32_t kNever = ~std::uint32_t{0};

bool same_kind(const Access& a, const Access& b) {
  return a.write == b.write && a.strong == b.strong && a.block_scope == b.block_scope && a.bytes == b.bytes;
}

// Whether lanes of one warp made both, on one line, with nothing in between that could order them.
bool same_moment(const Access& a, const Access& b) {
  return a.block == b.block && a.time == b.time && a.warp == b.warp && a.site == b.site && same_kind(a, b);
}

// Strong accesses to the same bytes do not race if the scope of each includes the other.
bool morally_strong(const Access& a, const Access& b) {
  return a.strong && b.strong && a.bytes == b.bytes && (a.block == b.block || (!a.block_scope && !b.block_scope));
}

// Whether an access races with everything that the other races with, judging by their strength.
bool as_exposed(const Access& access, const Access& other) {
  if (!access.strong) return true;
  if (!other.strong || access.bytes != other.bytes) return false;
  return access.block_scope ? access.block == other.block : !other.block_scope;
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
  sequential_fences_.assign(warps * kWarp, 0);
  releases_.clear();
  releasing_blocks_.clear();
}

void RaceCheck::begin_block() {
  ++block_;
  block_sync_ = ++now_;
  acquires_.clear();
  if (fenced_since_barrier_ || before_barrier_) std::fill(sequential_fences_.begin(), sequential_fences_.end(), 0);
  fenced_since_barrier_ = false;
  before_barrier_.reset();
}

void RaceCheck::block_barrier() {
  block_sync_ = ++now_;
  if (fenced_since_barrier_) before_barrier_ = std::make_shared<const Times>(sequential_fences_);
  fenced_since_barrier_ = false;
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

RaceCheck::Fence RaceCheck::fence_now(unsigned int thread) const {
  return {block_, block_sync_, warp_sync_[thread / kWarp], now_, known_[thread]};
}

void RaceCheck::fence(unsigned int thread, bool for_block_only, bool sequential) {
  Fences& fences = fences_[thread];
  fences.any = fence_now(thread);
  if (!for_block_only) fences.device = fences.any;
  sequential = sequential && !for_block_only;
  if (sequential) {
    sequential_fences_[thread] = now_;
    fenced_since_barrier_ = true;
  }
  for (std::size_t i = 0; i < acquires_.size(); ++i) {
    Acquire& acquire = acquires_[i];
    if (for_block_only && acquire.release.by_block != block_) continue;
    if (acquire.thread == thread) {
      acquire.known = std::min(acquire.known, now_);
    } else if (sequential && acquire.read < block_sync_ && !knows(acquire, thread, fences.any)) {
      add({acquire.release, thread, now_, now_});
    }
  }
  ++now_;
}

inline std::uint32_t RaceCheck::unordered(const Access& before, const Self& self) {
  if (before.block == block_) {
    if (before.time < block_sync_) return 0;
    const std::uint32_t lanes = unordered_in_warp(before, self.thread);
    return lanes == 0 || acquires_.empty() ? lanes : unordered_by_fences(before, lanes, self.thread);
  }
  if (self.shared) return 0;  // left by another block that used this shared memory
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
  const Fence now = fence_now(thread);
  for (const Acquire& acquire : acquires_) {
    const Release& release = acquire.release;
    const Fence& fence = release.fence;
    if (fence.block != before.block || !knows(acquire, thread, now)) continue;
    if (before.time < fence.block_sync) return 0;
    const bool same_warp = !release.fenced && release.thread / kWarp == before.warp;
    if (same_warp && before.time < fence.warp_sync) return 0;
    for (std::uint32_t left = lanes; left != 0; left &= left - 1) {
      const auto lane = static_cast<unsigned int>(std::countr_zero(left));
      const bool own = same_warp && lane == release.thread % kWarp && before.time <= fence.time;
      const bool met = same_warp && before.time < fence.known[lane];
      const bool fenced = release.fenced && before.time <= (*release.fenced)[before.warp * kWarp + lane];
      if (own || met || fenced) lanes &= ~(1u << lane);
    }
  }
  return lanes;
}

// Whether the thread knew of the release at the time of `by`.
bool RaceCheck::knows(const Acquire& acquire, unsigned int thread, const Fence& by) const {
  if (acquire.thread == thread) return acquire.known <= by.time;
  if (acquire.known < by.block_sync) return true;
  return acquire.thread / kWarp == thread / kWarp &&
         acquire.known < std::max(by.warp_sync, by.known[acquire.thread % kWarp]);
}

void RaceCheck::add(const Acquire& acquire) {
  const bool known = std::any_of(acquires_.begin(), acquires_.end(), [&](const Acquire& other) {
    return other.thread == acquire.thread && other.release == acquire.release;
  });
  if (!known) acquires_.push_back(acquire);
}

// The operation after the one that the block belongs to.
std::vector<RaceCheck::Begin>::const_iterator RaceCheck::next_operation(std::uint32_t block) const {
  return std::upper_bound(operations_.begin(), operations_.end(), block,
                          [](std::uint32_t serial, const Begin& begin) { return serial < begin.first_block; });
}

bool RaceCheck::ordered_across_operations(const Access& before, const Self& self) {
  const auto& happens_before = memory().happens_before;
  if (!happens_before || operation_ == 0) return true;
  // The memory that a line of a kernel accesses was usually last written by one operation and last read by one other.
  OrderedRange& range = ordered_ranges_[(2 * self.site + before.write) % ordered_ranges_.size()];
  if (before.block < range.begin || before.block >= range.end) {
    const auto next = next_operation(before.block);
    const auto& [begin, earlier] = *std::prev(next);
    range = {begin, next == operations_.end() ? last_block_ + 1 : next->first_block,
             earlier == 0 || earlier == operation_ || happens_before(earlier, operation_)};
  }
  return range.ordered;
}

// A strong write releases what its thread has fenced and what was fenced before a barrier, along with everything those
// threads had learnt by then. A strong read acquires it.
void RaceCheck::synchronise(std::uintptr_t address, Kind kind, Sense sense, unsigned int thread) {
  const auto found = releases_.find(address);
  if (found != releases_.end() && !reads(kind)) {
    found->second.clear();  // a read of this write does not read the earlier ones
  } else if (found != releases_.end()) {
    for (const Release& release : found->second) {
      const bool own = release.by_block == block_ && release.fence.block == block_ && release.thread == thread;
      const bool reaches = release.by_block == block_ || (!release.for_block_only && !block_scope(kind));
      if (!own && reaches) add({release, thread, now_, acquires(sense) ? now_ : kNever});
    }
  }
  if (!writes(kind)) return;

  const auto publish = [&](Release release, bool for_block_only, const auto& was_known) {
    std::vector<Release>& releases = releases_[address];
    const auto add_once = [&](Release added) {
      added.by_block = block_;
      added.for_block_only = for_block_only;
      if (std::find(releases.begin(), releases.end(), added) == releases.end()) releases.push_back(std::move(added));
    };
    add_once(std::move(release));
    for (const Acquire& acquire : acquires_) {
      if (was_known(acquire)) add_once(acquire.release);
    }
    releasing_blocks_.insert(block_);
  };
  const auto publish_fence = [&](const Fence& fence, bool for_block_only) {
    publish({fence, thread}, for_block_only, [&](const Acquire& acquire) { return knows(acquire, thread, fence); });
  };
  const bool narrow = block_scope(kind);
  if (releases(sense)) {
    publish_fence(fence_now(thread), narrow);
    ++now_;
  }
  const Fences& fences = fences_[thread];
  if (fences.device.block == block_) publish_fence(fences.device, narrow);
  if (fences.any.block == block_ && fences.any.time != fences.device.time) publish_fence(fences.any, true);
  if (before_barrier_) {
    publish({{.block = block_, .time = block_sync_}, 0, before_barrier_}, narrow,
            [&](const Acquire& acquire) { return acquire.known <= (*before_barrier_)[acquire.thread]; });
  }
}

// Returns what is wrong with the access, given the earlier accesses of other threads.
std::string RaceCheck::conflict(Accesses& earlier, const Access& access, const Self& self, const char* does) {
  for (const Access& before : earlier) {
    if (!access.write && !before.write) continue;
    if (before.block >= first_block_ && morally_strong(before, access)) continue;
    const std::uint32_t lanes = unordered(before, self);
    if (lanes == 0) continue;
    std::string who = "an earlier operation that is not ordered before this one";
    if (before.block >= first_block_) {
      who = fmt::format("thread {}{}", before.warp * kWarp + static_cast<unsigned int>(std::countr_zero(lanes)),
                        before.block == block_ ? "" : " of another block");
    }
    return fmt::format("race on {} memory: {} what {} {} at {}", self.shared ? "shared" : "global", does, who,
                       before.write ? "wrote" : "read", site_text(before.site));
  }
  return {};
}

// Whether everything that conflicts with `other` also conflicts with `kept`, which is of the same kind. This holds for
// two accesses of one earlier operation, or of two blocks that have ended without a release.
bool RaceCheck::subsumes(const Access& kept, const Access& other) const {
  if (kept.block < first_block_ && other.block < first_block_) {
    return next_operation(kept.block) == next_operation(other.block);
  }
  const auto over = [&](const Access& access) {
    return access.block >= first_block_ && access.block != block_ && !releasing_blocks_.contains(access.block);
  };
  return over(kept) && over(other);
}

// Keeps the accesses that can still take part in a race that no other access of the list takes part in. An access is
// dropped once a later one is ordered after it and conflicts with everything it conflicts with.
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
    const auto like_before = [&](const Access& other) { return same_kind(other, before); };
    const std::reverse_iterator newest(accesses.begin() + kept), none(accesses.begin());
    const auto like = std::find_if(newest, none, like_before);
    if (like != none && subsumes(*like, before)) continue;
    accesses.begin()[kept++] = before;
  }
  accesses.keep_first(kept);
  accesses.push_back(access);
}

std::string RaceCheck::access(Shadow& shadow, std::uintptr_t address, std::size_t offset, std::size_t bytes, Kind kind,
                              unsigned int thread, std::uint32_t site, bool shared, Sense sense) {
  if (strong(kind)) synchronise(address, kind, sense, thread);
  const Self self{thread, shared, site};
  const Access access{.block = block_,
                      .time = now_,
                      .site = site,
                      .lanes = 1u << thread % kWarp,
                      .warp = static_cast<std::uint8_t>(thread / kWarp),
                      .write = writes(kind),
                      .strong = strong(kind),
                      .block_scope = block_scope(kind),
                      .bytes = static_cast<std::uint8_t>(bytes)};
  const char* does = doing(access, kind);
  if (std::string race = conflict(shadow.page(offset).accesses, access, self, does); !race.empty()) return race;
  for (Accesses& cell : shadow.cells(offset, bytes)) {
    if (std::string race = conflict(cell, access, self, does); !race.empty()) return race;
    remember(cell, access, self);
  }
  if (access.write) shadow.set_initialised(offset, bytes);
  return {};
}

std::string RaceCheck::operation(Shadow& shadow, std::size_t offset, std::size_t bytes, Operation operation, bool write,
                                 const char* what) {
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
