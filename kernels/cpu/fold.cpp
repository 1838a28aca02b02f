#include "kernels/cpu/fold.h"

#include <bit>
#include <limits>
#include <type_traits>

#include "kernels/expr/arithmetic.h"

namespace giro::cpu {
namespace {

using expr::Combiner;
using expr::Compiled;

// Sums and products.
template <class T, class L, bool kIsProduct>
struct OfNumbers {
  using Element = T;
  using Lane = L;
  static constexpr bool kIsOrdered = std::is_floating_point_v<T>;
  static constexpr Lane kIdentity = kIsProduct ? 1 : 0;
  GIRO_LOOP_INLINE static Lane of(T x) { return static_cast<Lane>(x); }
  template <class N>
  GIRO_LOOP_INLINE static N combine(N a, N b) {
    if constexpr (kIsProduct) return expr::math::times(a, b);
    return expr::math::plus(a, b);
  }
  GIRO_LOOP_INLINE static T result(const Total& total) {
    if constexpr (std::is_floating_point_v<T>) return static_cast<T>(total.number);
    return static_cast<T>(total.integer);
  }
};

template <class T>
using Sum = OfNumbers<T, T, false>;

// Lanes are double: a partial product may leave f32's range even if the whole does not.
template <class T>
using Product = OfNumbers<T, std::conditional_t<std::is_floating_point_v<T>, double, T>, true>;

// Of f32 in double, which has room for each square, so that it is exact.
struct SumOfSquares : Sum<double> {
  using Element = float;
  GIRO_LOOP_INLINE static Lane of(float x) { return static_cast<double>(x) * static_cast<double>(x); }
};

// max and min, in any order, as the largest integer key. Keys sort like the numbers, -0 before 0, NaN last.
template <class T, bool kIsMin>
struct Extreme {
  using Element = T;
  using Lane = std::conditional_t<std::is_same_v<T, float>, std::int32_t, std::int64_t>;
  static constexpr bool kIsOrdered = false;
  static constexpr Lane kNan = std::numeric_limits<Lane>::max();
  // An involution.
  GIRO_LOOP_INLINE static constexpr Lane ordered(Lane bits) {
    return std::is_floating_point_v<T> && bits < 0 ? bits ^ std::numeric_limits<Lane>::max() : bits;
  }
  GIRO_LOOP_INLINE static constexpr Lane of(T x) {
    if constexpr (std::is_floating_point_v<T>) {
      const Lane key = ordered(std::bit_cast<Lane>(x));
      return x != x ? kNan : kIsMin ? ~key : key;
    } else {
      return kIsMin ? ~x : x;
    }
  }
  GIRO_LOOP_INLINE static T result(const Total& total) {
    const auto key = static_cast<Lane>(total.integer);
    if constexpr (std::is_floating_point_v<T>) {
      if (key == kNan) return std::numeric_limits<T>::quiet_NaN();
      return std::bit_cast<T>(ordered(kIsMin ? ~key : key));
    } else {
      return kIsMin ? ~key : key;
    }
  }
  static constexpr T kInfinity = std::numeric_limits<T>::infinity();
  static constexpr Lane kIdentity =
      std::is_floating_point_v<T> ? of(kIsMin ? kInfinity : -kInfinity) : std::numeric_limits<Lane>::min();
  template <class N>
  GIRO_LOOP_INLINE static N combine(N a, N b) {
    return a > b ? a : b;
  }
};

// Combines kUsed lanes, in pairs.
template <class R, std::int64_t kUsed>
GIRO_LOOP_INLINE typename R::Lane paired(typename R::Lane* lanes) {
  if constexpr (kUsed == 1) {
    return lanes[0];
  } else {
#pragma omp simd
    for (std::int64_t l = 0; l < kUsed / 2; ++l) lanes[l] = R::combine(lanes[l], lanes[l + kUsed / 2]);
    return paired<R, kUsed / 2>(lanes);
  }
}

// Folds a piece of a row, in lanes.
template <class R>
GIRO_LOOP_INLINE typename R::Lane folded(const typename R::Element* x, std::int64_t n) {
  typename R::Lane lanes[kLanes];
  // A short row skips the lanes that it cannot fill.
  const std::int64_t used =
      n >= kLanes ? kLanes : static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(n)));
  for (std::int64_t l = 0; l < used; ++l) lanes[l] = R::kIdentity;
  std::int64_t e = 0;
  for (; e + kLanes <= n; e += kLanes) {
#pragma omp simd
    for (std::int64_t l = 0; l < kLanes; ++l) lanes[l] = R::combine(lanes[l], R::of(x[e + l]));
  }
  for (std::int64_t l = 0; l < n - e; ++l) lanes[l] = R::combine(lanes[l], R::of(x[e + l]));
  if (used == kLanes) return paired<R, kLanes>(lanes);
  for (std::int64_t half = used / 2; half > 0; half /= 2) {
    for (std::int64_t l = 0; l < half; ++l) lanes[l] = R::combine(lanes[l], lanes[l + half]);
  }
  return lanes[0];
}

