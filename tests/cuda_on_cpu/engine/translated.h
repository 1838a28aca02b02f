#pragma once

// What translated kernels and the engine know of each other. The kernels are C, which tcc compiles in a twentieth of a
// C++ compiler's time; so this file is C as well as C++. Keep it small, and include nothing for C: each kernel that is
// compiled while a test runs reads it.

#ifdef __cplusplus
#include <cstdint>
namespace giro::simt {
extern "C" {
#else
typedef _Bool bool;
#define true 1
#define false 0
#endif

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long s64;
typedef float f32;
typedef double f64;

#ifdef __cplusplus
struct Dim3 {
  unsigned int x = 1, y = 1, z = 1;
  std::uint64_t count() const { return std::uint64_t{x} * y * z; }
};
#define SIMT_INITIAL(value) = value
#else
typedef struct Dim3 {
  unsigned int x, y, z;
} Dim3;
#define SIMT_INITIAL(value)
#endif

// A function's array in the local state space, until the function ends.
typedef struct LocalArray {
  const struct LocalArray* outer;  // the caller's, or null
  u64 begin, bytes;
} LocalArray;

// What translated code reads of a thread (thread.h).
typedef struct ThreadView {
  Dim3 index;                  // threadIdx
  u32 linear SIMT_INITIAL(0);  // threadIdx, linearised
  u32 ticks SIMT_INITIAL(0);   // backward jumps until simt_out_of_ticks
  u64 carry SIMT_INITIAL(0);   // for extended-precision arithmetic, 0 or 1
  const Dim3* block_index SIMT_INITIAL(nullptr);
  const Dim3* block_size SIMT_INITIAL(nullptr);
  const Dim3* grid_size SIMT_INITIAL(nullptr);
  const char* parameters SIMT_INITIAL(nullptr);
  const LocalArray* locals SIMT_INITIAL(nullptr);
} ThreadView;
#undef SIMT_INITIAL

// A kernel's parameter and its place in the PTX parameter block.
typedef struct Parameter {
  u64 offset, bytes;
} Parameter;

// `name` is mangled, as __cudaRegisterFunction gives it. See Kernel (engine.h) for the rest.
typedef struct KernelRegistration {
  const char* name;
  void (*run)(ThreadView*);
  const Parameter* parameters;
  u64 parameter_count, parameter_bytes, static_shared_bytes;
  u32 max_threads;
  bool waits;
} KernelRegistration;

// A __device__ or __constant__ variable, by its mangled name.
typedef struct VariableRegistration {
  const char* name;
  void* address;
  u64 bytes;
} VariableRegistration;

// Enters the contents of a translated file. `sites`: places in its source, which its code names by their numbers.
void simt_register(const char* const* sites, u64 site_count, const KernelRegistration* kernels, u64 kernel_count,
                   const VariableRegistration* variables, u64 variable_count);

// The values of Kind, Sense (access.h), Shuffle and WarpOp (thread.h).
enum {
  kind_read,
  kind_write,
  kind_device_read,
  kind_device_write,
  kind_device_atomic,
  kind_block_read,
  kind_block_write,
  kind_block_atomic
};
enum { sense_relaxed, sense_acquire, sense_release, sense_both };
enum { shuffle_up, shuffle_down, shuffle_butterfly, shuffle_index };
enum {
  warp_op_sync,
  warp_op_shuffle,
  warp_op_ballot,
  warp_op_reduce_add,
  warp_op_reduce_min_s32,
  warp_op_reduce_min_u32,
  warp_op_reduce_max_s32,
  warp_op_reduce_max_u32,
  warp_op_reduce_and,
  warp_op_reduce_or,
  warp_op_reduce_xor,
  warp_op_match_any,
  warp_op_match_all,
  warp_op_multiply_bf16,
  warp_op_multiply_f16
};

// A lane's elements of the matrices of an mma.m16n8k16, as the PTX manual lays them out: two 16-bit floats in each word
// of a (16 x 16) and b (16 x 8). The product is added to sums (16 x 8).
typedef struct MatrixPart {
  u32 a[4], b[2];
  f32 sums[4];
} MatrixPart;

// Thread's functions (thread.h). They do not return if the thread fails.
char* simt_global(ThreadView* t, u64 address, u64 bytes, int kind, u32 site, int sense);
char* simt_shared(ThreadView* t, u64 address, u64 bytes, int kind, u32 site, int sense);
char* simt_local(ThreadView* t, u64 address, u64 bytes, int kind, u32 site, int sense);
char* simt_generic(ThreadView* t, u64 address, u64 bytes, int kind, u32 site, int sense);
const char* simt_parameter(ThreadView* t, u64 address, u64 bytes, u32 site);
u64 simt_generic_of_shared(ThreadView* t, u64 address);
u64 simt_shared_of_generic(ThreadView* t, u64 address);
bool simt_is_shared(ThreadView* t, u64 address);
void simt_begin_array(ThreadView* t, LocalArray* array, char* begin, u64 bytes);
void simt_block_barrier(ThreadView* t, u32 site);
u32 simt_barrier_count(ThreadView* t, bool vote, u32 site);
bool simt_barrier_and(ThreadView* t, bool vote, u32 site);
bool simt_barrier_or(ThreadView* t, bool vote, u32 site);
void simt_warp_sync(ThreadView* t, u32 mask, u32 site);
u32 simt_shuffle(ThreadView* t, int mode, u32 value, u32 lane_operand, u32 clamp, u32 mask, bool* in_range, u32 site);
u32 simt_ballot(ThreadView* t, bool vote, u32 mask, u32 site);
bool simt_vote_all(ThreadView* t, bool vote, u32 mask, u32 site);
bool simt_vote_any(ThreadView* t, bool vote, u32 mask, u32 site);
bool simt_vote_uniform(ThreadView* t, bool vote, u32 mask, u32 site);
u32 simt_reduce(ThreadView* t, int op, u32 value, u32 mask, u32 site);
u32 simt_match_any(ThreadView* t, u64 value, u32 mask, u32 site);
u32 simt_match_all(ThreadView* t, u64 value, u32 mask, bool* all, u32 site);
void simt_multiply(ThreadView* t, int op, MatrixPart* part, u32 site);
void simt_fence(ThreadView* t, bool for_block_only, bool sequential);
void simt_set_conditional(ThreadView* t, u64 handle, u32 value, u32 site);
void simt_trap(ThreadView* t, u32 site);
void simt_yield(ThreadView* t);
void simt_out_of_ticks(ThreadView* t, u32 site);

// Instructions (ptx_ops.h). No conversion between integers and floats is left to the compiler: tcc's are not to be
// trusted, and out of range C leaves them undefined.
#define SIMT_INTEGERS(with) with(u16) with(s16) with(u32) with(s32) with(u64) with(s64)
#define SIMT_INTEGER(T)                                   \
  T simt_divide_##T(T a, T b);                            \
  T simt_remainder_##T(T a, T b);                         \
  T simt_multiply_high_##T(T a, T b);                     \
  T simt_insert_bits_##T(T a, T into, u32 at, u32 count); \
  T simt_extract_bits_##T(T a, u32 at, u32 count);        \
  u32 simt_popcount_##T(T a);                             \
  u32 simt_countl_zero_##T(T a);                          \
  T simt_reverse_bits_##T(T a);                           \
  u32 simt_find_highest_##T(T a);                         \
  u32 simt_shift_to_highest_##T(T a);                     \
  T simt_increment_##T(T old, T limit);                   \
  T simt_decrement_##T(T old, T limit);
SIMT_INTEGERS(SIMT_INTEGER)
#undef SIMT_INTEGER

#define SIMT_CONVERTIBLE(with) SIMT_INTEGERS(with) with(u8) with(s8)
#define SIMT_CONVERSION(T)      \
  f32 simt_f32_from_##T(T a);   \
  f64 simt_f64_from_##T(T a);   \
  T simt_##T##_from_f32(f32 a); \
  T simt_##T##_from_f64(f64 a);
SIMT_CONVERTIBLE(SIMT_CONVERSION)
#undef SIMT_CONVERSION

#define SIMT_FLOATS(with) with(f32) with(f64)
#define SIMT_FLOAT(T)               \
  T simt_fabs_##T(T a);             \
  T simt_sqrt_##T(T a);             \
  T simt_nearbyint_##T(T a);        \
  T simt_trunc_##T(T a);            \
  T simt_floor_##T(T a);            \
  T simt_ceil_##T(T a);             \
  T simt_negate_##T(T a);           \
  T simt_flush_##T(T a);            \
  T simt_saturate_##T(T a);         \
  T simt_rsqrt_approx_##T(T a);     \
  T simt_copysign_##T(T a, T sign); \
  T simt_minimum_##T(T a, T b);     \
  T simt_maximum_##T(T a, T b);     \
  T simt_nan_minimum_##T(T a, T b); \
  T simt_nan_maximum_##T(T a, T b); \
  T simt_fma_##T(T a, T b, T c);
SIMT_FLOATS(SIMT_FLOAT)
#undef SIMT_FLOAT

f32 simt_fma_toward_zero(f32 a, f32 b, f32 c);
f32 simt_fma_toward_minus_infinity(f32 a, f32 b, f32 c);
f32 simt_fma_toward_plus_infinity(f32 a, f32 b, f32 c);
f32 simt_exp2_approx_f32(f32 a);
f32 simt_log2_approx_f32(f32 a);
f32 simt_sin_approx_f32(f32 a);
f32 simt_cos_approx_f32(f32 a);
f32 simt_tanh_approx_f32(f32 a);
f64 simt_rcp_upper_half(f64 a);
f32 simt_float_of_half(u16 bits);
u16 simt_half_of_float(f32 a);
u16 simt_bfloat16_of_float(f32 a);
u32 simt_permute(u32 a, u32 b, u32 selector);
u32 simt_funnel_left(u32 low, u32 high, u32 by);
u32 simt_funnel_right(u32 low, u32 high, u32 by);
u32 simt_lookup_bits(u32 a, u32 b, u32 c, u32 table);

#ifdef __cplusplus
}  // extern "C"
}  // namespace giro::simt
#else

