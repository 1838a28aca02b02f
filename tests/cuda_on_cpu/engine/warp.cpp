// Operations of a warp: PTX's shfl, vote, redux, match, mma and bar.warp.sync.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <span>

#include "tests/cuda_on_cpu/engine/block.h"
#include "tests/cuda_on_cpu/engine/matrix.h"
#include "tests/cuda_on_cpu/engine/race_check.h"
#include "tests/cuda_on_cpu/engine/sites.h"
#include "tests/cuda_on_cpu/engine/thread.h"

namespace giro::simt {
namespace {

constexpr std::uint32_t kAllLanes = 0xffffffffu;

// A shuffle that reads a lane outside its mask is undefined. Here it gives a NaN.
constexpr std::uint64_t kPoisonedWord = ~std::uint64_t{0};

bool is_product(WarpOp op) { return op == WarpOp::multiply_bf16 || op == WarpOp::multiply_f16; }

const char* name(WarpOp op) {
  if (op == WarpOp::sync) return "__syncwarp";
  if (op == WarpOp::shuffle) return "shuffle";
  if (op == WarpOp::ballot) return "vote";
  if (is_product(op)) return "mma";
  return op == WarpOp::match_any || op == WarpOp::match_all ? "match" : "warp reduction";
}

std::uint32_t join(WarpOp op, std::uint32_t a, std::uint32_t b) {
  const auto signed_a = static_cast<std::int32_t>(a), signed_b = static_cast<std::int32_t>(b);
  switch (op) {
    case WarpOp::reduce_add:
      return a + b;
    case WarpOp::reduce_min_s32:
      return static_cast<std::uint32_t>(std::min(signed_a, signed_b));
    case WarpOp::reduce_max_s32:
      return static_cast<std::uint32_t>(std::max(signed_a, signed_b));
    case WarpOp::reduce_min_u32:
      return std::min(a, b);
    case WarpOp::reduce_max_u32:
      return std::max(a, b);
    case WarpOp::reduce_and:
      return a & b;
    case WarpOp::reduce_or:
      return a | b;
    default:
      return a ^ b;
  }
}

template <class F>
void for_lanes(std::uint32_t mask, F f) {
  for (; mask != 0; mask &= mask - 1) f(static_cast<unsigned int>(std::countr_zero(mask)));
}

// Gives each lane in `mask` its result.
void compute(std::span<const std::unique_ptr<Thread>> lanes, WarpOp op, std::uint32_t mask) {
  const auto call = [&](unsigned int lane) -> WarpCall& { return lanes[lane]->warp_call; };
  switch (op) {
    case WarpOp::sync:
      break;
    case WarpOp::shuffle:
      for_lanes(mask, [&](unsigned int lane) {
        const unsigned int source = call(lane).source;
        call(lane).output = mask >> source & 1 ? call(source).input : kPoisonedWord;
      });
      break;
    case WarpOp::match_any:
      for_lanes(mask, [&](unsigned int lane) {
        std::uint32_t same = 0;
        for_lanes(mask, [&](unsigned int other) {
          if (call(other).input == call(lane).input) same |= 1u << other;
        });
        call(lane).output = same;
      });
      break;
    case WarpOp::ballot:
    case WarpOp::match_all: {
      const std::uint64_t first = call(static_cast<unsigned int>(std::countr_zero(mask))).input;
      std::uint32_t votes = 0;
      for_lanes(mask, [&](unsigned int lane) {
        const bool yes = op == WarpOp::ballot ? call(lane).input != 0 : call(lane).input == first;
        if (yes) votes |= 1u << lane;
      });
      const std::uint32_t result = op == WarpOp::ballot || votes == mask ? votes : 0;
      for_lanes(mask, [&](unsigned int lane) { call(lane).output = result; });
      break;
    }
    case WarpOp::multiply_bf16:
    case WarpOp::multiply_f16: {
      std::array<MatrixPart*, Limits::kWarp> parts{};
      for_lanes(mask, [&](unsigned int lane) { parts[lane] = std::bit_cast<MatrixPart*>(call(lane).input); });
      multiply(parts, op == WarpOp::multiply_bf16);
      break;
    }
    default: {
      const auto first = static_cast<unsigned int>(std::countr_zero(mask));
      auto result = static_cast<std::uint32_t>(call(first).input);
      for_lanes(mask & (mask - 1),
                [&](unsigned int lane) { result = join(op, result, static_cast<std::uint32_t>(call(lane).input)); });
      for_lanes(mask, [&](unsigned int lane) { call(lane).output = result; });
    }
  }
}

}  // namespace

std::uint32_t Block::lanes_of(unsigned int warp) const {
  const unsigned int lanes = std::min(Limits::kWarp, thread_count_ - warp * Limits::kWarp);
  return lanes == Limits::kWarp ? kAllLanes : (1u << lanes) - 1;
}

// The last lane to arrive computes every lane's result, so that no lane can run ahead and change its input.
void Block::meet_warp(Thread& thread) {
  const unsigned int warp = thread.warp();
  const std::span lanes = std::span(threads_).subspan(warp * Limits::kWarp);
  WarpCall& mine = thread.warp_call;
  const std::uint32_t existing = lanes_of(warp);
  if (is_product(mine.op) && existing != kAllLanes) {
    stop(thread, Fault::divergence, "mma in a warp that the block does not fill", mine.site);
  }
  if (mine.mask == kAllLanes) mine.mask = existing;  // the last warp, which the block does not fill
  const auto reject = [&](const std::string& message) { stop(thread, Fault::divergence, message, mine.site); };
  if ((mine.mask >> thread.lane() & 1) == 0) {
    reject(
        fmt::format("{} whose mask {:#x} does not name the calling lane {}", name(mine.op), mine.mask, thread.lane()));
  }
  if ((mine.mask & ~existing) != 0) {
    reject(fmt::format("{} whose mask {:#x} names lanes that the block does not have", name(mine.op), mine.mask));
  }

  thread.state = Thread::State::at_warp;
  Lanes& state = lanes_[warp];
  state.waiting |= 1u << thread.lane();
  if ((state.exited & mine.mask) != 0) {
    reject(fmt::format("{} waits for lane {}, which has exited", name(mine.op),
                       std::countr_zero(state.exited & mine.mask)));
  }
  bool complete = (state.waiting & mine.mask) == mine.mask;
  for_lanes(complete ? mine.mask : 0, [&](unsigned int lane) {
    const WarpCall& other = lanes[lane]->warp_call;
    if (other.mask != mine.mask) {
      complete = false;
    } else if (other.op != mine.op || other.site != mine.site) {
      reject(fmt::format("divergent {}: lane {} of the same mask is in a {} at {}", name(mine.op), lane, name(other.op),
                         site_text(kernel_->first_site + other.site)));
    }
  });
  if (!complete) {
    thread.fiber.pause();
    return;
  }
  if (mine.op == WarpOp::sync && checks_races_) race_check().warp_sync(warp, mine.mask, mine.mask == existing);
  compute(lanes, mine.op, mine.mask);
  for_lanes(mine.mask, [&](unsigned int lane) { lanes[lane]->state = Thread::State::ready; });
  state.waiting &= ~mine.mask;
}

std::uint64_t Thread::meet(WarpOp op, std::uint64_t input, unsigned int source, std::uint32_t mask,
                           std::uint32_t site) {
  warp_call = {op, mask, site, input, source, 0};
  block->meet_warp(*this);
  return warp_call.output;
}

void Thread::warp_sync(std::uint32_t mask, std::uint32_t site) { meet(WarpOp::sync, 0, 0, mask, site); }

// Follows the PTX manual's pseudocode for shfl.sync.
std::uint32_t Thread::shuffle(Shuffle mode, std::uint32_t value, std::uint32_t lane_operand, std::uint32_t clamp,
                              std::uint32_t mask, bool& in_range, std::uint32_t site) {
  const unsigned int segment = clamp >> 8 & 31, own = lane(), b = lane_operand & 31, c = clamp & 31;
  const unsigned int least = own & segment, most = least | (c & ~segment & 31);
  unsigned int source = own;
  switch (mode) {
    case Shuffle::up:
      in_range = static_cast<int>(own) - static_cast<int>(b) >= static_cast<int>(most);
      source = own - b;
      break;
    case Shuffle::down:
      in_range = own + b <= most;
      source = own + b;
      break;
    case Shuffle::butterfly:
      in_range = (own ^ b) <= most;
      source = own ^ b;
      break;
    case Shuffle::index:
      source = least | (b & ~segment & 31);
      in_range = source <= most;
      break;
  }
  if (!in_range) source = own;
  return static_cast<std::uint32_t>(meet(WarpOp::shuffle, value, source, mask, site));
}

std::uint32_t Thread::ballot(bool vote, std::uint32_t mask, std::uint32_t site) {
  return static_cast<std::uint32_t>(meet(WarpOp::ballot, vote, 0, mask, site));
}

bool Thread::vote_uniform(bool vote, std::uint32_t mask, std::uint32_t site) {
  const std::uint32_t votes = ballot(vote, mask, site);
  return votes == 0 || votes == warp_call.mask;
}

std::uint32_t Thread::reduce(WarpOp op, std::uint32_t value, std::uint32_t mask, std::uint32_t site) {
  return static_cast<std::uint32_t>(meet(op, value, 0, mask, site));
}

std::uint32_t Thread::match_any(std::uint64_t value, std::uint32_t mask, std::uint32_t site) {
  return static_cast<std::uint32_t>(meet(WarpOp::match_any, value, 0, mask, site));
}

std::uint32_t Thread::match_all(std::uint64_t value, std::uint32_t mask, bool& all, std::uint32_t site) {
  const auto result = static_cast<std::uint32_t>(meet(WarpOp::match_all, value, 0, mask, site));
  all = result != 0;
  return result;
}

void Thread::multiply(WarpOp op, MatrixPart& part, std::uint32_t site) {
  meet(op, std::bit_cast<std::uint64_t>(&part), 0, kAllLanes, site);
}

}  // namespace giro::simt
