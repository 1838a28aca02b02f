#pragma once

// The memory that kernels may touch: which allocations there are, which of their bytes have been written,
// and, for the race check, who touched them last. The runtime adds and removes allocations and tells of what
// it does to them itself (copies, fills, library calls); launches do so for each access of a thread.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/cuda_on_cpu/engine/shadow.h"

namespace giro::simt {

// A number for each piece of work on the device (a launch, a copy, a library call), given by the runtime in
// the order of execution, counting from 1. 0 stands for work that everything else is ordered with.
using Operation = std::uint64_t;

struct Allocation {
  std::uintptr_t begin;
  std::size_t bytes;
  Shadow shadow;

  std::uintptr_t end() const { return begin + bytes; }
};

class Memory {
 public:
  // Whether `earlier` had ended, by what the host asked for, before `later` began. The default says yes.
  std::function<bool(Operation earlier, Operation later)> happens_before;

  // Called before a kernel's line first touches an allocation, which the host may have closed. What is wrong with
  // that, or nothing.
  std::function<std::string(std::uintptr_t address)> before_use;

  // Device memory starts out with no byte written; pinned host memory, which the host writes unseen, is
  // `initialised`, and so are variables. `bytes` may be 0.
  void add(void* begin, std::size_t bytes, bool initialised);

  // Accesses from now on are errors that call it freed. Nothing happens where `begin` is no allocation's.
  void remove(void* begin);

  // The allocation that holds `address`, or null. Valid until the next add or remove.
  Allocation* find(std::uintptr_t address);
  Allocation* find(const void* address) { return find(reinterpret_cast<std::uintptr_t>(address)); }

  // What the runtime does to device memory itself. `what` is for messages: "cudaMemcpyAsync". Each returns an
  // error: out of bounds, a race with an operation that is not ordered before this one, or (read) bytes that
  // nothing wrote; empty where all is well. What lies outside every allocation is pageable host memory: it
  // has no bounds, and the host, which writes it unseen, has initialised it.
  std::string write(const void* begin, std::size_t bytes, Operation operation, const char* what);
  std::string read(const void* begin, std::size_t bytes, Operation operation, const char* what);

  // As read and write together, but bytes that nothing wrote stay so in the copy. Copies no data.
  std::string copy(const void* to, const void* from, std::size_t bytes, Operation operation, const char* what);

  // Nothing in this range counts as written any more: memory that a pool hands out again.
  void forget(const void* begin, std::size_t bytes);

  // "8 bytes before an allocation of 64 bytes", "in an allocation of 64 bytes that was freed".
  std::string describe(std::uintptr_t address) const;

 private:
  std::string touch_pageable(const void* begin, std::size_t bytes, Operation operation, const char* what, bool write);
  std::string touch(const void* begin, std::size_t bytes, Operation operation, const char* what, bool write,
                    bool needs_initialised);

  std::map<std::uintptr_t, std::unique_ptr<Allocation>> allocations_;  // by begin
  std::map<std::uintptr_t, Shadow> pageable_;                          // by begin, kRegion bytes each
  std::map<std::uintptr_t, std::size_t> freed_;                        // not yet covered by a new allocation
};

Memory& memory();

}  // namespace giro::simt
