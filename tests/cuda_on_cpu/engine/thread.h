#pragma once

// A kernel's thread: the engine's interface to translated code.

#include <cstddef>
#include <cstdint>

#include "tests/cuda_on_cpu/engine/access.h"
#include "tests/cuda_on_cpu/engine/fiber.h"
#include "tests/cuda_on_cpu/engine/kernel.h"

namespace giro::simt {

class Block;
class Shadow;

enum class WarpOp : std::uint8_t {
  sync,
  shuffle,
  ballot,
  reduce_add,
  reduce_min_s32,
  reduce_min_u32,
  reduce_max_s32,
  reduce_max_u32,
  reduce_and,
  reduce_or,
  reduce_xor,
  match_any,
  match_all,
  multiply_bf16,
  multiply_f16,
};

// A lane's elements of the matrices of an mma.m16n8k16, as the PTX manual lays them out: two 16-bit floats in each word
// of a (16 x 16) and b (16 x 8). The product is added to sums (16 x 8).
struct MatrixPart {
  std::uint32_t a[4], b[2];
  float sums[4];
};

// One lane's part in an operation of its warp.
struct WarpCall {
  WarpOp op{};
  std::uint32_t mask = 0;
  std::uint32_t site = 0;
  std::uint64_t input = 0;
  unsigned int source = 0;  // shuffle: the lane to read from
  std::uint64_t output = 0;
};

enum class Shuffle : std::uint8_t { up, down, butterfly, index };

class Thread {
 public:
  enum class State : std::uint8_t { ready, at_barrier, at_warp, done };

  // Set by the block.
  Block* block = nullptr;
  Dim3 index;               // threadIdx
  unsigned int linear = 0;  // threadIdx, linearised
  State state = State::ready;
  Fiber fiber;
  WarpCall warp_call;
  std::uint32_t barrier_site = 0;
  bool barrier_vote = false;

  unsigned int lane() const { return linear % Limits::kWarp; }
  unsigned int warp() const { return linear / Limits::kWarp; }
  const Dim3& block_index() const;
  const Dim3& block_size() const;
  const Dim3& grid_size() const;

  // Each checks an access of `bytes` at a PTX address of its state space and returns the host address. `site` counts
  // within the translated file, here and below. Shared addresses count from 0; the others are host addresses.
  char* global(std::uint64_t address, std::size_t bytes, Kind kind, std::uint32_t site, Sense sense = Sense::relaxed);
  char* shared(std::uint64_t address, std::size_t bytes, Kind kind, std::uint32_t site, Sense sense = Sense::relaxed);
  char* local(std::uint64_t address, std::size_t bytes, Kind kind, std::uint32_t site);
  char* generic(std::uint64_t address, std::size_t bytes, Kind kind, std::uint32_t site, Sense sense = Sense::relaxed);
  const char* parameter(std::uint64_t address, std::size_t bytes, std::uint32_t site);

  std::uint64_t generic_of_shared(std::uint64_t address) const;
  std::uint64_t shared_of_generic(std::uint64_t address) const;
  bool is_shared(std::uint64_t address) const;
  bool is_local(std::uint64_t address) const;
  const char* parameters() const;

  std::uint64_t carry = 0;  // for extended-precision arithmetic, 0 or 1

  // A function's array in the local state space. It lives as long as the function runs and starts with all bits set.
  class LocalArray {
   public:
    LocalArray(Thread& thread, void* begin, std::size_t bytes);
    ~LocalArray() { thread_.locals_ = outer_; }
    LocalArray(const LocalArray&) = delete;
    LocalArray& operator=(const LocalArray&) = delete;

   private:
    friend class Thread;
    Thread& thread_;
    const LocalArray* outer_;  // the caller's, or null
    std::uintptr_t begin_;
    std::size_t bytes_;
  };

  void block_barrier(std::uint32_t site) { barrier(false, site); }
  std::uint32_t barrier_count(bool vote, std::uint32_t site) { return barrier(vote, site); }
  bool barrier_and(bool vote, std::uint32_t site) { return barrier(!vote, site) == 0; }
  bool barrier_or(bool vote, std::uint32_t site) { return barrier(vote, site) != 0; }

  void warp_sync(std::uint32_t mask, std::uint32_t site);
  // PTX shfl.sync: `clamp` is its operand c. `in_range` becomes its predicate.
  std::uint32_t shuffle(Shuffle mode, std::uint32_t value, std::uint32_t lane_operand, std::uint32_t clamp,
                        std::uint32_t mask, bool& in_range, std::uint32_t site);
  std::uint32_t ballot(bool vote, std::uint32_t mask, std::uint32_t site);
  bool vote_all(bool vote, std::uint32_t mask, std::uint32_t site) { return ballot(!vote, mask, site) == 0; }
  bool vote_any(bool vote, std::uint32_t mask, std::uint32_t site) { return ballot(vote, mask, site) != 0; }
  bool vote_uniform(bool vote, std::uint32_t mask, std::uint32_t site);
  std::uint32_t reduce(WarpOp op, std::uint32_t value, std::uint32_t mask, std::uint32_t site);
  std::uint32_t match_any(std::uint64_t value, std::uint32_t mask, std::uint32_t site);
  std::uint32_t match_all(std::uint64_t value, std::uint32_t mask, bool& all, std::uint32_t site);

  void multiply(WarpOp op, MatrixPart& part, std::uint32_t site);

  void fence(bool for_block_only, bool sequential);
  void set_conditional(std::uint64_t handle, std::uint32_t value, std::uint32_t site);
  [[noreturn]] void trap(std::uint32_t site);

  // Called on each backward jump.
  void tick(std::uint32_t site) {
    if (--ticks_ == 0) out_of_ticks(site);
  }

  // Lets the block's other threads run.
  void yield();

  // Called before each block.
  void reset();

 private:
  static constexpr std::uint32_t kTicks = 1 << 16;

  void out_of_ticks(std::uint32_t site);
  std::uint32_t barrier(bool vote, std::uint32_t site);
  std::uint64_t meet(WarpOp op, std::uint64_t input, unsigned int source, std::uint32_t mask, std::uint32_t site);
  void check(Shadow& shadow, std::uintptr_t address, std::size_t offset, std::size_t bytes, Kind kind,
             std::uint32_t site, bool shared, Sense sense) const;
  void check_alignment(std::uint64_t address, std::size_t bytes, Kind kind, const char* space,
                       std::uint32_t site) const;

  std::uint32_t ticks_ = kTicks;
  std::uint64_t ticks_spent_ = 0;
  const LocalArray* local_array(std::uint64_t address) const;
  const LocalArray* locals_ = nullptr;
};

}  // namespace giro::simt
