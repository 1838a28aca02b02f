#pragma once

// What a piece of queued work reads and writes. Each of these throws CudaError for an access out of bounds, a race, or
// a read of uninitialised memory.

#include <cstddef>
#include <map>

namespace cuda_on_cpu {

void will_read(const void* begin, std::size_t bytes, const char* what);
void will_write(const void* begin, std::size_t bytes, const char* what);

// The same for work that reads and writes in no particular order. What it writes must not overlap anything else that it
// touches, or the result would depend on that order.
class Operands {
 public:
  explicit Operands(const char* what) : what_(what) {}

  void read(const void* begin, std::size_t bytes);
  void write(const void* begin, std::size_t bytes);

 private:
  using Ranges = std::map<const char*, const char*>;  // disjoint, begin to end

  void expect_apart(const Ranges& others, const void* begin, std::size_t bytes) const;
  static void add(Ranges& ranges, const void* begin, std::size_t bytes);

  const char* what_;
  Ranges read_, written_;
};

}  // namespace cuda_on_cpu
