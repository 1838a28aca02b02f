#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace giro::cpu {

// While it lives, this thread's arithmetic gives zero where a result would be subnormal. Processors take a hundred
// times as long for such numbers, and training makes many: moments that decay, probabilities that vanish. Subnormal
// operands are still read as they are: whether instructions such as a maximum would read them as zero depends on how
// the compiler writes a selection, and fused and unfused ops must agree to the bit. One made with false keeps subnormal
// results, within the life of another.
class FlushSubnormals {
 public:
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;
#if defined(__x86_64__)
  static constexpr bool kFlushes = true;
  explicit FlushSubnormals(bool flushes = true) : before_(_mm_getcsr()) {
    _mm_setcsr(flushes ? before_ | kFlushToZero : before_ & ~kFlushToZero);
  }
  ~FlushSubnormals() { _mm_setcsr(before_); }

 private:
  static constexpr unsigned int kFlushToZero = 0x8000;
  unsigned int before_;
#else
  static constexpr bool kFlushes = false;
  explicit FlushSubnormals(bool = true) {}
  ~FlushSubnormals() {}
#endif
};

}  // namespace giro::cpu
