#include "kernels/cpu/tile_product.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstddef>
#include <utility>

namespace giro::cpu {
namespace {

// An x86-64 without AVX2 has 16 registers, too, but rounds twice per term.
namespace baseline {
#if defined(__AVX512F__)
constexpr int kVector = 64, kRows = 8;
#elif defined(__AVX2__) && defined(__FMA__)
constexpr int kVector = 32, kRows = 4;
#else
constexpr int kVector = 16, kRows = 4;
#endif
#define GIRO_TARGET
#include "kernels/cpu/tile_product_loop.h"
#undef GIRO_TARGET
}  // namespace baseline
#if defined(__x86_64__) && !GIRO_ONE_INSTRUCTION_SET
namespace avx2 {
constexpr int kVector = 32, kRows = 4;
#define GIRO_TARGET GIRO_AVX2
#include "kernels/cpu/tile_product_loop.h"
#undef GIRO_TARGET
}  // namespace avx2
namespace avx512 {
constexpr int kVector = 64, kRows = 8;
#define GIRO_TARGET GIRO_AVX512
#include "kernels/cpu/tile_product_loop.h"
#undef GIRO_TARGET
}  // namespace avx512
#else
namespace avx2 = baseline;
namespace avx512 = baseline;
#endif

}  // namespace

const TileProducts& tile_products() {
  static constexpr pointwise::PerSet<const TileProducts*> kAll{
      {&baseline::kProducts, &avx2::kProducts, &avx512::kProducts}};
  return *kAll.get();
}

}  // namespace giro::cpu
