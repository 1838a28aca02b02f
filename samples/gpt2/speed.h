#pragma once

#include <giro/giro.h>

#include <algorithm>
#include <chrono>

// FLOP/s of a large product in the precision that a model is computed in, measured: what a training could reach.
inline double product_speed(const giro::DeviceContext& context, giro::Precision precision) {
  const giro::Stream stream = context.stream();
  const std::int64_t size = stream.device().is_cpu() ? 1'024 : 8'192;
  const giro::DType dtype = giro::compute_dtype(precision);
  const giro::Math math = giro::math_of(precision);
  giro::Buffer memory[3];
  giro::Tensor matrices[3];
  for (int i = 0; i < 3; ++i) {
    memory[i] = stream.allocate(static_cast<std::size_t>(size * size) * giro::size_of(dtype));
    matrices[i] = giro::Tensor(memory[i].data(), dtype, {size, size}, stream.device());
    giro::fill(matrices[i], 0.5, stream);
  }
  double best = 1e9;
  for (int run = 0; run < 5; ++run) {
    stream.synchronize();
    const auto start = std::chrono::steady_clock::now();
    giro::matmul(matrices[0], matrices[1], matrices[2], {}, math, stream);
    stream.synchronize();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return 2.0 * static_cast<double>(size * size * size) / best;
}
