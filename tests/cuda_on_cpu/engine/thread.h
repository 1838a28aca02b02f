#pragma once

// A kernel's thread: the engine's interface to translated code.

#include <csetjmp>
#include <cstddef>
#include <cstdint>

#include "tests/cuda_on_cpu/engine/access.h"
#include "tests/cuda_on_cpu/engine/fiber.h"
#include "tests/cuda_on_cpu/engine/kernel.h"

namespace giro::simt {

class Block;
class Shadow;

enum class WarpOp : std::uint8_t {
  sync = warp_op_sync,
  shuffle = warp_op_shuffle,
  ballot = warp_op_ballot,
  reduce_add = warp_op_reduce_add,
  reduce_min_s32 = warp_op_reduce_min_s32,
  reduce_min_u32 = warp_op_reduce_min_u32,
  reduce_max_s32 = warp_op_reduce_max_s32,
  reduce_max_u32 = warp_op_reduce_max_u32,
  reduce_and = warp_op_reduce_and,
  reduce_or = warp_op_reduce_or,
  reduce_xor = warp_op_reduce_xor,
  match_any = warp_op_match_any,
  match_all = warp_op_match_all,
  multiply_bf16 = warp_op_multiply_bf16,
  multiply_f16 = warp_op_multiply_f16,
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

enum class Shuffle : std::uint8_t {
  up = shuffle_up,
  down = shuffle_down,
  butterfly = shuffle_butterfly,
  index = shuffle_index
};

class Thread : public ThreadView {
 public:
  enum class State : std::uint8_t { ready, at_barrier, at_warp, done };

  // Set by the block.
  Block* block = nullptr;
  State state = State::ready;
  Fiber fiber;
  WarpCall warp_call;
  std::uint32_t barrier_site = 0;
  bool barrier_vote = false;

  unsigned int lane() const { return linear % Limits::kWarp; }
  unsigned int warp() const { return linear / Limits::kWarp; }

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

  // Called when `ticks` has come down to 0.
  void out_of_ticks(std::uint32_t site);

  // Lets the block's other threads run.
  void yield();

  // Called before each block.
  void reset();

  // Runs the kernel to its end, or until leave() is called in it.
  void run();
  [[noreturn]] void leave();

 private:
  static constexpr std::uint32_t kTicks = 1 << 16;

  std::uint32_t barrier(bool vote, std::uint32_t site);
  std::uint64_t meet(WarpOp op, std::uint64_t input, unsigned int source, std::uint32_t mask, std::uint32_t site);
  void check(Shadow& shadow, std::uintptr_t address, std::size_t offset, std::size_t bytes, Kind kind,
             std::uint32_t site, bool shared, Sense sense) const;
  void check_alignment(std::uint64_t address, std::size_t bytes, Kind kind, const char* space,
                       std::uint32_t site) const;

  std::uint64_t ticks_spent_ = 0;
  const LocalArray* local_array(std::uint64_t address) const;
  std::jmp_buf end_;
};

}  // namespace giro::simt