typedef ThreadView Thread;

// Called on each backward jump.
#define simt_tick(t, site) \
  if (--(t)->ticks == 0) simt_out_of_ticks(t, site)

// With an optimizing compiler, what most lines do is inlined.
#ifdef __TINYC__
#define SIMT_INLINE static inline
#else
#define SIMT_INLINE static inline __attribute__((always_inline))
#endif

SIMT_INLINE f32 simt_f32_of_bits(u32 bits) {
  return ((union {
           u32 bits;
           f32 value;
         }){bits})
      .value;
}
SIMT_INLINE f64 simt_f64_of_bits(u64 bits) {
  return ((union {
           u64 bits;
           f64 value;
         }){bits})
      .value;
}
SIMT_INLINE u32 simt_bits_of_f32(f32 value) {
  return ((union {
           f32 value;
           u32 bits;
         }){value})
      .bits;
}
SIMT_INLINE u64 simt_bits_of_f64(f64 value) {
  return ((union {
           f64 value;
           u64 bits;
         }){value})
      .bits;
}

#ifdef __TINYC__  // which inlines no function
#define SIMT_COPY(T)
#define SIMT_READ(T, from) (*(const T*)(from))
#define SIMT_WRITE(T, to, value) (*(T*)(to) = (value))
#else
#define SIMT_COPY(T)                              \
  SIMT_INLINE T simt_read_##T(const char* from) { \
    T value;                                      \
    __builtin_memcpy(&value, from, sizeof value); \
    return value;                                 \
  }                                               \
  SIMT_INLINE void simt_write_##T(char* to, T value) { __builtin_memcpy(to, &value, sizeof value); }
