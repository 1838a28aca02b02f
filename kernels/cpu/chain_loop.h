// Without an include guard: chain.cpp includes it once for each instruction set, in a namespace of its own. Vector types
// are made into instructions before functions are inlined, so the target is to be that of the function they stand in.

// Runs all steps on kRegisters vectors at a time, from element i on, as long as they fill them.
template <int kBytes, int kRegisters>
GIRO_TARGET std::int64_t run_blocks(const ChainStep* steps, int count, std::int64_t i, std::int64_t n) {
  using V = typename Vector<kBytes>::type;
  using M = typename Vector<kBytes>::in_memory;
  constexpr int kLanes = Vector<kBytes>::kLanes;
  for (; i + kRegisters * kLanes <= n; i += kRegisters * kLanes) {
    V x[kRegisters];
    _Pragma("GCC unroll 16") for (int r = 0; r < kRegisters; ++r) {
      x[r] = *reinterpret_cast<const M*>(steps->b + i + r * kLanes);
    }
    for (const ChainStep* s = steps + 1; s != steps + count; ++s) {
// With b as a vector of a tile, or as one of the same number everywhere.
#define GIRO_EACH(...)                                                       \
  _Pragma("GCC unroll 16") for (int r = 0; r < kRegisters; ++r) __VA_ARGS__; \
  break
#define GIRO_CODE(CODE, VALUE)                                       \
  case 2 * static_cast<int>(CODE): {                                 \
    const float* const tile = s->b + i;                              \
    GIRO_EACH({                                                      \
      const V a = x[r], b = *reinterpret_cast<const M*>(tile + r * kLanes); \
      x[r] = VALUE;                                                  \
    });                                                              \
  }                                                                  \
  case 2 * static_cast<int>(CODE) + 1: {                             \
    const V b = *s->b - V{};                                         \
    GIRO_EACH({                                                      \
      const V a = x[r];                                              \
      x[r] = VALUE;                                                  \
    });                                                              \
  }
      switch (2 * static_cast<int>(s->code) + (s->is_scalar ? 1 : 0)) {
        GIRO_CODE(Code::add, a + b)
        GIRO_CODE(Code::subtract, a - b)
        GIRO_CODE(Code::subtract_over, b - a)
        GIRO_CODE(Code::multiply, a * b)
        GIRO_CODE(Code::maximum, a != a ? a : (a > b ? a : b))
        GIRO_CODE(Code::maximum_over, b != b ? b : (b > a ? b : a))
        GIRO_CODE(Code::minimum, a != a ? a : (a < b ? a : b))
        GIRO_CODE(Code::minimum_over, b != b ? b : (b < a ? b : a))
        case 2 * static_cast<int>(Code::square):
          GIRO_EACH(x[r] = x[r] * x[r]);
        case 2 * static_cast<int>(Code::store):
          GIRO_EACH(*reinterpret_cast<M*>(s->b + i + r * kLanes) = x[r]);
        default:
          break;
      }
#undef GIRO_CODE
#undef GIRO_EACH
    }
  }
  return i;
}

GIRO_TARGET void run(const ChainStep* steps, int count, std::int64_t n) {
  std::int64_t i = run_blocks<kVector, kRegisters>(steps, count, 0, n);
  i = run_blocks<kVector, 1>(steps, count, i, n);
  run_blocks<4, 1>(steps, count, i, n);
}
