#include "kernels/functors/moments.h"

#include <cstddef>
#include <vector>

#include "kernels/cpu/for_each.h"
#include "kernels/internal/backends.h"

namespace giro::cpu {

void moments(const Tensor& mean, const Tensor& deviation, const Tensor& count, const Tensor& values, const Tensor& mask,
             const Stream& stream) {
  const std::int64_t n = values.count();
  submit(stream, [out = functors::MomentSums{mean.data<double>(), deviation.data<double>(), count.data<double>()},
                  x = values.data<float>(), m = mask ? mask.data<bool>() : nullptr, n,
                  inner = !mask || mask.count() == 0 ? 1 : n / mask.count()] {
    struct Sums {
      double sum = 0, squares = 0, count = 0;
    };
    std::vector<Sums> parts(static_cast<std::size_t>((n + kBlock - 1) / kBlock));
    for_each_block(n, kBlock, n, [&](std::int64_t begin, std::int64_t end) {
      double sum = 0, squares = 0, counting = 0;
      for (std::int64_t i = begin; i < end; ++i) {
        if (m != nullptr && !m[i / inner]) continue;
        const double value = x[i];
        sum += value;
        squares += value * value;
        counting += 1;
      }
      parts[static_cast<std::size_t>(begin / kBlock)] = {sum, squares, counting};
    });
    Sums all;
    for (const Sums& part : parts) {
      all.sum += part.sum;
      all.squares += part.squares;
      all.count += part.count;
    }
    out.store(all.sum, all.squares, all.count);
  });
}

void moment_sums(const Tensor& sums, const Tensor& mean, const Tensor& deviation, const Tensor& count,
                 const Stream& stream) {
  functors::moment_sums(ForEach{stream}, sums, mean, deviation, count);
}

void moments_of_sums(const Tensor& mean, const Tensor& deviation, const Tensor& count, const Tensor& sums,
                     double factor, const Stream& stream) {
  functors::moments_of_sums(ForEach{stream}, mean, deviation, count, sums, factor);
}

}  // namespace giro::cpu
