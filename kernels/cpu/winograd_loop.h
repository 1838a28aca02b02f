// Without an include guard: winograd.cpp includes it once for each instruction set (instruction_set_loops.h). The
// transforms of F(2 x 2, 3 x 3), on squares whose elements are rows of channels. If a result is in panels, `panel` is
// the distance between them; if it is kWidth, the channels are contiguous.

#include "kernels/cpu/vector_loop.h"

constexpr std::int64_t kWidth = 2 * kLanes;

GIRO_INLINE float* in_panel(float* to, std::int64_t c, std::int64_t panel) {
  return to + c / kWidth * panel + c % kWidth;
}

GIRO_INLINE void transform_inputs(V& a, V& b, V& c, V& d) {
  const V first = a - c, second = b + c, third = c - b, fourth = b - d;
  a = first, b = second, c = third, d = fourth;
}
GIRO_TARGET inline void transform_input(float* to, std::int64_t plane, std::int64_t panel, const float* const* pixels,
                                        std::int64_t channels) {
  for (std::int64_t c = 0; c < channels; c += kLanes) {
    V x[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) x[i] = load(pixels[i] + c);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) transform_inputs(x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3]);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) transform_inputs(x[i], x[i + 4], x[i + 8], x[i + 12]);
    float* const out = in_panel(to, c, panel);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) store(out + i * plane, x[i]);
  }
}

GIRO_INLINE void transform_outputs(V a, V b, V c, V d, V& first, V& second) {
  first = a + b + c;
  second = b - c - d;
}
GIRO_TARGET inline void transform_output(float* const* pixels, const float* from, std::int64_t plane, const float* bias,
                                         std::int64_t channels) {
  for (std::int64_t c = 0; c < channels; c += kLanes) {
    V rows[8], y[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const float* const row = from + 4 * i * plane + c;
      transform_outputs(load(row), load(row + plane), load(row + 2 * plane), load(row + 3 * plane), rows[2 * i],
                        rows[2 * i + 1]);
    }
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) transform_outputs(rows[j], rows[2 + j], rows[4 + j], rows[6 + j], y[j], y[2 + j]);
    const V b = bias != nullptr ? load(bias + c) : V{};
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) store(pixels[i] + c, y[i] + b);
  }
}

GIRO_INLINE void transform_filters(V a, V b, V c, V& first, V& second, V& third, V& fourth) {
  const V ends = a + c;
  first = a, second = 0.5f * (ends + b), third = 0.5f * (ends - b), fourth = c;
}
// Taps are `tap` floats apart.
GIRO_TARGET inline void transform_filter(float* to, std::int64_t plane, std::int64_t panel, const float* from,
                                         std::int64_t tap, std::int64_t channels) {
  for (std::int64_t c = 0; c < channels; c += kLanes) {
    V columns[12], u[16];
#pragma GCC unroll 3
    for (int j = 0; j < 3; ++j) {
      const float* const column = from + j * tap + c;
      transform_filters(load(column), load(column + 3 * tap), load(column + 6 * tap), columns[j], columns[3 + j],
                        columns[6 + j], columns[9 + j]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      transform_filters(columns[3 * i], columns[3 * i + 1], columns[3 * i + 2], u[4 * i], u[4 * i + 1], u[4 * i + 2],
                        u[4 * i + 3]);
    }
    float* const out = in_panel(to, c, panel);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) store(out + i * plane, u[i]);
  }
}

GIRO_INLINE void expand_outputs(V a, V b, V& first, V& second, V& third, V& fourth) {
  first = a, second = a + b, third = a - b, fourth = -b;
}
// The gradient with respect to transform_output's input.
GIRO_TARGET inline void expand_output(float* to, std::int64_t plane, std::int64_t panel, const float* const* pixels,
                                      std::int64_t channels) {
  for (std::int64_t c = 0; c < channels; c += kLanes) {
    V columns[8], m[16];
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      expand_outputs(load(pixels[j] + c), load(pixels[2 + j] + c), columns[j], columns[2 + j], columns[4 + j],
                     columns[6 + j]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      expand_outputs(columns[2 * i], columns[2 * i + 1], m[4 * i], m[4 * i + 1], m[4 * i + 2], m[4 * i + 3]);
    }
    float* const out = in_panel(to, c, panel);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) store(out + i * plane, m[i]);
  }
}

GIRO_INLINE void reduce_filters(V a, V b, V c, V d, V& first, V& second, V& third) {
  const V half = 0.5f * (b + c);
  first = a + half, second = 0.5f * (b - c), third = half + d;
}
// The gradient with respect to transform_filter's input, given the gradient of its output.
GIRO_TARGET inline void reduce_filter(float* to, const float* from, std::int64_t plane, std::int64_t channels) {
  for (std::int64_t c = 0; c < channels; c += kLanes) {
    V rows[12], w[9];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const float* const row = from + 4 * i * plane + c;
      reduce_filters(load(row), load(row + plane), load(row + 2 * plane), load(row + 3 * plane), rows[3 * i],
                     rows[3 * i + 1], rows[3 * i + 2]);
    }
#pragma GCC unroll 3
    for (int j = 0; j < 3; ++j) {
      reduce_filters(rows[j], rows[3 + j], rows[6 + j], rows[9 + j], w[j], w[3 + j], w[6 + j]);
    }
#pragma GCC unroll 9
    for (int tap = 0; tap < 9; ++tap) store(to + tap * channels + c, w[tap]);
  }
}

constexpr Transforms kTransforms{&transform_input, &transform_output, &transform_filter, &expand_output,
                                 &reduce_filter};
#undef GIRO_INLINE
