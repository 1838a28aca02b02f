// Integers wrap, and an integer divided by zero gives zero. No include guard: arithmetic.h includes this as code for
// the CPU, kernels/cuda/expression_prelude.cpp as text for NVRTC. So it may use only the types u8 to f64, and no
// preprocessor. The abs of floats, maximum and minimum are written for each.
// clang-format off
GIRO_DEVICE_CODE(
// The type in which integers are computed, so that overflow is defined.
template <class T> struct Wrapping { typedef T type; };
template <> struct Wrapping<u8> { typedef u32 type; };
template <> struct Wrapping<i32> { typedef u32 type; };
template <> struct Wrapping<i64> { typedef u64 type; };

template <class T> GIRO_ARITHMETIC T plus(T a, T b) {
  typedef typename Wrapping<T>::type W;
  return T(W(a) + W(b));
}
template <class T> GIRO_ARITHMETIC T minus(T a, T b) {
  typedef typename Wrapping<T>::type W;
  return T(W(a) - W(b));
}
template <class T> GIRO_ARITHMETIC T times(T a, T b) {
  typedef typename Wrapping<T>::type W;
  return T(W(a) * W(b));
}

template <class T> GIRO_ARITHMETIC T negative(T a) { return minus(T(0), a); }
GIRO_ARITHMETIC f32 negative(f32 a) { return -a; }
GIRO_ARITHMETIC f64 negative(f64 a) { return -a; }
template <class T> GIRO_ARITHMETIC T abs(T a) { return a < T(0) ? negative(a) : a; }

// Of integers, rounded toward zero. The first is the one quotient that can overflow.
template <class T> GIRO_ARITHMETIC T quotient(T a, T b) {
  if (T(-1) < T(0) && b == T(-1)) return negative(a);
  return b == T(0) ? T(0) : T(a / b);
}
// Of integers: has the sign of a. For floats, see fmod.
template <class T> GIRO_ARITHMETIC T remainder(T a, T b) {
  if (T(-1) < T(0) && b == T(-1)) return T(0);
  return b == T(0) ? T(0) : T(a % b);
}

// 1, 0 or -1; zeros and NaN are returned unchanged.
template <class T> GIRO_ARITHMETIC T sign(T a) { return a > T(0) ? T(1) : a < T(0) ? T(-1) : a; }
)
