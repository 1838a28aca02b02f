#include "kernels/cpu/chain.h"

#include <cstddef>

#include "kernels/pointwise/instruction_sets.h"

namespace giro::cpu {
namespace {

using Code = ChainStep::Code;

template <int kBytes>
struct Vector {
  typedef float type __attribute__((vector_size(kBytes)));
  typedef float in_memory __attribute__((vector_size(kBytes), aligned(4), may_alias));
  static constexpr int kLanes = kBytes / 4;
};
template <>
struct Vector<4> {
  typedef float type;
  typedef float in_memory;
  static constexpr int kLanes = 1;
};

// As many registers as leave some for operands.
namespace baseline {
#if defined(__AVX512F__)
constexpr int kVector = 64, kRegisters = 16;
#else
constexpr int kVector = 16, kRegisters = 8;
#endif
#define GIRO_TARGET
#include "kernels/cpu/chain_loop.h"
#undef GIRO_TARGET
}  // namespace baseline
namespace avx2 {
constexpr int kVector = 32, kRegisters = 8;
#define GIRO_TARGET GIRO_AVX2
#include "kernels/cpu/chain_loop.h"
#undef GIRO_TARGET
}  // namespace avx2
namespace avx512 {
constexpr int kVector = 64, kRegisters = 16;
#define GIRO_TARGET GIRO_AVX512
#include "kernels/cpu/chain_loop.h"
#undef GIRO_TARGET
}  // namespace avx512

}  // namespace

Chain chain() {
#if defined(__x86_64__) && !GIRO_ONE_INSTRUCTION_SET
  constexpr pointwise::PerSet<Chain> kAll{{&baseline::run, &avx2::run, &avx512::run}};
  return kAll.get();
#else
  return &baseline::run;
#endif
}

std::optional<Code> chain_code(std::string_view source, bool over) {
  if (source == "plus(a, b)") return Code::add;
  if (source == "times(a, b)") return Code::multiply;
  if (source == "minus(a, b)") return over ? Code::subtract_over : Code::subtract;
  if (source == "maximum(a, b)") return over ? Code::maximum_over : Code::maximum;
  if (source == "minimum(a, b)") return over ? Code::minimum_over : Code::minimum;
  return std::nullopt;
}

}  // namespace giro::cpu
