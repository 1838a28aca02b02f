#include "kernels/cpu/chain.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kernels/cpu/fold.h"
#include "kernels/expr/instruction_sets.h"
#include "kernels/expr/math.h"
#include "kernels/expr/table.h"

namespace giro::cpu {
namespace {

using expr::math::kExpLimits, expr::math::kTanhLimits;

template <int kBytes>
struct Vector {
  typedef float type __attribute__((vector_size(kBytes)));
  typedef std::uint32_t bits __attribute__((vector_size(kBytes)));
  typedef float in_memory __attribute__((vector_size(kBytes), aligned(4), may_alias));
  typedef std::uint32_t bits_in_memory __attribute__((vector_size(kBytes), aligned(4), may_alias));
  static constexpr int kLanes = kBytes / 4;
};
template <>
struct Vector<4> {
  typedef float type;
  typedef std::uint32_t bits;
  typedef float in_memory __attribute__((may_alias));
  typedef std::uint32_t bits_in_memory __attribute__((may_alias));
  static constexpr int kLanes = 1;
};

constexpr int kAhead = 2048;  // bytes

// A function of two operands has four codes: see ChainFunction::with.
struct Code {
#define GIRO_UNARY(NAME, ...) NAME,
#define GIRO_BINARY(NAME, ...) NAME, NAME##_last = NAME + 3,
#define GIRO_EXTREME GIRO_BINARY
#define GIRO_TOGETHER GIRO_UNARY
  enum : int {
#include "kernels/cpu/chain_codes.h"
    GIRO_BINARY(load) GIRO_BINARY(where) to_bf16,
    to_f16,
    store,
    stream,
    sum,
    ahead,
    ahead_last = ahead + kPrefetchParts - 1
  };
#undef GIRO_TOGETHER
#undef GIRO_EXTREME
#undef GIRO_BINARY
#undef GIRO_UNARY
};

// Leaves some registers for operands. With a sanitizer there are only a few, which compile ten times as fast.
#if defined(GIRO_FEW_REGISTERS)
constexpr int kOf16 = 4, kOf32 = 4;
#else
constexpr int kOf16 = 8, kOf32 = 16;
#endif
#define GIRO_LOOPS "kernels/cpu/chain_loop.h"
#include "kernels/cpu/instruction_set_loops.h"

constexpr expr::PerInstructionSet<Chain> kAll{{&baseline::run, &avx2::run, &avx512::run}};

}  // namespace

const ChainFunction kChainLoad{Code::load, 1}, kChainToBf16{Code::to_bf16, 1}, kChainToF16{Code::to_f16, 1},
    kChainStore{Code::store, 1}, kChainStream{Code::stream, 1}, kChainSum{Code::sum, 1}, kChainPrefetch{Code::ahead, 1};

Chain chain() { return kAll.get(); }

void end_of_streams() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

std::optional<ChainFunction> chain_function(const expr::ScalarFunction& function) {
#define GIRO_UNARY(NAME, ...) \
  if (&function == &expr::functions::NAME) return ChainFunction{Code::NAME, 1};
#define GIRO_BINARY(NAME, ...) \
  if (&function == &expr::functions::NAME) return ChainFunction{Code::NAME, 2};
#define GIRO_EXTREME GIRO_BINARY
#define GIRO_TOGETHER GIRO_UNARY
#include "kernels/cpu/chain_codes.h"
#undef GIRO_TOGETHER
#undef GIRO_EXTREME
#undef GIRO_BINARY
#undef GIRO_UNARY
  if (&function == &expr::functions::where) return ChainFunction{Code::where, 3};
  return std::nullopt;
}

}  // namespace giro::cpu
