#include "kernels/cuda/expression_prelude.h"

namespace giro::cuda {

std::string_view reduction_prelude() {
  return R"cuda(#ifndef GIRO_REDUCTION_PRELUDE
#define GIRO_REDUCTION_PRELUDE
namespace giro {
// A Part is what up to 1024 elements come to, a Whole what more do. Both are of a multiple of 4 bytes.
template <class T> struct Wide { typedef T part; typedef T whole; };
template <> struct Wide<f32> { typedef f32 part; typedef f64 whole; };
template <> struct Wide<u8> { typedef i32 part; typedef i32 whole; };
template <> struct Wide<bool> { typedef i32 part; typedef i32 whole; };

template <class T>
struct Sum {
  typedef typename Wide<T>::part Part;
  typedef typename Wide<T>::whole Whole;
  static __device__ inline Part none() { return Part(0); }
  static __device__ inline Part take(Part p, T x, i64) { return plus(p, Part(x)); }
  template <class P> static __device__ inline P join(P a, P b) { return plus(a, b); }
};
template <class T>
struct Product : Sum<T> {
  typedef typename Wide<T>::whole Part;  // of f32 in double, whose range it does not leave on the way
  static __device__ inline Part none() { return Part(1); }
  static __device__ inline Part take(Part p, T x, i64) { return times(p, Part(x)); }
  template <class P> static __device__ inline P join(P a, P b) { return times(a, b); }
};

template <class T> struct Least;
template <> struct Least<f32> { static __device__ inline f32 of() { return -__int_as_float(0x7f800000); } };
template <> struct Least<f64> {
  static __device__ inline f64 of() { return -__longlong_as_double(0x7ff0000000000000ll); }
};
template <> struct Least<i32> { static __device__ inline i32 of() { return -2147483647 - 1; } };
template <> struct Least<i64> { static __device__ inline i64 of() { return -9223372036854775807ll - 1; } };
template <> struct Least<u8> { static __device__ inline i32 of() { return 0; } };
template <> struct Least<bool> { static __device__ inline i32 of() { return 0; } };
template <class T> struct Most { static __device__ inline T of() { return -Least<T>::of(); } };
template <> struct Most<i32> { static __device__ inline i32 of() { return 2147483647; } };
template <> struct Most<i64> { static __device__ inline i64 of() { return 9223372036854775807ll; } };
template <> struct Most<u8> { static __device__ inline i32 of() { return 255; } };
template <> struct Most<bool> { static __device__ inline i32 of() { return 1; } };

template <class T, bool kLargest>
struct Extreme {
  typedef typename Wide<T>::part Part;
  typedef Part Whole;
  static __device__ inline Part none() { return kLargest ? Least<T>::of() : Most<T>::of(); }
  static __device__ inline Part take(Part p, T x, i64) { return join(p, Part(x)); }
  static __device__ inline Part join(Part a, Part b) { return (kLargest ? a > b : a < b) || is_nan(a) ? a : b; }
};

// A NaN is beyond every number; of equals the first counts, and nothing (place -1) is before all of them.
template <class T>
struct Best {
  typename Wide<T>::part value;
  typename Wide<T>::part unused;  // no byte is padding
  i64 place;
};
template <class T, bool kLargest>
struct ArgBest {
  typedef Best<T> Part;
  typedef Best<T> Whole;
  static __device__ inline Part none() { return {0, 0, -1}; }
  static __device__ inline Part take(Part p, T x, i64 place) { return join(p, {x, 0, place}); }
  static __device__ inline Part join(Part a, Part b) {
    // Without branches, so that a thread's loads are under way together.
    const bool beyond = is_nan(b.value) | (kLargest ? b.value > a.value : b.value < a.value);
    return (a.place < 0) | ((b.place >= 0) & !is_nan(a.value) & beyond) ? b : a;
  }
};
template <class R, class T>
__device__ inline R result_of(T x) { return R(x); }
template <class R, class T>
__device__ inline R result_of(Best<T> x) { return x.place < 0 ? R(0) : R(x.place); }

template <class To, class From> struct Widen { static __device__ inline To of(From x) { return To(x); } };
template <class T> struct Widen<T, T> { static __device__ inline T of(T x) { return x; } };

// What a thread has of kCount neighbouring rows.
template <class T, int kCount>
struct Rows {
  T of[kCount];
  Rows() = default;
  template <class From>
  __device__ inline explicit Rows(const Rows<From, kCount>& x) {
#pragma unroll
    for (int e = 0; e < kCount; ++e) of[e] = Widen<T, From>::of(x[e]);
  }
  __device__ inline T& operator[](int e) { return of[e]; }
  __device__ inline const T& operator[](int e) const { return of[e]; }
};
template <class Op, int kCount>
struct OfRows : Op {
  enum { kRows = kCount };
  typedef Rows<typename Op::Part, kCount> Part;
  typedef Rows<typename Op::Whole, kCount> Whole;
  static __device__ inline Part none() {
    Part p;
#pragma unroll
    for (int e = 0; e < kCount; ++e) p[e] = Op::none();
    return p;
  }
  template <class P> static __device__ inline P join(const P& a, const P& b) {
    P p;
#pragma unroll
    for (int e = 0; e < kCount; ++e) p[e] = Op::join(a[e], b[e]);
    return p;
  }
};

template <class T>
__device__ inline T shuffled(T x, int step) {
  union { T whole; u32 word[sizeof(T) / 4]; } from, to;
  from.whole = x;
#pragma unroll
  for (int i = 0; i < int(sizeof(T) / 4); ++i) to.word[i] = __shfl_xor_sync(0xffffffffu, from.word[i], step);
  return to.whole;
}
// With the neighbour's: the lower lane's comes first.
template <class Op, class P>
__device__ inline P joined(P own, int step) {
  const P other = shuffled(own, step);
  return threadIdx.x & step ? Op::join(other, own) : Op::join(own, other);
}

// What a row's kLanes threads have, each of a unit, joined: in all of them. Called by the whole block; `shared` has
// room for a Part of each warp, and is nobody else's until the next __syncthreads().
template <class Op, int kLanes>
__device__ inline typename Op::Whole over_lanes(typename Op::Part p, typename Op::Part* shared) {
  typedef typename Op::Part Part;
  typedef typename Op::Whole Whole;
#pragma unroll
  for (int step = 1; step < (kLanes < 32 ? kLanes : 32); step *= 2) p = joined<Op>(p, step);
  if constexpr (kLanes <= 32) return Widen<Whole, Part>::of(p);
  constexpr int kWarps = kLanes / 32 > 0 ? kLanes / 32 : 1;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (lane == 0) shared[warp] = p;
  __syncthreads();
  p = shared[warp / kWarps * kWarps + lane % kWarps];
#pragma unroll
  for (int step = 1; step < (kWarps < 4 ? kWarps : 4); step *= 2) p = joined<Op>(p, step);
  Whole whole = Widen<Whole, Part>::of(p);
#pragma unroll
  for (int step = 4; step < kWarps; step *= 2) whole = joined<Op>(whole, step);
  return whole;
}

// The same for columns of threads, kColumns beside each other, each thread with what kUnits units of its rows come to;
// called by the whole block, of which further threads have nothing. `shared` has room for a Whole of each that has, and
// serves this one call.
template <class Op, int kColumns, int kHeight, int kUnits, class P>
__device__ inline typename Op::Whole over_columns(const P& own, typename Op::Whole* shared) {
  typedef typename Op::Part Part;
  typedef typename Op::Whole Whole;
  if constexpr (kHeight == 1) return Widen<Whole, P>::of(own);
  auto* const slots = shared->of;  // those of a row number together: threads meet different banks
  const auto put = [slots](const Whole& x) {
#pragma unroll
    for (int e = 0; e < Op::kRows; ++e) slots[e * (kColumns * kHeight) + threadIdx.x] = x[e];
  };
  const auto get = [slots](int thread) {
    Whole x;
#pragma unroll
    for (int e = 0; e < Op::kRows; ++e) x[e] = slots[e * (kColumns * kHeight) + thread];
    return x;
  };
  const bool takes_part = threadIdx.x < kColumns * kHeight;
  if (takes_part) put(Widen<Whole, P>::of(own));
#pragma unroll
  for (int step = 1; step < kHeight; step *= 2) {
    __syncthreads();
    if (!takes_part || threadIdx.x / kColumns % (2 * step) != 0) continue;
    const Whole a = get(threadIdx.x), b = get(threadIdx.x + step * kColumns);
    put(2 * step * kUnits <= 128
            ? Widen<Whole, Part>::of(Op::join(Widen<Part, Whole>::of(a), Widen<Part, Whole>::of(b)))
            : Op::join(a, b));
  }
  __syncthreads();
  return get(threadIdx.x % kColumns);
}

// Joins what comes one after the other, up to 2 to the power of kLevels, in a binary tree.
template <class Op, class P, int kLevels>
struct Tree {
  P held[kLevels + 1];
  __device__ inline void push(int number, P x) {
    bool is_held = false;
#pragma unroll
    for (int level = 0; level <= kLevels; ++level) {
      const bool joins = number >> level & 1;
      if (!is_held) {
        if (joins) {
          x = Op::join(held[level], x);
        } else {
          held[level] = x;
          is_held = true;
        }
      }
    }
  }
  // Of `count` that have come.
  __device__ inline P joined(int count) const {
    P x = Widen<P, typename Op::Part>::of(Op::none());
#pragma unroll
    for (int level = 0; level <= kLevels; ++level)
      if (count >> level & 1) x = Op::join(held[level], x);
    return x;
  }
};
}  // namespace giro
#endif
)cuda";
}

}  // namespace giro::cuda