template <class Lane>
GIRO_LOOP_INLINE Total total_of(Lane lane) {
  if constexpr (std::is_floating_point_v<Lane>) return {static_cast<double>(lane), 0, 0};
  return {0, static_cast<std::int64_t>(lane), 0};
}

template <class R>
GIRO_LOOP_INLINE void merge_total(const Total& from, Total& into) {
  if constexpr (std::is_floating_point_v<typename R::Lane>) {
    into.number = R::combine(into.number, from.number);
  } else {
    into.integer = R::combine(into.integer, from.integer);
  }
}

template <class R>
struct Rows {
  GIRO_LOOP_INLINE static void run(const void* tile, std::int64_t rows, std::int64_t length, std::int64_t,
                                   Total* totals) {
    const auto* const x = static_cast<const typename R::Element*>(tile);
    for (std::int64_t r = 0; r < rows; ++r) merge_total<R>(total_of(folded<R>(x + r * length, length)), totals[r]);
  }
};

template <class R>
struct Open {
  GIRO_LOOP_INLINE static void run(void* lanes, std::int64_t n, std::int64_t used) {
    auto* const lane = static_cast<typename R::Lane*>(lanes);
    for (std::int64_t i = 0; i < n * used; ++i) lane[i] = R::kIdentity;
  }
};

template <class R>
struct Add {
  GIRO_LOOP_INLINE static void run(const void* tile, void* lanes, std::int64_t n, std::int64_t e) {
    const auto* const x = static_cast<const typename R::Element*>(tile);
    auto* const lane = static_cast<typename R::Lane*>(lanes) + (R::kIsOrdered ? e % kLanes * n : 0);
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) lane[i] = R::combine(lane[i], R::of(x[i]));
  }
};

template <class R>
struct Close {
  GIRO_LOOP_INLINE static void run(void* lanes, std::int64_t n, std::int64_t used, Total* totals) {
    auto* const lane = static_cast<typename R::Lane*>(lanes);
    for (std::int64_t half = used / 2; half > 0; half /= 2) {
#pragma omp simd
      for (std::int64_t i = 0; i < half * n; ++i) lane[i] = R::combine(lane[i], lane[i + half * n]);
    }
    for (std::int64_t i = 0; i < n; ++i) merge_total<R>(total_of(lane[i]), totals[i]);
  }
};

template <class R>
void merge(const Total* from, Total* into, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) merge_total<R>(from[i], into[i]);
}

template <class R>
void finish(const Total* totals, void* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) static_cast<decltype(R::result({}))*>(out)[i] = R::result(totals[i]);
}

