// Without an include guard: chain.cpp includes it once for each instruction set, in a namespace of its own. Vector
// types are made into instructions before functions are inlined, so the target is to be that of the function they stand
// in.

// Runs all steps on kRegisters vectors at a time, from element i on, as long as they fill them.
template <int kBytes, int kRegisters>
GIRO_TARGET std::int64_t run_blocks(const ChainStep* steps, int count, std::int64_t i, std::int64_t n) {
  using V = typename Vector<kBytes>::type;
  using M = typename Vector<kBytes>::in_memory;
  constexpr int kLanes = Vector<kBytes>::kLanes;

#define GIRO_EACH(...)                                            \
  _Pragma("GCC unroll 16") for (int r = 0; r < kRegisters; ++r) { \
    [[maybe_unused]] const V a = x[r];                            \
    __VA_ARGS__;                                                  \
  }
// With b as a vector of a tile, or as one of the same number everywhere.
#define GIRO_OF_TILE(CODE, VALUE)        \
  case 2 * static_cast<int>(Code::CODE): \
    GIRO_EACH(const V b = *reinterpret_cast<const M*>(s->b + i + r * kLanes); x[r] = VALUE) break;
#define GIRO_OF_SCALAR(CODE, VALUE)            \
  case 2 * static_cast<int>(Code::CODE) + 1: { \
    const V b = *s->b - V{};                   \
    GIRO_EACH(x[r] = VALUE) break;             \
  }
// As arithmetic.h has them. Where b is known to be no NaN it takes one instruction.
#define GIRO_EXTREME(CODE, IS)                               \
  GIRO_OF_TILE(CODE, b != b ? b : (b IS a ? b : a))          \
  GIRO_OF_TILE(CODE##_over, a != a ? a : (a IS b ? a : b))   \
  GIRO_OF_SCALAR(CODE##_over, a != a ? a : (a IS b ? a : b)) \
  case 2 * static_cast<int>(Code::CODE) + 1: {               \
    const V b = *s->b - V{};                                 \
    if (*s->b == *s->b) {                                    \
      GIRO_EACH(x[r] = b IS a ? b : a)                       \
    } else {                                                 \
      GIRO_EACH(x[r] = b)                                    \
    }                                                        \
    break;                                                   \
  }

  for (; i + kRegisters * kLanes <= n; i += kRegisters * kLanes) {
    V x[kRegisters];
    _Pragma("GCC unroll 16") for (int r = 0; r < kRegisters; ++r) {
      x[r] = *reinterpret_cast<const M*>(steps->b + i + r * kLanes);
    }
    for (const ChainStep* s = steps + 1; s != steps + count; ++s) {
      switch (2 * static_cast<int>(s->code) + (s->is_scalar ? 1 : 0)) {
        GIRO_OF_TILE(add, a + b)
        GIRO_OF_SCALAR(add, a + b)
        GIRO_OF_TILE(subtract, a - b)
        GIRO_OF_SCALAR(subtract, a - b)
        GIRO_OF_TILE(subtract_over, b - a)
        GIRO_OF_SCALAR(subtract_over, b - a)
        GIRO_OF_TILE(multiply, a * b)
        GIRO_OF_SCALAR(multiply, a * b)
        GIRO_EXTREME(maximum, >)
        GIRO_EXTREME(minimum, <)
        case 2 * static_cast<int>(Code::square):
          GIRO_EACH(x[r] = a * a) break;
        case 2 * static_cast<int>(Code::store):
          GIRO_EACH(*reinterpret_cast<M*>(s->b + i + r * kLanes) = a) break;
        default:
          break;
      }
    }
  }
#undef GIRO_EXTREME
#undef GIRO_OF_SCALAR
#undef GIRO_OF_TILE
#undef GIRO_EACH
  return i;
}

GIRO_TARGET void run(const ChainStep* steps, int count, std::int64_t n) {
  std::int64_t i = run_blocks<kVector, kRegisters>(steps, count, 0, n);
  i = run_blocks<kVector, 1>(steps, count, i, n);
  run_blocks<4, 1>(steps, count, i, n);
}
