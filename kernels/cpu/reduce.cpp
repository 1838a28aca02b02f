#include "kernels/internal/backends.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/block_sum.h"
#include "kernels/functors/storage.h"

namespace giro::cpu {
namespace {

void scaled_sum(const Tensor& out, const Tensor& x, double factor, const Stream& stream) {
  submit(stream, [out = out.data<float>(), x = x.data<float>(), n = x.count(), factor] {
    *out = static_cast<float>(factor * block_sum(n, [x](std::int64_t i) { return static_cast<double>(x[i]); }));
  });
}

}  // namespace

void sum(const Tensor& out, const Tensor& x, const Stream& stream) { scaled_sum(out, x, 1.0, stream); }

void mean(const Tensor& out, const Tensor& x, const Stream& stream) {
  scaled_sum(out, x, 1.0 / static_cast<double>(x.count()), stream);
}

void sum_of_squares(const Tensor& out, const Tensor& x, const Stream& stream) {
  submit(stream, [out = out.data<float>(), x = x.data<float>(), n = x.count()] {
    *out = static_cast<float>(
        block_sum(n, [x](std::int64_t i) { return static_cast<double>(x[i]) * static_cast<double>(x[i]); }));
  });
}

void max(const Tensor& out, const Tensor& x, const Stream& stream) {
  submit(stream, [out = out.data<float>(), x = x.data<float>(), n = x.count()] {
    std::vector<float> partial(static_cast<std::size_t>((n + kBlock - 1) / kBlock));
    const auto larger = [](float a, float b) { return a > b || std::isnan(a) ? a : b; };
    for_each_block(n, kBlock, n, [&](std::int64_t begin, std::int64_t end) {
      float best = x[begin];
      for (std::int64_t i = begin + 1; i < end; ++i) best = larger(best, x[i]);
      partial[static_cast<std::size_t>(begin / kBlock)] = best;
    });
    float best = partial.front();
    for (const float p : partial) best = larger(best, p);
    *out = best;
  });
}

void sum_rows(const Tensor& out, const Tensor& x, const Stream& stream) {
  functors::with_storage(x.dtype(), [&]<class T>(functors::Type<T>) {
    submit(stream, [out = functors::Output(out), x = x.data<T>(), rows = x.shape()[0], columns = x.shape()[1]] {
      constexpr std::int64_t kColumns = 64;
      for_each_block(columns, kColumns, rows * columns, [&](std::int64_t begin, std::int64_t end) {
        double total[kColumns] = {};
        const std::int64_t width = end - begin;
        for (std::int64_t r = 0; r < rows; ++r) {
          const T* row = x + r * columns + begin;
#pragma omp simd
          for (std::int64_t c = 0; c < width; ++c) total[c] += static_cast<double>(static_cast<float>(row[c]));
        }
        for (std::int64_t c = 0; c < width; ++c) out.store(begin + c, static_cast<float>(total[c]));
      });
    });
  });
}

}  // namespace giro::cpu