template <class R>
Fold fold_with() {
  return {dtype_of<typename R::Element>,
          dtype_of<decltype(R::result({}))>,
          total_of(R::kIdentity),
          sizeof(typename R::Lane),
          R::kIsOrdered ? kLanes : 1,
          Compiled<Rows<R>>::all.get(),
          Compiled<Open<R>>::all.get(),
          Compiled<Add<R>>::all.get(),
          Compiled<Close<R>>::all.get(),
          &merge<R>,
          &finish<R>};
}

// The index of the first of the largest keys.
template <class T, bool kIsMin>
struct ArgExtreme {
  using Key = Extreme<T, kIsMin>;
  static std::int64_t of(T x) {
    return static_cast<std::int64_t>(Key::of(x == T(0) ? T(0) : x));
  }  // -0 has the key of 0

  static void rows(const void* tile, std::int64_t rows, std::int64_t length, std::int64_t first, Total* totals) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* const x = static_cast<const T*>(tile) + r * length;
      std::int64_t best = std::numeric_limits<std::int64_t>::min();
      for (std::int64_t e = 0; e < length; ++e) best = of(x[e]) > best ? of(x[e]) : best;
      std::int64_t e = 0;
      while (e + 1 < length && of(x[e]) != best) ++e;
      if (length > 0) merge_one({0, best, first + e}, totals[r]);
    }
  }
  static void open(void* lanes, std::int64_t n, std::int64_t) {
    for (std::int64_t i = 0; i < n; ++i) static_cast<Total*>(lanes)[i] = identity();
  }
  static void add(const void* tile, void* lanes, std::int64_t n, std::int64_t e) {
    for (std::int64_t i = 0; i < n; ++i) {
      merge_one({0, of(static_cast<const T*>(tile)[i]), e}, static_cast<Total*>(lanes)[i]);
    }
  }
  static void close(void* lanes, std::int64_t n, std::int64_t, Total* totals) {
    merge(static_cast<const Total*>(lanes), totals, n);
  }
  static Total identity() { return {0, std::numeric_limits<std::int64_t>::min(), -1}; }
  static void merge_one(const Total& from, Total& into) {
    if (into.place < 0 || from.integer > into.integer) into = from;
  }
  static void merge(const Total* from, Total* into, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
      if (from[i].place >= 0) merge_one(from[i], into[i]);
    }
  }
  static void finish(const Total* totals, void* out, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) static_cast<std::int64_t*>(out)[i] = totals[i].place;
  }
  static Fold fold() {
    return {dtype_of<T>, DType::i64, identity(), sizeof(Total), 1, &rows, &open, &add, &close, &merge, &finish};
  }
};

template <class T>
Fold fold_over(Combiner combiner) {
  switch (combiner) {
    case Combiner::sum:
      return fold_with<Sum<T>>();
    case Combiner::product:
      return fold_with<Product<T>>();
    case Combiner::max:
      return fold_with<Extreme<T, false>>();
    case Combiner::min:
      return fold_with<Extreme<T, true>>();
    case Combiner::argmax:
      return ArgExtreme<T, false>::fold();
    case Combiner::argmin:
      return ArgExtreme<T, true>::fold();
    case Combiner::any:
    case Combiner::all:
      break;
  }
  // Values are 0 and 1. With these identities, any of no elements is 0 and all of no elements is 1.
  const bool is_any = combiner == Combiner::any;
  Fold fold = fold_over<T>(is_any ? Combiner::max : Combiner::min);
  fold.identity.integer = is_any ? Extreme<std::int64_t, false>::of(0) : Extreme<std::int64_t, true>::of(1);
  return fold;
}

}  // namespace

Fold fold_of_squares() { return fold_with<SumOfSquares>(); }

Fold fold_of(Combiner combiner, DType computed) {
  if (computed == DType::f32) return fold_over<float>(combiner);
  if (computed == DType::f64) return fold_over<double>(combiner);
  return fold_over<std::int64_t>(combiner);
}

}  // namespace giro::cpu
