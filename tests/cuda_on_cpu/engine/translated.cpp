#include "tests/cuda_on_cpu/engine/translated.h"

#include <bit>
#include <cstring>
#include <optional>

#include "tests/cuda_on_cpu/engine/block.h"
#include "tests/cuda_on_cpu/engine/ptx_ops.h"
#include "tests/cuda_on_cpu/engine/thread.h"

namespace giro::simt {
namespace {

// No exception can pass through C.
template <class F>
auto guarded(ThreadView* view, F call) {
  auto& thread = static_cast<Thread&>(*view);
  try {
    return call(thread);
  } catch (const Stop& stop) {
    thread.block->fail(stop);
  }
  thread.leave();
}

}  // namespace

extern "C" {

#define GIRO_SIMT_ACCESS(space)                                                                 \
  char* simt_##space(ThreadView* view, u64 address, u64 bytes, int kind, u32 site, int sense) { \
    return guarded(view, [&](Thread& t) {                                                       \
      return t.space(address, bytes, static_cast<Kind>(kind), site, static_cast<Sense>(sense)); \
    });                                                                                         \
  }
GIRO_SIMT_ACCESS(global)
GIRO_SIMT_ACCESS(shared)
GIRO_SIMT_ACCESS(generic)
#undef GIRO_SIMT_ACCESS

char* simt_local(ThreadView* view, u64 address, u64 bytes, int kind, u32 site, int) {
  return guarded(view, [&](Thread& t) { return t.local(address, bytes, static_cast<Kind>(kind), site); });
}

const char* simt_parameter(ThreadView* view, u64 address, u64 bytes, u32 site) {
  return guarded(view, [&](Thread& t) { return t.parameter(address, bytes, site); });
}

u64 simt_generic_of_shared(ThreadView* view, u64 address) {
  return static_cast<Thread*>(view)->generic_of_shared(address);
}

u64 simt_shared_of_generic(ThreadView* view, u64 address) {
  return static_cast<Thread*>(view)->shared_of_generic(address);
}

bool simt_is_shared(ThreadView* view, u64 address) { return static_cast<Thread*>(view)->is_shared(address); }

void simt_begin_array(ThreadView* view, LocalArray* array, char* begin, u64 bytes) {
  *array = {view->locals, std::bit_cast<u64>(begin), bytes};
  std::memset(begin, 0xff, bytes);
  view->locals = array;
}

#define GIRO_SIMT_CALL(Result, name, parameters, arguments)                      \
  Result simt_##name parameters {                                                \
    return guarded(view, [&](Thread& t) -> Result { return t.name arguments; }); \
  }
GIRO_SIMT_CALL(void, block_barrier, (ThreadView * view, u32 site), (site))
GIRO_SIMT_CALL(u32, barrier_count, (ThreadView * view, bool vote, u32 site), (vote, site))
GIRO_SIMT_CALL(bool, barrier_and, (ThreadView * view, bool vote, u32 site), (vote, site))
GIRO_SIMT_CALL(bool, barrier_or, (ThreadView * view, bool vote, u32 site), (vote, site))
GIRO_SIMT_CALL(void, warp_sync, (ThreadView * view, u32 mask, u32 site), (mask, site))
GIRO_SIMT_CALL(u32, shuffle,
               (ThreadView * view, int mode, u32 value, u32 lane_operand, u32 clamp, u32 mask, bool* in_range,
                u32 site),
               (static_cast<Shuffle>(mode), value, lane_operand, clamp, mask, *in_range, site))
GIRO_SIMT_CALL(u32, ballot, (ThreadView * view, bool vote, u32 mask, u32 site), (vote, mask, site))
GIRO_SIMT_CALL(bool, vote_all, (ThreadView * view, bool vote, u32 mask, u32 site), (vote, mask, site))
GIRO_SIMT_CALL(bool, vote_any, (ThreadView * view, bool vote, u32 mask, u32 site), (vote, mask, site))
GIRO_SIMT_CALL(bool, vote_uniform, (ThreadView * view, bool vote, u32 mask, u32 site), (vote, mask, site))
GIRO_SIMT_CALL(u32, reduce, (ThreadView * view, int op, u32 value, u32 mask, u32 site),
               (static_cast<WarpOp>(op), value, mask, site))
GIRO_SIMT_CALL(u32, match_any, (ThreadView * view, u64 value, u32 mask, u32 site), (value, mask, site))
GIRO_SIMT_CALL(u32, match_all, (ThreadView * view, u64 value, u32 mask, bool* all, u32 site), (value, mask, *all, site))
GIRO_SIMT_CALL(void, multiply, (ThreadView * view, int op, MatrixPart* part, u32 site),
               (static_cast<WarpOp>(op), *part, site))
GIRO_SIMT_CALL(void, fence, (ThreadView * view, bool for_block_only, bool sequential), (for_block_only, sequential))
GIRO_SIMT_CALL(void, set_conditional, (ThreadView * view, u64 handle, u32 value, u32 site), (handle, value, site))
GIRO_SIMT_CALL(void, trap, (ThreadView * view, u32 site), (site))
GIRO_SIMT_CALL(void, yield, (ThreadView * view), ())
GIRO_SIMT_CALL(void, out_of_ticks, (ThreadView * view, u32 site), (site))
#undef GIRO_SIMT_CALL

