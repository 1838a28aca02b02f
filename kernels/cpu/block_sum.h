#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cpu/for_each.h"

namespace giro::cpu {

// Sums term(i) over [0, n) in double, block by block in a fixed order.
template <class Term>
double block_sum(std::int64_t n, Term term) {
  std::vector<double> partial(static_cast<std::size_t>((n + kBlock - 1) / kBlock));
  for_each_block(n, kBlock, n, [&](std::int64_t begin, std::int64_t end) {
    double total = 0;
#pragma omp simd reduction(+ : total)
    for (std::int64_t i = begin; i < end; ++i) total += term(i);
    partial[static_cast<std::size_t>(begin / kBlock)] = total;
  });
  double total = 0;
  for (const double p : partial) total += p;
  return total;
}

}  // namespace giro::cpu
