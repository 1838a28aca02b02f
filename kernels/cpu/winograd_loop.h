// Without an include guard: winograd.cpp includes it once for each instruction set (instruction_set_loops.h). The
// transforms of F(2 x 2, 3 x 3), on squares whose elements are rows of channels.

#include "kernels/cpu/vector_loop.h"

constexpr std::int64_t kWidth = 2 * kLanes;

// Each transforms a line of elements, `step` apart, to a line of elements, `to_step` apart.
GIRO_INLINE void input_line(V* to, int to_step, const V* from, int step) {
  const V a = from[0], b = from[step], c = from[2 * step], d = from[3 * step];
  to[0] = a - c, to[to_step] = b + c, to[2 * to_step] = c - b, to[3 * to_step] = b - d;
}
GIRO_INLINE void output_line(V* to, int to_step, const V* from, int step) {
  const V a = from[0], b = from[step], c = from[2 * step], d = from[3 * step];
  to[0] = a + b + c, to[to_step] = b - c - d;
}
GIRO_INLINE void filter_line(V* to, int to_step, const V* from, int step) {
  const V a = from[0], b = from[step], c = from[2 * step], ends = a + c;
  to[0] = a, to[to_step] = 0.5f * (ends + b), to[2 * to_step] = 0.5f * (ends - b), to[3 * to_step] = c;
}
// The gradient with respect to output_line's input.
GIRO_INLINE void output_gradient_line(V* to, int to_step, const V* from, int step) {
  const V a = from[0], b = from[step];
  to[0] = a, to[to_step] = a + b, to[2 * to_step] = a - b, to[3 * to_step] = -b;
}
// The gradient with respect to filter_line's input, given the gradient of its output.
GIRO_INLINE void filter_gradient_line(V* to, int to_step, const V* from, int step) {
  const V a = from[0], b = from[step], c = from[2 * step], d = from[3 * step], half = 0.5f * (b + c);
  to[0] = a + half, to[to_step] = 0.5f * (b - c), to[2 * to_step] = half + d;
}

// A square: its rows, or first its columns, and then the other lines.
template <int kFrom, int kTo, bool kRowsFirst, auto kLine>
GIRO_INLINE void transform(V (&to)[kTo * kTo], const V (&from)[kFrom * kFrom]) {
  V lines[kFrom * kTo];
#pragma GCC unroll 4
  for (int i = 0; i < kFrom; ++i) {
    kRowsFirst ? kLine(lines + i * kTo, 1, from + i * kFrom, 1) : kLine(lines + i, kFrom, from + i, kFrom);
  }
#pragma GCC unroll 4
  for (int i = 0; i < kTo; ++i) {
    kRowsFirst ? kLine(to + i, kTo, lines + i, kTo) : kLine(to + i * kTo, 1, lines + i * kFrom, 1);
  }
}

template <int kFrom, int kTo, bool kRowsFirst, auto kLine>
GIRO_TARGET void to_planes(float* to, std::int64_t plane, std::int64_t panel, const float* const* pixels,
                           std::int64_t channels) {
  for (std::int64_t c = 0; c < channels; c += kLanes) {
    V x[kFrom * kFrom], y[kTo * kTo];
#pragma GCC unroll 16
    for (int i = 0; i < kFrom * kFrom; ++i) x[i] = load(pixels[i] + c);
    transform<kFrom, kTo, kRowsFirst, kLine>(y, x);
    float* const out = to + c / kWidth * panel + c % kWidth;
#pragma GCC unroll 16
    for (int i = 0; i < kTo * kTo; ++i) store(out + i * plane, y[i]);
  }
}

template <int kFrom, int kTo, bool kRowsFirst, auto kLine, bool kHasBias>
GIRO_TARGET void from_planes(float* const* pixels, const float* from, std::int64_t plane, const float* bias,
                             std::int64_t channels) {
  for (std::int64_t c = 0; c < channels; c += kLanes) {
    V x[kFrom * kFrom], y[kTo * kTo];
#pragma GCC unroll 16
    for (int i = 0; i < kFrom * kFrom; ++i) x[i] = load(from + i * plane + c);
    transform<kFrom, kTo, kRowsFirst, kLine>(y, x);
    const V b = bias != nullptr ? load(bias + c) : V{};
#pragma GCC unroll 9
    for (int i = 0; i < kTo * kTo; ++i) store(pixels[i] + c, kHasBias ? y[i] + b : y[i]);
  }
}

constexpr Transforms kTransforms{&to_planes<4, 4, true, &input_line>, &to_planes<3, 4, false, &filter_line>,
                                 &to_planes<2, 4, false, &output_gradient_line>,
                                 &from_planes<4, 2, true, &output_line, true>,
                                 &from_planes<4, 3, true, &filter_gradient_line, false>};
#undef GIRO_INLINE
