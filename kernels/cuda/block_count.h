#pragma once

#include <algorithm>
#include <cstdint>

namespace giro::cuda {

// How many blocks cover n with `per_block` each. At most `most`, for kernels that stride over the rest.
inline unsigned int blocks_for(std::int64_t n, std::int64_t per_block, std::int64_t most = 0x7fffffff) {
  return static_cast<unsigned int>(std::clamp<std::int64_t>((n + per_block - 1) / per_block, 1, most));
}

}  // namespace giro::cuda
