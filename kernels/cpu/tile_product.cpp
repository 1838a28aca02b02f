#include "kernels/cpu/tile_product.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstddef>
#include <utility>

namespace giro::cpu {
namespace {

#define GIRO_LOOPS "kernels/cpu/tile_product_loop.h"
#include "kernels/cpu/instruction_set_loops.h"

}  // namespace

const TileProducts& tile_products() {
  static constexpr expr::PerInstructionSet<const TileProducts*> kAll{
      {&baseline::kProducts, &avx2::kProducts, &avx512::kProducts}};
  return *kAll.get();
}

}  // namespace giro::cpu
