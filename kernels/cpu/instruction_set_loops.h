// Without an include guard: includes the file GIRO_LOOPS once for each instruction set, in the namespaces baseline,
// avx2 and avx512. The file can use kVector, the bytes of a vector, and must put GIRO_TARGET, the target attribute, on
// its functions. Include this in an unnamed namespace.

namespace baseline {
#if defined(__AVX512F__)
constexpr int kVector = 64;
#elif defined(__AVX2__) && defined(__FMA__)
constexpr int kVector = 32;
#else
constexpr int kVector = 16;
#endif
#define GIRO_TARGET
#include GIRO_LOOPS
#undef GIRO_TARGET
}  // namespace baseline
#if defined(__x86_64__) && !GIRO_ONE_INSTRUCTION_SET
namespace avx2 {
constexpr int kVector = 32;
#define GIRO_TARGET GIRO_AVX2
#include GIRO_LOOPS
#undef GIRO_TARGET
}  // namespace avx2
namespace avx512 {
constexpr int kVector = 64;
#define GIRO_TARGET GIRO_AVX512
#include GIRO_LOOPS
#undef GIRO_TARGET
}  // namespace avx512
#else
namespace avx2 = baseline;
namespace avx512 = baseline;
#endif
#undef GIRO_LOOPS
