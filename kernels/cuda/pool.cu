#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <giro/runtime/error.h>

#include "kernels/cuda/as_expressions.h"
#include "kernels/cuda/expression.h"
#include "kernels/cuda/for_each.cuh"
#include "kernels/functors/pool.h"
#include "kernels/internal/ops.h"

namespace giro::cuda {
namespace {

// Uses 32-bit indices, with as many images per launch as they can address.
template <bool kOfLargest>
void pool_backward(const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& y, const PoolOptions& options,
                   const Stream& stream) {
  if (dx.count() == 0) return;
  functors::with_storage(dx.dtype(), [&]<class T>(functors::Type<T>) {
    const auto launch = [&]<int kPack>(std::integral_constant<int, kPack>) {
      const std::int64_t images = dx.shape()[0], packs = dx.count() / images / kPack;
      const std::int64_t most = std::numeric_limits<std::int32_t>::max() / packs;
      if (most == 0) {
        throw Error(ErrorCode::unsupported,
                    "pooling gradient: images of " + to_string(dx.shape()) + " exceed 32-bit indices");
      }
      for (std::int64_t begin = 0; begin < images; begin += most) {
        const auto part = [&](const Tensor& t) { return t ? t.rows(begin, std::min(begin + most, images)) : t; };
        const Tensor dx_part = part(dx);
        ForEach{stream}(dx_part.count() / kPack, functors::PoolBackward<kOfLargest, T, std::int32_t, kPack>(
                                                     dx_part, part(dy), part(x), part(y), options));
      }
    };
    const auto address = [](const Tensor& t) { return t ? reinterpret_cast<std::uintptr_t>(t.raw()) : 0; };
    constexpr int kMax = 16 / sizeof(T);
    const bool is_packed = dx.shape()[3] % kMax == 0 && (address(dx) | address(dy) | address(x) | address(y)) % 16 == 0;
    if (is_packed) {
      launch(std::integral_constant<int, kMax>{});
    } else {
      launch(std::integral_constant<int, 1>{});
    }
  });
}

}  // namespace

void run(const ops::AvgPoolBackward& op, const Stream& stream) {
  if (pool_windows_tile(op.dx.shape(), op.options)) return cuda::run(as_expression(op), stream);
  pool_backward<false>(op.dx, op.dy, {}, {}, op.options, stream);
}

void run(const ops::MaxPoolBackward& op, const Stream& stream) {
  if (pool_windows_tile(op.dx.shape(), op.options)) return cuda::run(as_expression(op), stream);
  pool_backward<true>(op.dx, op.dy, op.x, op.y, op.options, stream);
}

}  // namespace giro::cuda
