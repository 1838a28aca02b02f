#pragma once

// Finds unordered accesses to the same memory, whichever order they happened to run in.
//
// Two accesses of a block are ordered if the same thread makes them, or if they are separated by a block barrier or by
// a __syncwarp of both threads' lanes. Two accesses of different threads are also ordered by a fence and then an atomic
// or volatile write on one side, and a read of that write and then a fence on the other side. A release and an acquire
// can take their place (PTX ISA, memory consistency model). Two accesses of different operations are ordered by the
// host's calls (Memory::happens_before).
//
// The fences of __threadfence() are ordered among themselves. If each thread fences before a barrier, one thread can
// publish for all of them. If one thread reads before a barrier, each thread can fence for itself.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tests/cuda_on_cpu/engine/access.h"
#include "tests/cuda_on_cpu/engine/memory.h"
#include "tests/cuda_on_cpu/engine/shadow.h"

namespace giro::simt {

class RaceCheck {
 public:
  void begin_launch(Operation operation, std::uint64_t blocks, unsigned int threads);
  void begin_block();
  void end_launch();

  void block_barrier();
  void warp_sync(unsigned int warp, std::uint32_t mask, bool whole_warp);
  // `sequential`: fence.sc, like __threadfence().
  void fence(unsigned int thread, bool for_block_only, bool sequential);

  // Checks an access of the running block to `bytes` at `offset` of the shadowed memory. Returns what is wrong, or an
  // empty string. `address` identifies the word of synchronising accesses.
  std::string access(Shadow& shadow, std::uintptr_t address, std::size_t offset, std::size_t bytes, Kind kind,
                     unsigned int thread, std::uint32_t site, bool shared, Sense sense);

  // The same for an operation of the runtime, on any range.
  std::string operation(Shadow& shadow, std::size_t offset, std::size_t bytes, Operation operation, bool write,
                        const char* what);

 private:
  struct Self {
    unsigned int thread;
    bool shared;
    std::uint32_t site;
  };

  using Times = std::vector<std::uint32_t>;  // by thread of the block

  // The time of a thread's fence, and which work of its block's other threads came before it.
  struct Fence {
    std::uint32_t block = 0, block_sync = 0, warp_sync = 0, time = 0;
    std::array<std::uint32_t, 32> known{};
  };

  // What a thread learns by reading a word: work that is done.
  struct Release {
    Fence fence;
    unsigned int thread = 0;
    std::shared_ptr<const Times> fenced{};  // if set, replaces both: each thread's work before its time
    std::uint32_t by_block = 0;             // the block that wrote, which may pass on another block's fence
    bool for_block_only = false;
    bool operator==(const Release& other) const {
      return fence.time == other.fence.time && thread == other.thread && fenced == other.fenced &&
             by_block == other.by_block && for_block_only == other.for_block_only;
    }
  };

  // A thread of the running block has read a release, and knows of it once it has fenced.
  struct Acquire {
    Release release;
    unsigned int thread;
    std::uint32_t read;
    std::uint32_t known;  // the time of that fence, or never
  };

  struct Begin {  // an operation's blocks
    std::uint32_t first_block;
    Operation operation;
  };

  struct OrderedRange {  // blocks that all belong to one earlier operation
    std::uint32_t begin = 0, end = 0;
    bool ordered = false;
  };

  // Each of these returns the lanes of `before` that are not ordered before the running block's thread.
  std::uint32_t unordered(const Access& before, const Self& self);
  std::uint32_t unordered_in_warp(const Access& before, unsigned int thread) const;
  std::uint32_t unordered_by_fences(const Access& before, std::uint32_t lanes, unsigned int thread) const;

  std::string conflict(Accesses& earlier, const Access& access, const Self& self, const char* does);
  void remember(Accesses& accesses, const Access& access, const Self& self);
  bool subsumes(const Access& kept, const Access& other) const;

  Fence fence_now(unsigned int thread) const;
  bool knows(const Acquire& acquire, unsigned int thread, const Fence& by) const;
  void add(const Acquire& acquire);
  std::vector<Begin>::const_iterator next_operation(std::uint32_t block) const;
  bool ordered_across_operations(const Access& before, const Self& self);
  void synchronise(std::uintptr_t address, Kind kind, Sense sense, unsigned int thread);

  std::uint32_t now_ = 1;
  std::uint32_t last_block_ = 0;  // the last serial number assigned
  std::uint32_t block_ = 0, first_block_ = 1;
  std::uint32_t block_sync_ = 0;  // time of the block's last barrier
  Operation operation_ = 0;

  // For each lane and each other lane of its warp: the lane knows everything that the other did before that time.
  std::vector<std::array<std::uint32_t, 32>> known_;
  std::vector<std::uint32_t> warp_sync_;  // when the whole warp last synchronised

  struct Fences {
    Fence device, any;  // the last fence for the whole device, and of any scope
  };
  std::vector<Fences> fences_;  // by thread

  Times sequential_fences_;                      // of the running block
  bool fenced_since_barrier_ = false;            // by a sequential fence
  std::shared_ptr<const Times> before_barrier_;  // sequential_fences_ at the last barrier after such a fence, if any

  std::unordered_map<std::uintptr_t, std::vector<Release>> releases_;  // of this launch, by the word written
  std::unordered_set<std::uint32_t> releasing_blocks_;                 // of this launch
  std::vector<Acquire> acquires_;                                      // of the running block

  std::vector<Begin> operations_;  // in ascending order
  std::array<OrderedRange, 64> ordered_ranges_;
};

RaceCheck& race_check();

}  // namespace giro::simt
