#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <giro/runtime/not_copied.h>

namespace giro::cpu {

// During its lifetime, this thread's arithmetic flushes subnormal results to zero. Processors take a hundred times as
// long for such numbers, and training produces many: moments that decay, probabilities that vanish. Subnormal operands
// are still read as they are: whether instructions such as a maximum would read them as zero depends on how the
// compiler implements a selection, and fused and unfused ops must agree bit for bit. One made with false keeps
// subnormal results during the lifetime of another.
class FlushSubnormals : detail::NotCopied {
 public:
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
