#include "tests/cuda_on_cpu/engine/race_check.h"

#include <fmt/format.h>

#include <algorithm>

#include "tests/cuda_on_cpu/engine/sites.h"

namespace giro::simt {
namespace {

constexpr unsigned int kWarp = 32;

}  // namespace

RaceCheck& race_check() {
  static RaceCheck check;
  return check;
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
  fenced_.assign(warps * kWarp, 0);
  releases_.clear();
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

inline bool RaceCheck::ordered(const Access& before, const Self& self) {
  if (before.block == 0) return true;
  if (before.block == block_) {
    return before.thread == self.thread || before.time < block_sync_ || ordered_in_warp(before, self.thread) ||
           (!acquires_.empty() && ordered_across_blocks(before, self.thread));
  }
  if (self.shared) return true;  // another block's shared memory that lay here
  if (before.block >= first_block_) return ordered_across_blocks(before, self.thread);
  return ordered_across_operations(before, self.site);
}

bool RaceCheck::ordered_in_warp(const Access& before, unsigned int thread) const {
  const unsigned int warp = thread / kWarp;
  if (before.thread / kWarp != warp) return false;
  return before.time < std::max(warp_sync_[warp], known_[thread][before.thread % kWarp]);
}

bool RaceCheck::ordered_across_blocks(const Access& before, unsigned int thread) const {
  return std::any_of(acquires_.begin(), acquires_.end(), [&](const Acquire& acquire) {
    const Release& release = acquire.release;
    const bool released =
        release.block == before.block &&
        (before.time < release.block_sync || (before.thread == release.thread && before.time <= release.time));
    return released && (acquire.thread == thread || acquire.time < block_sync_);
  });
}

bool RaceCheck::ordered_across_operations(const Access& before, std::uint32_t site) {
  const auto& happens_before = memory().happens_before;
  if (!happens_before || operation_ == 0) return true;
  // A line of a kernel mostly follows the same operation again.
  OrderedRange& range = ordered_ranges_[site % ordered_ranges_.size()];
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

// A strong write after a fence releases, a strong read acquires.
void RaceCheck::synchronise(std::uintptr_t address, Kind kind, unsigned int thread) {
  if (reads(kind)) {
    const auto found = releases_.find(address);
    if (found != releases_.end()) {
      for (const Release& release : found->second) {
        if (release.block != block_ || release.thread != thread) acquires_.push_back({release, now_, thread});
      }
    }
  }
  if (writes(kind) && fenced_[thread] == block_) {
    releases_[address].push_back({block_, block_sync_, now_, thread});
    ++now_;
  }
}

void RaceCheck::remember_read(Cell& cell, const Access& access) const {
  if (cell.read.block != access.block || cell.read.thread != access.thread) cell.other_read = cell.read;
  cell.read = access;
}

std::string RaceCheck::race(const Access& before, const char* did, const char* does, bool shared) const {
  std::string who;
  if (before.block == block_) {
    who = fmt::format("thread {}", before.thread);
  } else if (before.block >= first_block_) {
    who = fmt::format("thread {} of another block", before.thread);
  } else {
    who = "an earlier operation that nothing orders before this one";
  }
  return fmt::format("race on {} memory: {} what {} {} at {}", shared ? "shared" : "global", does, who, did,
                     site_text(before.site));
}

std::string RaceCheck::access(Shadow& shadow, std::uintptr_t address, std::size_t offset, std::size_t bytes,
                              Kind kind, unsigned int thread, std::uint32_t site, bool shared) {
  if (strong(kind)) synchronise(address, kind, thread);
  const Self self{thread, shared, site};
  const Access access{block_, now_, site, static_cast<std::uint16_t>(thread), strong(kind)};
  const char* does = kind == Kind::atomic ? "updates" : writes(kind) ? "writes" : "reads";
  const auto conflicts = [&](const Access& before) {
    return !(access.strong && before.strong && before.block >= first_block_) && !ordered(before, self);
  };

  const Shadow::Page& page = shadow.page(offset);
  if (conflicts(page.write)) return race(page.write, "wrote", does, shared);
  if (writes(kind) && conflicts(page.read)) return race(page.read, "read", does, shared);

  const auto [first, count] = shadow.cells(offset, bytes);
  for (std::size_t i = 0; i < count; ++i) {
    Cell& cell = first[i];
    if (conflicts(cell.write)) return race(cell.write, "wrote", does, shared);
    if (writes(kind)) {
      if (conflicts(cell.read)) return race(cell.read, "read", does, shared);
      if (conflicts(cell.other_read)) return race(cell.other_read, "read", does, shared);
      cell.write = access;
    } else {
      remember_read(cell, access);
    }
  }
  if (writes(kind)) shadow.set_initialised(offset, bytes);
  return {};
}

std::string RaceCheck::operation(Shadow& shadow, std::size_t offset, std::size_t bytes, Operation operation,
                                 bool write, const char* what) {
  begin_launch(operation, 1, 1);
  begin_block();
  const Self self{0, false, intern_site(what)};
  const Access access{block_, now_, self.site, 0, false};
  const auto conflicts = [&](const Access& before) { return !ordered(before, self); };
  const auto race_of = [&](const Access& before, const char* did) {
    return race(before, did, write ? "writes" : "reads", false);
  };

  for (std::size_t at = offset; at < offset + bytes;) {
    const std::size_t part = std::min(offset + bytes - at, Shadow::kPageBytes - at % Shadow::kPageBytes);
    Shadow::Page& page = shadow.page(at);
    const bool whole = part == Shadow::kPageBytes;
    if (conflicts(page.write)) return race_of(page.write, "wrote");
    if (write && conflicts(page.read)) return race_of(page.read, "read");
    if (!whole || !page.cells.empty()) {
      const auto [first, count] = shadow.cells(at, part);
      for (std::size_t i = 0; i < count; ++i) {
        Cell& cell = first[i];
        if (conflicts(cell.write)) return race_of(cell.write, "wrote");
        if (write && conflicts(cell.read)) return race_of(cell.read, "read");
        if (write && conflicts(cell.other_read)) return race_of(cell.other_read, "read");
        if (write) {
          cell.write = access;
        } else {
          remember_read(cell, access);
        }
      }
    }
    if (whole && write) {
      // Whoever is ordered after this operation is ordered after those that it is ordered after.
      page = {.write = access, .read = {}, .granule = 4, .cells = {}};
    } else if (whole) {
      page.read = access;
    }
    at += part;
  }
  return {};
}

}  // namespace giro::simt
