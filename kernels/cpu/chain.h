#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace giro::cpu {

// Steps of arithmetic on f32 of which each takes what the one before has given: they run together, some hundred
// elements at a time, on values that stay in registers.
struct ChainStep {
  // What becomes of the value x, given an operand b. `over`: b comes first.
  enum class Code : int {
    load,
    add,
    subtract,
    subtract_over,
    multiply,
    maximum,
    maximum_over,
    minimum,
    minimum_over,
    square,
    store
  };

  Code code = Code::load;  // which only the first step is
  bool is_scalar = false;  // b is one number
  float* b = nullptr;      // a tile, or where the value is stored
};

using Chain = void (*)(const ChainStep* steps, int count, std::int64_t n);
Chain chain();

// A function of two inputs by its source; `over`: where the value is the second. None for one that has no code.
std::optional<ChainStep::Code> chain_code(std::string_view source, bool over);

}  // namespace giro::cpu
