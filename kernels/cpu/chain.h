#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace giro::cpu {

// A step of arithmetic on f32. Those of a chain run together, some hundred elements at a time: each makes something of
// the value that the one before has left in registers, and most of another operand, a tile or one number.
//
// A boolean is held in four bytes, of which any that is not 0 says true.
struct ChainStep {
  int code = 0;
  int operand = 0;    // the tile's number, or that of where the value is stored
  int condition = 0;  // of `where`
};

using Chain = void (*)(const ChainStep* steps, std::size_t count, const std::byte* const* tiles, std::int64_t n);
Chain chain();

// What a step does. With two operands its code is one of four.
struct ChainFunction {
  int code;
  int inputs;

  int with(bool operand_first, bool is_number) const { return code + (operand_first ? 2 : 0) + (is_number ? 1 : 0); }
};

// What a function of f32 is by its source, or what rounds to "bf16" or "f16". None for one that has no code.
std::optional<ChainFunction> chain_function(std::string_view source);

extern const ChainFunction kChainLoad;  // or kChainLoad.with(false, true): a number
extern const ChainFunction kChainStore;
extern const ChainFunction kChainStream;  // stores past the caches
extern const ChainFunction kChainSum;     // adds to the lanes that Fold::open has opened
extern const ChainFunction kChainAhead;   // begins to fetch what comes some blocks later: code, + 1, ... a part each
inline constexpr int kPartsAhead = 4;

// What this thread has streamed is there for other threads that what comes next is.
void end_of_streams();

}  // namespace giro::cpu
