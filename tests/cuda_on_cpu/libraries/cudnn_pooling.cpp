// cuDNN's pooling, forward and backward.

#include <cmath>
#include <limits>

#include "tests/cuda_on_cpu/libraries/cudnn.h"

namespace cuda_on_cpu::dnn {
namespace {

struct Geometry {
  Pooling pooling;
  Tensor x, y;  // (N, H, W, C) and (N, P, Q, C)

  cudnnStatus_t check() const;
  bool takes_max() const {
    return pooling.mode == CUDNN_POOLING_MAX || pooling.mode == CUDNN_POOLING_MAX_DETERMINISTIC;
  }
  // The divisor of a sum over `inside` elements.
  double divisor(std::size_t inside) const {
    const bool counts_padding = pooling.mode == CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING;
    return static_cast<double>(counts_padding ? pooling.window_y * pooling.window_x : inside);
  }
};

cudnnStatus_t Geometry::check() const {
  if (!pooling.is_set || !x.is_set || !y.is_set) return CUDNN_STATUS_BAD_PARAM;
  const auto pads = [](const Axis& axis, std::size_t window) {
    return axis.pad >= 0 && static_cast<std::size_t>(axis.pad) < window;  // so each window has an element
  };
  const bool emulated = x.is_emulated() && x.type == y.type && x.channels_last == y.channels_last &&
                        pads(pooling.y, pooling.window_y) && pads(pooling.x, pooling.window_x);
  if (!emulated) return CUDNN_STATUS_NOT_SUPPORTED;
  const long rows = pooling.y.positions(x.h, pooling.window_y), columns = pooling.x.positions(x.w, pooling.window_x);
  const bool fits = rows > 0 && columns > 0 && y.n == x.n && y.c == x.c && y.h == static_cast<std::size_t>(rows) &&
                    y.w == static_cast<std::size_t>(columns);
  return fits ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

// Calls f(position in y, positions in x of its window's elements), in the order of `load`.
template <class F>
void for_each_window(const Geometry& g, F&& f) {
  std::vector<std::size_t> window;
  std::size_t out = 0;
  for (std::size_t i = 0; i < g.y.n; ++i) {
    for (std::size_t p = 0; p < g.y.h; ++p) {
      for (std::size_t q = 0; q < g.y.w; ++q) {
        for (std::size_t c = 0; c < g.y.c; ++c) {
          window.clear();
          for (std::size_t ky = 0; ky < g.pooling.window_y; ++ky) {
            for (std::size_t kx = 0; kx < g.pooling.window_x; ++kx) {
              const long row = g.pooling.y.at(p, ky), column = g.pooling.x.at(q, kx);
              if (row < 0 || column < 0 || row >= static_cast<long>(g.x.h) || column >= static_cast<long>(g.x.w))
                continue;
              window.push_back(
                  ((i * g.x.h + static_cast<std::size_t>(row)) * g.x.w + static_cast<std::size_t>(column)) * g.x.c + c);
            }
          }
          f(out++, window);
        }
      }
    }
  }
}

double largest(const std::vector<double>& x, const std::vector<std::size_t>& window, bool propagates_nan) {
  double result = -std::numeric_limits<double>::infinity();
  for (const std::size_t at : window) {
    if (std::isnan(x[at]) && propagates_nan) return x[at];
    if (x[at] > result) result = x[at];
  }
  return result;
}

std::vector<double> forward(const Geometry& g, const std::vector<double>& x) {
  std::vector<double> y(g.y.count());
  for_each_window(g, [&](std::size_t out, const std::vector<std::size_t>& window) {
    if (g.takes_max()) {
      y[out] = largest(x, window, g.pooling.propagates_nan);
    } else {
      for (const std::size_t at : window) y[out] += x[at];
      y[out] /= g.divisor(window.size());
    }
  });
  return y;
}

// Of several equal maxima the first takes the gradient. The real cuDNN does not say which one does.
std::vector<double> backward(const Geometry& g, const std::vector<double>& x, const std::vector<double>& y,
                             const std::vector<double>& dy) {
  std::vector<double> dx(g.x.count());
  for_each_window(g, [&](std::size_t out, const std::vector<std::size_t>& window) {
    for (const std::size_t at : window) {
      if (!g.takes_max()) {
        dx[at] += dy[out] / g.divisor(window.size());
      } else if (x[at] == y[out]) {
        dx[at] += dy[out];
        break;
      }
    }
  });
  return dx;
}

}  // namespace
}  // namespace cuda_on_cpu::dnn

using namespace cuda_on_cpu;
using namespace cuda_on_cpu::dnn;

extern "C" {

cudnnStatus_t cudnnPoolingForward(cudnnHandle_t handle, cudnnPoolingDescriptor_t pooling, const void* alpha,
                                  cudnnTensorDescriptor_t x_desc, const void* x, const void* beta,
                                  cudnnTensorDescriptor_t y_desc, void* y) {
  return cudnn([&] {
    constexpr const char* kName = "cudnnPoolingForward";
    const auto* library = object<Library>(handle, kHandle);
    const auto* window = object<Pooling>(pooling, kPooling);
    const auto *tx = object<Tensor>(x_desc, kTensor), *ty = object<Tensor>(y_desc, kTensor);
    if (!library || !window || !tx || !ty || !alpha || !beta || !x || !y) return CUDNN_STATUS_BAD_PARAM;
    const Geometry g{*window, *tx, *ty};
    if (const cudnnStatus_t status = g.check(); status != CUDNN_STATUS_SUCCESS) return status;
    return submit_to(*library, kName, [=, a = scalar(alpha), b = scalar(beta)] {
      if (b != 0) will_read(y, g.y.bytes(), kName);
      Operands operands(kName);
      operands.read(x, g.x.bytes());
      operands.write(y, g.y.bytes());
      store(g.y, y, forward(g, load(g.x, x)), a, b);
    });
  });
}

cudnnStatus_t cudnnPoolingBackward(cudnnHandle_t handle, cudnnPoolingDescriptor_t pooling, const void* alpha,
                                   cudnnTensorDescriptor_t y_desc, const void* y, cudnnTensorDescriptor_t dy_desc,
                                   const void* dy, cudnnTensorDescriptor_t x_desc, const void* x, const void* beta,
                                   cudnnTensorDescriptor_t dx_desc, void* dx) {
  return cudnn([&] {
    constexpr const char* kName = "cudnnPoolingBackward";
    const auto* library = object<Library>(handle, kHandle);
    const auto* window = object<Pooling>(pooling, kPooling);
    const auto *tx = object<Tensor>(x_desc, kTensor), *tdx = object<Tensor>(dx_desc, kTensor),
               *ty = object<Tensor>(y_desc, kTensor), *tdy = object<Tensor>(dy_desc, kTensor);
    const bool there = library && window && tx && tdx && ty && tdy && alpha && beta && x && y && dx && dy;
    if (!there) return CUDNN_STATUS_BAD_PARAM;
    const Geometry g{*window, *tdx, *tdy};
    if (*tx != *tdx || *ty != *tdy) return CUDNN_STATUS_BAD_PARAM;
    if (const cudnnStatus_t status = g.check(); status != CUDNN_STATUS_SUCCESS) return status;
    return submit_to(*library, kName, [=, a = scalar(alpha), b = scalar(beta)] {
      if (b != 0) will_read(dx, g.x.bytes(), kName);
      Operands operands(kName);
      operands.read(dy, g.y.bytes());
      // The gradient of a mean depends on neither x nor y.
      if (g.takes_max()) {
        operands.read(x, g.x.bytes());
        operands.read(y, g.y.bytes());
      }
      operands.write(dx, g.x.bytes());
      const bool max = g.takes_max();
      const std::vector<double> the_x = max ? load(g.x, x) : std::vector<double>();
      const std::vector<double> the_y = max ? load(g.y, y) : std::vector<double>();
      store(g.x, dx, backward(g, the_x, the_y, load(g.y, dy)), a, b);
    });
  });
}
}
