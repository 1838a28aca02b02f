#pragma once

// The memory that kernels may touch: the allocations, which of their bytes have been written and, for the race check,
// the last accesses. The runtime adds and removes allocations and reports its own accesses (copies, fills, library
// calls). Launches report each access of a thread.

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

// Numbers each piece of work on the device (a launch, a copy, a library call). The runtime counts from 1, in the order
// of execution. 0 stands for work that is ordered with everything else.
using Operation = std::uint64_t;

struct Allocation {
  std::uintptr_t begin;
  std::size_t bytes;
  Shadow shadow;

  std::uintptr_t end() const { return begin + bytes; }
};

class Memory {
 public:
  // Whether the host's calls guarantee that `earlier` ends before `later` starts. If unset, everything is ordered.
  std::function<bool(Operation earlier, Operation later)> happens_before;

  // Called before a line of a kernel first touches an allocation, because the host may have closed it. Returns an error
  // message, or nothing.
  std::function<std::string(std::uintptr_t address)> before_use;

  // Device memory starts out with no byte written. Pinned host memory counts as `initialised`, because the host's
  // writes are not observed, and so do variables. `bytes` may be 0.
  void add(void* begin, std::size_t bytes, bool initialised);

  // Later accesses are errors that describe the allocation as freed. Does nothing if no allocation begins at `begin`.
  void remove(void* begin);

  // The allocation that holds `address`, or null. Valid until the next add or remove.
  Allocation* find(std::uintptr_t address);
  Allocation* find(const void* address) { return find(reinterpret_cast<std::uintptr_t>(address)); }

  // Accesses of the runtime itself. `what` is for messages: "cudaMemcpyAsync". Each returns an error, or an empty
  // string: an access out of bounds, a race with an operation that is not ordered before this one, or (read)
  // uninitialised bytes. Memory outside every allocation is pageable host memory. It has no bounds and counts as
  // initialised, because the host's writes are not observed.
  std::string write(const void* begin, std::size_t bytes, Operation operation, const char* what);
  std::string read(const void* begin, std::size_t bytes, Operation operation, const char* what);

  // Like read and write together, except that unwritten bytes stay unwritten in the copy. Copies no data.
  std::string copy(const void* to, const void* from, std::size_t bytes, Operation operation, const char* what);

  // Marks the range as not written, for memory that a pool hands out again.
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
