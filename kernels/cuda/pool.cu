#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <giro/runtime/error.h>

#include "kernels/cuda/as_expressions.h"
#include "kernels/cuda/kernel_launch.cuh"
#include "kernels/host_device/pool_windows.h"
#include "kernels/ops.h"

namespace giro::cuda {
namespace {

// Runs the op as an expression if it can be one, else a functor over `out`. Uses 32-bit indices, with as many images
// per launch as they can address.
template <template <bool, class, class, int> class Pool, bool kOfLargest, class Op, class... Tensors>
void pool(const Op& op, const Stream& stream, const Tensor& out, const Tensors&... in) {
  if (is_expression(op)) return cuda::run(as_expression(op), stream);
  if (out.count() == 0) return;
  const PoolOptions& options = op.options;
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const std::int64_t images = out.shape()[0];
  const std::array<Tensor, 1 + sizeof...(in)> all{out, in...};
  host_device::with_storage(out.dtype(), [&]<class T>(host_device::Type<T>) {
    const auto launch = [&]<int kPack>(std::integral_constant<int, kPack>) {
      std::int64_t most = kMost;
      for (const Tensor& t : all) {
        if (!t) continue;
        most = std::min(most, kMost / (t.count() / images / kPack));
        for (std::size_t axis = 0; axis < 2; ++axis) {
          const std::int64_t size = t.shape()[static_cast<int>(axis) + 1];
          if (size + options.pad_before[axis] + options.pad_after[axis] > kMost) most = 0;
        }
      }
      if (most == 0) {
        throw Error(ErrorCode::unsupported, "pooling: images of " + to_string(out.shape()) + " exceed 32-bit indices");
      }
      for (std::int64_t begin = 0; begin < images; begin += most) {
        const auto part = [&](const Tensor& t) { return t ? t.rows(begin, std::min(begin + most, images)) : t; };
        const Tensor of_out = part(out);
        for_each(stream, of_out.count() / kPack,
                 Pool<kOfLargest, T, std::int32_t, kPack>(of_out, part(in)..., options));
      }
    };
    std::uintptr_t addresses = 0;
    for (const Tensor& t : all) addresses |= t ? reinterpret_cast<std::uintptr_t>(t.raw()) : 0;
    constexpr int kMax = 16 / sizeof(T);
    if (out.shape()[3] % kMax == 0 && addresses % 16 == 0) {
      launch(std::integral_constant<int, kMax>{});
    } else {
      launch(std::integral_constant<int, 1>{});
    }
  });
}

}  // namespace

void run(const ops::AvgPool& op, const Stream& stream) {
  pool<host_device::PoolForward, false>(op, stream, op.y, op.x);
}

void run(const ops::MaxPool& op, const Stream& stream) { pool<host_device::PoolForward, true>(op, stream, op.y, op.x); }

void run(const ops::AvgPoolBackward& op, const Stream& stream) {
  pool<host_device::PoolBackward, false>(op, stream, op.dx, op.dy, Tensor(), Tensor());
}

void run(const ops::MaxPoolBackward& op, const Stream& stream) {
  pool<host_device::PoolBackward, true>(op, stream, op.dx, op.dy, op.x, op.y);
}

}  // namespace giro::cuda
