// e^x and tanh x as functions marked GIRO_FORMULA. No include guard: math.h includes this for one float, chain_loop.h
// for several vectors of floats at once. In addition to operators, F has fma (with a single rounding on every machine),
// at_most, at_least, abs, times_two_to, half_of_four_to and with_sign_of.

constexpr float kRounds = 12582912.0f;  // 1.5 * 2^23: adding it leaves no bits for a fraction

// x = n ln 2 + r, and e^r = 1 + r + r r p within 3.1e-9 of it.
template <class F>
struct ExpParts {
  F shifted, n, r, p;  // shifted: 1.5 * 2^23 + 254 + n
};
template <class F>
GIRO_FORMULA ExpParts<F> exp_parts(F x) {
  constexpr float kShift = kRounds + 254.0f;
  const F shifted = fma(x, 1.44269504f, kShift);
  const F n = shifted - kShift;
  const F r = fma(n, 1.90465421e-9f, fma(n, -0.693147182f, x));
  F p = fma(r, 1.38145986e-3f, 8.36871688e-3f);
  p = fma(p, r, 4.16683880e-2f);
  p = fma(p, r, 1.66665206e-1f);
  p = fma(p, r, 4.99999934e-1f);
  return {shifted, n, r, p};
}

template <class F>
GIRO_FORMULA F exp(F x) {
  const ExpParts<F> e = exp_parts(at_least(at_most(x, kExpLimits.most), kExpLimits.least));
  return times_two_to(fma(fma(e.p, e.r, 1.0f), e.r, 1.0f), e.shifted);
}

// |x| = n ln 2 + r, n = 0 up to 0.637, t = tanh r and f = 4^n / 2. The result for |x| is t if n is 0, else 1 - (1 - t)
// / ((f + 1/2) + (f - 1/2) t).
template <class F>
GIRO_FORMULA F tanh(F x) {
  constexpr float kShift = kRounds + 63.0f;
  const F a = at_most(abs(x), kTanhLimits.most);
  const F shifted = fma(a, 1.44269504f, -0.42f) + kShift;
  const F n = shifted - kShift;
  const F r = fma(n, -0.693147182f, a);
  const F z = r * r;
  F p = fma(z, -5.59101637e-3f, 2.05388203e-2f);
  p = fma(p, z, -5.37096576e-2f);
  p = fma(p, z, 1.33310923e-1f);
  p = fma(p, z, -3.33332695e-1f);
  const F t = fma(p * z, r, r);
  const F f = half_of_four_to(shifted), c = at_most(n, kTanhLimits.one);
  return with_sign_of(c + (t - c) / fma(f - 0.5f, t, f + 0.5f), x);
}
