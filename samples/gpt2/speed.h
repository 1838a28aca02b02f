#pragma once

#include <giro/giro.h>

#include <algorithm>
#include <chrono>
#include <limits>

// FLOP/s of a large product in the precision that a model is computed in, measured: what a training could reach.
inline double product_speed(const giro::DeviceContext& context, giro::Precision precision) {
  const giro::Stream stream = context.stream();
  const giro::DType dtype = giro::compute_dtype(precision);
  const giro::Math math = giro::math_of(precision);
  double speed = 0, seconds = 0;
  // As large as it can be without taking long.
  for (std::int64_t size = 256; size <= 8'192 && seconds < 0.01; size *= 2) {
    giro::Buffer memory[3];
    giro::Tensor matrices[3];
    for (int i = 0; i < 3; ++i) {
      memory[i] = stream.allocate(static_cast<std::size_t>(size * size) * giro::size_of(dtype));
      matrices[i] = giro::Tensor(memory[i].data(), dtype, {size, size}, stream.device());
      giro::fill(matrices[i], 0.5, stream);
    }
    seconds = std::numeric_limits<double>::infinity();
    for (int run = 0; run < 5; ++run) {
      stream.synchronize();
      const auto start = std::chrono::steady_clock::now();
      giro::matmul(matrices[0], matrices[1], matrices[2], {}, math, stream);
      stream.synchronize();
      seconds = std::min(seconds, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    speed = std::max(speed, 2.0 * static_cast<double>(size * size * size) / seconds);
  }
  return speed;
}