#define SIMT_READ(T, from) simt_read_##T(from)
#define SIMT_WRITE(T, to, value) simt_write_##T(to, value)
#endif
SIMT_CONVERTIBLE(SIMT_COPY)
SIMT_FLOATS(SIMT_COPY)

#define SIMT_ORDER(T)                                            \
  SIMT_INLINE T simt_min_##T(T a, T b) { return b < a ? b : a; } \
  SIMT_INLINE T simt_max_##T(T a, T b) { return a < b ? b : a; }
SIMT_INTEGERS(SIMT_ORDER)

#define SIMT_SHIFT_LEFT(T) \
  SIMT_INLINE T simt_shift_left_##T(T a, u32 by) { return by >= 8 * sizeof(T) ? 0 : (T)(a << by); }
SIMT_SHIFT_LEFT(u16)
SIMT_SHIFT_LEFT(u32)
SIMT_SHIFT_LEFT(u64)
#define SIMT_SHIFT_RIGHT(T, U)                                                                       \
  SIMT_INLINE U simt_shift_right_##U(U a, u32 by) { return by >= 8 * sizeof(U) ? 0 : (U)(a >> by); } \
  SIMT_INLINE T simt_shift_right_##T(T a, u32 by) { return (T)(a >> (by >= 8 * sizeof(T) ? 8 * sizeof(T) - 1 : by)); }
SIMT_SHIFT_RIGHT(s16, u16) SIMT_SHIFT_RIGHT(s32, u32) SIMT_SHIFT_RIGHT(s64, u64)

#endif
