#include "kernels/expr/instruction_sets.h"

#include <atomic>

namespace giro::expr {
namespace {

bool has(InstructionSet set) {
#if defined(__x86_64__)
  if (set == kAvx2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (set == kAvx512) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  }
#endif
  return set == kBaseline;
}

std::atomic<InstructionSet>& chosen() {
  static std::atomic<InstructionSet> set = has(kAvx512) ? kAvx512 : has(kAvx2) ? kAvx2 : kBaseline;
  return set;
}

}  // namespace

InstructionSet instruction_set() { return chosen().load(std::memory_order_relaxed); }

bool use_instruction_set(InstructionSet set) {
  if (!has(set)) return false;
  chosen() = set;
  return true;
}

}  // namespace giro::expr
