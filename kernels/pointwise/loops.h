#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <giro/runtime/dtype.h>

#define GIRO_LOOP_INLINE inline __attribute__((always_inline))

namespace giro::pointwise {

enum class Takes : std::uint8_t;

// A scalar function over arrays of one tile.
using Loop = void (*)(const void* const* in, void* out, std::int64_t n);

struct Loops {
  std::array<Loop, 8> of_dtype{};
};

template <class Code, int kInputs>
constexpr Loops loops_of(Takes) {
  return {};
}

}  // namespace giro::pointwise
