#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/expr/scalar_function.h"

namespace giro::cpu {

// A step of f32 arithmetic. The steps of a chain run together, on a few hundred elements at a time: each takes the
// value that the previous one left in registers and, in most cases, another operand: a tile or a single number.
//
// A boolean takes four bytes; nonzero is true.
struct ChainStep {
  int code = 0;
  int operand = 0;    // index of the tile that is read or written
  int condition = 0;  // the condition's tile, for `where`
};

using Chain = void (*)(const ChainStep* steps, std::size_t count, const std::byte* const* tiles, std::int64_t n);
Chain chain();

// A step's function. With two operands, its code is one of four.
struct ChainFunction {
  int code;
  int inputs;

  int with(bool operand_first, bool is_number) const { return code + (operand_first ? 2 : 0) + (is_number ? 1 : 0); }
};

// The step for a function of f32; nullopt if there is none.
std::optional<ChainFunction> chain_function(const expr::ScalarFunction& function);

extern const ChainFunction kChainLoad;                 // with(false, true): loads a number
extern const ChainFunction kChainToBf16, kChainToF16;  // round to these
extern const ChainFunction kChainStore;
extern const ChainFunction kChainStream;    // a store that bypasses the caches
extern const ChainFunction kChainSum;       // adds to the lanes that Fold::open initialized
extern const ChainFunction kChainPrefetch;  // prefetches elements some blocks ahead: code, code + 1, ... are its parts
inline constexpr int kPrefetchParts = 4;

// A store fence: other threads see what this thread has streamed before they see its later stores.
void end_of_streams();

}  // namespace giro::cpu
