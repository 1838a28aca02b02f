#pragma once

// Finds accesses to the same memory that nothing orders, whichever way they happened to run. Two accesses of a
// block are ordered by being the same thread's, by a block barrier between them, or by a __syncwarp that both
// threads' lanes took part in; two of different blocks by a fence and an atomic or volatile access on either
// side; two of different operations by what the host asked for (Memory::happens_before).

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/cuda_on_cpu/engine/memory.h"
#include "tests/cuda_on_cpu/engine/shadow.h"

namespace giro::simt {

enum class Kind : std::uint8_t {
  read,
  write,
  strong_read,   // volatile, relaxed, acquire
  strong_write,  // volatile, relaxed, release
  atomic,        // reads and writes in one
};

inline bool reads(Kind kind) { return kind != Kind::write && kind != Kind::strong_write; }
inline bool writes(Kind kind) { return kind != Kind::read && kind != Kind::strong_read; }
inline bool strong(Kind kind) { return kind >= Kind::strong_read; }

class RaceCheck {
 public:
  void begin_launch(Operation operation, std::uint64_t blocks, unsigned int threads);
  void begin_block();
  void end_launch();

  void block_barrier() { block_sync_ = ++now_; }
  void warp_sync(unsigned int warp, std::uint32_t mask, bool whole_warp);
  void fence(unsigned int thread) { fenced_[thread] = block_; }

  // What is wrong with an access of the running block to `bytes` at `offset` of the memory that `shadow` shadows;
  // empty where nothing is. `address` tells synchronising accesses to the same word.
  std::string access(Shadow& shadow, std::uintptr_t address, std::size_t offset, std::size_t bytes, Kind kind,
                     unsigned int thread, std::uint32_t site, bool shared);

  // The same for an operation of the runtime, on any range.
  std::string operation(Shadow& shadow, std::size_t offset, std::size_t bytes, Operation operation, bool write,
                        const char* what);

 private:
  struct Self {
    unsigned int thread;
    bool shared;
    std::uint32_t site;
  };

  // What a thread made visible to whom reads the word it then wrote.
  struct Release {
    std::uint32_t block, block_sync, time;
    unsigned int thread;
  };

  // What a thread of the running block got to know by that: everything in `release`.
  struct Acquire {
    Release release;
    std::uint32_t time;
    unsigned int thread;
  };

  struct OrderedRange {  // of blocks, all of one earlier operation
    std::uint32_t begin = 0, end = 0;
    bool ordered = false;
  };

  bool ordered(const Access& before, const Self& self);
  bool ordered_in_warp(const Access& before, unsigned int thread) const;
  bool ordered_across_blocks(const Access& before, unsigned int thread) const;
  bool ordered_across_operations(const Access& before, std::uint32_t site);
  void synchronise(std::uintptr_t address, Kind kind, unsigned int thread);
  void remember_read(Cell& cell, const Access& access) const;
  std::string race(const Access& before, const char* did, const char* does, bool shared) const;

  std::uint32_t now_ = 1;
  std::uint32_t last_block_ = 0;  // serial number given out last
  std::uint32_t block_ = 0, first_block_ = 1;
  std::uint32_t block_sync_ = 0;  // when the block's last barrier was
  Operation operation_ = 0;

  // What each lane knows of each other lane of its warp: all that it did before that time.
  std::vector<std::array<std::uint32_t, 32>> known_;
  std::vector<std::uint32_t> warp_sync_;  // when the whole warp last met
  std::vector<std::uint32_t> fenced_;     // by thread: the block in which it last passed a fence

  std::unordered_map<std::uintptr_t, std::vector<Release>> releases_;
  std::vector<Acquire> acquires_;

  // Where each operation's blocks begin, in ascending order.
  struct Begin {
    std::uint32_t first_block;
    Operation operation;
  };
  std::vector<Begin> operations_;
  std::array<OrderedRange, 16> ordered_ranges_;
};

RaceCheck& race_check();

}  // namespace giro::simt