#define GIRO_SIMT_INTEGER(T)                                                                                      \
  T simt_divide_##T(T a, T b) { return ptx::divide<T>(a, b); }                                                    \
  T simt_remainder_##T(T a, T b) { return ptx::remainder<T>(a, b); }                                              \
  T simt_multiply_high_##T(T a, T b) { return ptx::multiply_high<T>(a, b); }                                      \
  T simt_insert_bits_##T(T a, T into, u32 at, u32 count) { return ptx::insert_bits<T>(a, into, at, count); }      \
  T simt_extract_bits_##T(T a, u32 at, u32 count) { return ptx::extract_bits<T>(a, at, count); }                  \
  u32 simt_popcount_##T(T a) { return static_cast<u32>(std::popcount(static_cast<std::make_unsigned_t<T>>(a))); } \
  u32 simt_countl_zero_##T(T a) {                                                                                 \
    return static_cast<u32>(std::countl_zero(static_cast<std::make_unsigned_t<T>>(a)));                           \
  }                                                                                                               \
  T simt_reverse_bits_##T(T a) { return ptx::reverse_bits<T>(a); }                                                \
  u32 simt_find_highest_##T(T a) { return ptx::find_highest<T>(a); }                                              \
  u32 simt_shift_to_highest_##T(T a) { return ptx::shift_to_highest<T>(a); }                                      \
  T simt_increment_##T(T old, T limit) { return ptx::increment<T>(old, limit); }                                  \
  T simt_decrement_##T(T old, T limit) { return ptx::decrement<T>(old, limit); }
SIMT_INTEGERS(GIRO_SIMT_INTEGER)
#undef GIRO_SIMT_INTEGER

#define GIRO_SIMT_CONVERSION(T)                                  \
  f32 simt_f32_from_##T(T a) { return static_cast<f32>(a); }     \
  f64 simt_f64_from_##T(T a) { return static_cast<f64>(a); }     \
  T simt_##T##_from_f32(f32 a) { return ptx::to_integer<T>(a); } \
  T simt_##T##_from_f64(f64 a) { return ptx::to_integer<T>(a); }
SIMT_CONVERTIBLE(GIRO_SIMT_CONVERSION)
#undef GIRO_SIMT_CONVERSION

#define GIRO_SIMT_FLOAT(T)                                            \
  T simt_fabs_##T(T a) { return ptx::fabs(a); }                       \
  T simt_sqrt_##T(T a) { return ptx::sqrt(a); }                       \
  T simt_nearbyint_##T(T a) { return ptx::nearbyint(a); }             \
  T simt_trunc_##T(T a) { return ptx::trunc(a); }                     \
  T simt_floor_##T(T a) { return ptx::floor(a); }                     \
  T simt_ceil_##T(T a) { return ptx::ceil(a); }                       \
  T simt_negate_##T(T a) { return -a; }                               \
  T simt_flush_##T(T a) { return ptx::flush(a); }                     \
  T simt_saturate_##T(T a) { return ptx::saturate(a); }               \
  T simt_rsqrt_approx_##T(T a) { return ptx::rsqrt_approx(a); }       \
  T simt_copysign_##T(T a, T sign) { return ptx::copysign(a, sign); } \
  T simt_minimum_##T(T a, T b) { return ptx::minimum(a, b); }         \
  T simt_maximum_##T(T a, T b) { return ptx::maximum(a, b); }         \
  T simt_nan_minimum_##T(T a, T b) { return ptx::nan_minimum(a, b); } \
  T simt_nan_maximum_##T(T a, T b) { return ptx::nan_maximum(a, b); } \
  T simt_fma_##T(T a, T b, T c) { return ptx::fma(a, b, c); }
SIMT_FLOATS(GIRO_SIMT_FLOAT)
#undef GIRO_SIMT_FLOAT

f32 simt_fma_toward_zero(f32 a, f32 b, f32 c) { return ptx::fma_rounded<ptx::Toward::zero>(a, b, c); }
f32 simt_fma_toward_minus_infinity(f32 a, f32 b, f32 c) {
  return ptx::fma_rounded<ptx::Toward::minus_infinity>(a, b, c);
}
f32 simt_fma_toward_plus_infinity(f32 a, f32 b, f32 c) { return ptx::fma_rounded<ptx::Toward::plus_infinity>(a, b, c); }
f32 simt_exp2_approx_f32(f32 a) { return ptx::exp2_approx(a); }
f32 simt_log2_approx_f32(f32 a) { return ptx::log2_approx(a); }
f32 simt_sin_approx_f32(f32 a) { return ptx::sin_approx(a); }
f32 simt_cos_approx_f32(f32 a) { return ptx::cos_approx(a); }
f32 simt_tanh_approx_f32(f32 a) { return ptx::tanh_approx(a); }
f64 simt_rcp_upper_half(f64 a) { return ptx::rcp_upper_half(a); }
f32 simt_float_of_half(u16 bits) { return ptx::float_of_half(bits); }
u16 simt_half_of_float(f32 a) { return ptx::half_of_float(a); }
u16 simt_bfloat16_of_float(f32 a) { return ptx::bfloat16_of_float(a); }
u32 simt_permute(u32 a, u32 b, u32 selector) { return ptx::permute(a, b, selector); }
u32 simt_funnel_left(u32 low, u32 high, u32 by) { return ptx::funnel_left(low, high, by); }
u32 simt_funnel_right(u32 low, u32 high, u32 by) { return ptx::funnel_right(low, high, by); }
u32 simt_lookup_bits(u32 a, u32 b, u32 c, u32 table) { return ptx::lookup_bits(a, b, c, table); }

}  // extern "C"
}  // namespace giro::simt
