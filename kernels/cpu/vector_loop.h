// Without an include guard: for files of loops (instruction_set_loops.h) that work on whole vectors.

#define GIRO_INLINE GIRO_TARGET inline __attribute__((always_inline))

typedef float V __attribute__((vector_size(kVector)));
typedef float InMemory __attribute__((vector_size(kVector), aligned(4), may_alias));
constexpr std::int64_t kLanes = kVector / 4;

GIRO_INLINE V load(const float* from) { return *reinterpret_cast<const InMemory*>(from); }
GIRO_INLINE void store(float* to, V x) { *reinterpret_cast<InMemory*>(to) = x; }
