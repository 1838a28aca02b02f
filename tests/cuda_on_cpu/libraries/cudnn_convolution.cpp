// cuDNN's convolution in its three directions, summed in double. The first algorithm that it suggests is one that a
// careful caller passes over, as the real cuDNN's first may be.

#include <array>
#include <cstdint>
#include <cstring>

#include "tests/cuda_on_cpu/libraries/cudnn.h"
#include "tests/cuda_on_cpu/libraries/decline.h"
#include "tests/cuda_on_cpu/libraries/tf32.h"
#include "tests/cuda_on_cpu/runtime/seed.h"

namespace cuda_on_cpu::dnn {
namespace {

// x (N, H, W, I), w (O, KH, KW, I), y (N, P, Q, O).
struct Geometry {
  Tensor x, w, y;
  Convolution convolution;

  cudnnStatus_t check() const;
};

cudnnStatus_t Geometry::check() const {
  if (!x.is_set || !w.is_set || !y.is_set || !convolution.is_set) return CUDNN_STATUS_BAD_PARAM;
  const bool emulated = x.is_emulated() && convolution.is_emulated && x.type == w.type && x.type == y.type &&
                        x.channels_last == w.channels_last && x.channels_last == y.channels_last;
  if (!emulated) return CUDNN_STATUS_NOT_SUPPORTED;
  const long rows = convolution.y.positions(x.h, w.h), columns = convolution.x.positions(x.w, w.w);
  const bool fits = x.c == w.c && y.n == x.n && y.c == w.n && rows > 0 && columns > 0 &&
                    y.h == static_cast<std::size_t>(rows) && y.w == static_cast<std::size_t>(columns);
  return fits ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

bool resolve(cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t y,
             cudnnConvolutionDescriptor_t convolution, Geometry& geometry) {
  const auto *tx = object<Tensor>(x, kTensor), *ty = object<Tensor>(y, kTensor), *tw = object<Tensor>(w, kFilter);
  const auto* c = object<Convolution>(convolution, kConvolution);
  if (!tx || !tw || !ty || !c) return false;
  geometry = {*tx, *tw, *ty, *c};
  return true;
}

// Calls f(offset in y, offset in x, offset in w) for every pair that is multiplied. x and w continue for I channels
// from there. Values are in the order of `load`.
template <class F>
void for_each_tap(const Geometry& g, F&& f) {
  for (std::size_t i = 0; i < g.y.n; ++i) {
    for (std::size_t p = 0; p < g.y.h; ++p) {
      for (std::size_t q = 0; q < g.y.w; ++q) {
        for (std::size_t ky = 0; ky < g.w.h; ++ky) {
          const long row = g.convolution.y.at(p, ky);
          if (row < 0 || row >= static_cast<long>(g.x.h)) continue;
          for (std::size_t kx = 0; kx < g.w.w; ++kx) {
            const long column = g.convolution.x.at(q, kx);
            if (column < 0 || column >= static_cast<long>(g.x.w)) continue;
            const std::size_t in =
                ((i * g.x.h + static_cast<std::size_t>(row)) * g.x.w + static_cast<std::size_t>(column)) * g.x.c;
            for (std::size_t o = 0; o < g.y.c; ++o) {
              f(((i * g.y.h + p) * g.y.w + q) * g.y.c + o, in, ((o * g.w.h + ky) * g.w.w + kx) * g.w.c);
            }
          }
        }
      }
    }
  }
}

std::vector<double> load_operand(const Geometry& g, const Tensor& tensor, const void* data) {
  std::vector<double> values = load(tensor, data);
  // With f32, tensor cores see TF32 unless the descriptor asks for CUDNN_FMA_MATH.
  if (tensor.type == CUDNN_DATA_FLOAT && g.convolution.math != CUDNN_FMA_MATH) {
    for (double& value : values) value = to_tf32(value);
  }
  return values;
}

// For each direction: its name, its algorithms, and which tensor is computed from which.
struct Forward {
  static constexpr const char* kName = "cudnnConvolutionForward";
  using Algorithm = cudnnConvolutionFwdAlgo_t;
  using Result = cudnnConvolutionFwdAlgoPerf_t;
  static constexpr Algorithm kDeclined = CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD,
                             kDeterministic = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
                             kAtomic = CUDNN_CONVOLUTION_FWD_ALGO_COUNT;  // none of them adds atomically

  static const Tensor& a(const Geometry& g) { return g.x; }
  static const Tensor& b(const Geometry& g) { return g.w; }
  static const Tensor& out(const Geometry& g) { return g.y; }

  static void run(const Geometry& g, const std::vector<double>& x, const std::vector<double>& w,
                  std::vector<double>& y) {
    for_each_tap(g, [&](std::size_t at_y, std::size_t at_x, std::size_t at_w) {
      double sum = 0;
      for (std::size_t c = 0; c < g.x.c; ++c) sum += x[at_x + c] * w[at_w + c];
      y[at_y] += sum;
    });
  }
};

struct BackwardData {
  static constexpr const char* kName = "cudnnConvolutionBackwardData";
  using Algorithm = cudnnConvolutionBwdDataAlgo_t;
  using Result = cudnnConvolutionBwdDataAlgoPerf_t;
  static constexpr Algorithm kDeclined = CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD,
                             kDeterministic = CUDNN_CONVOLUTION_BWD_DATA_ALGO_1,
                             kAtomic = CUDNN_CONVOLUTION_BWD_DATA_ALGO_0;

  static const Tensor& a(const Geometry& g) { return g.w; }
  static const Tensor& b(const Geometry& g) { return g.y; }
  static const Tensor& out(const Geometry& g) { return g.x; }

  static void run(const Geometry& g, const std::vector<double>& w, const std::vector<double>& dy,
                  std::vector<double>& dx) {
    for_each_tap(g, [&](std::size_t at_y, std::size_t at_x, std::size_t at_w) {
      for (std::size_t c = 0; c < g.x.c; ++c) dx[at_x + c] += dy[at_y] * w[at_w + c];
    });
  }
};

struct BackwardFilter {
  static constexpr const char* kName = "cudnnConvolutionBackwardFilter";
  using Algorithm = cudnnConvolutionBwdFilterAlgo_t;
  using Result = cudnnConvolutionBwdFilterAlgoPerf_t;
  static constexpr Algorithm kDeclined = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED,
                             kDeterministic = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1,
                             kAtomic = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0;

  static const Tensor& a(const Geometry& g) { return g.x; }
  static const Tensor& b(const Geometry& g) { return g.y; }
  static const Tensor& out(const Geometry& g) { return g.w; }

  static void run(const Geometry& g, const std::vector<double>& x, const std::vector<double>& dy,
                  std::vector<double>& dw) {
    for_each_tap(g, [&](std::size_t at_y, std::size_t at_x, std::size_t at_w) {
      for (std::size_t c = 0; c < g.x.c; ++c) dw[at_w + c] += dy[at_y] * x[at_x + c];
    });
  }
};

// Never 0, and larger for larger results, so that a size kept from another shape shows.
template <class Direction>
std::size_t workspace_of(const Geometry& g) {
  return 512 + 4 * Direction::out(g).c;
}

template <class Direction>
cudnnStatus_t suggest(cudnnHandle_t handle, bool resolved, const Geometry& g, int wanted, int* count,
                      typename Direction::Result* results) {
  if (!is_alive(kHandle, handle) || !resolved || wanted < 1 || !count || !results) return CUDNN_STATUS_BAD_PARAM;
  if (const cudnnStatus_t status = g.check(); status != CUDNN_STATUS_SUCCESS) return status;
  const auto result = [&](typename Direction::Algorithm algorithm, cudnnStatus_t status,
                          cudnnDeterminism_t determinism) {
    typename Direction::Result made{};
    made.algo = algorithm;
    made.status = status;
    made.time = -1;
    made.memory = workspace_of<Direction>(g);
    made.determinism = determinism;
    made.mathType = g.convolution.math;
    return made;
  };
  const std::array suggestions{
      result(Direction::kAtomic, CUDNN_STATUS_SUCCESS, CUDNN_NON_DETERMINISTIC),
      result(Direction::kDeclined, CUDNN_STATUS_NOT_SUPPORTED, CUDNN_DETERMINISTIC),
      result(Direction::kDeterministic, declines() ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS,
             CUDNN_DETERMINISTIC),
  };
  const std::size_t first = std::is_same_v<Direction, Forward> ? 1 : 0;
  *count = 0;
  for (std::size_t i = first; i < suggestions.size() && *count < wanted; ++i) results[(*count)++] = suggestions[i];
  return CUDNN_STATUS_SUCCESS;
}

template <class Direction>
cudnnStatus_t workspace_size(cudnnHandle_t handle, bool resolved, const Geometry& g,
                             typename Direction::Algorithm algorithm, std::size_t* bytes) {
  if (!is_alive(kHandle, handle) || !resolved || !bytes) return CUDNN_STATUS_BAD_PARAM;
  if (const cudnnStatus_t status = g.check(); status != CUDNN_STATUS_SUCCESS) return status;
  if (algorithm != Direction::kDeterministic && algorithm != Direction::kAtomic) return CUDNN_STATUS_NOT_SUPPORTED;
  *bytes = workspace_of<Direction>(g);
  return CUDNN_STATUS_SUCCESS;
}

struct Call {
  const void *alpha, *a, *b, *beta;
  void *out, *workspace;
  std::size_t workspace_bytes;
};

template <class Direction>
cudnnStatus_t convolve(cudnnHandle_t handle, bool resolved, const Geometry& g, typename Direction::Algorithm algorithm,
                       const Call& call) {
  const auto* library = object<Library>(handle, kHandle);
  const bool there = library && resolved && call.alpha && call.beta && call.a && call.b && call.out;
  if (!there) return CUDNN_STATUS_BAD_PARAM;
  std::size_t needed = 0;
  const cudnnStatus_t status = workspace_size<Direction>(handle, resolved, g, algorithm, &needed);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (call.workspace == nullptr || call.workspace_bytes < needed) return CUDNN_STATUS_BAD_PARAM;
  const bool exact = algorithm != Direction::kAtomic;
  const float alpha = scalar(call.alpha), beta = scalar(call.beta);
  return submit_to(*library, Direction::kName, [=] {
    const Tensor &a = Direction::a(g), &b = Direction::b(g), &out = Direction::out(g);
    if (beta != 0) will_read(call.out, out.bytes(), Direction::kName);
    Operands operands(Direction::kName);
    scribble(operands, call.workspace, needed);
    operands.read(call.a, a.bytes());
    operands.read(call.b, b.bytes());
    operands.write(call.out, out.bytes());
    std::vector<double> result(out.count());
    Direction::run(g, load_operand(g, a, call.a), load_operand(g, b, call.b), result);
    if (!exact) {  // the last bits differ at every call
      for (double& value : result) value *= 1 + static_cast<double>(random_number() % 8) * 0x1p-23;
    }
    store(out, call.out, result, alpha, beta);
  });
}

}  // namespace
}  // namespace cuda_on_cpu::dnn

using namespace cuda_on_cpu::dnn;

extern "C" {

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t handle, cudnnTensorDescriptor_t x,
                                                     cudnnFilterDescriptor_t w,
                                                     cudnnConvolutionDescriptor_t convolution,
                                                     cudnnTensorDescriptor_t y, int wanted, int* count,
                                                     cudnnConvolutionFwdAlgoPerf_t* results) {
  return cudnn([&] {
    Geometry g;
    return suggest<Forward>(handle, resolve(x, w, y, convolution, g), g, wanted, count, results);
  });
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t handle, cudnnTensorDescriptor_t x,
                                                      cudnnFilterDescriptor_t w,
                                                      cudnnConvolutionDescriptor_t convolution,
                                                      cudnnTensorDescriptor_t y, cudnnConvolutionFwdAlgo_t algorithm,
                                                      std::size_t* bytes) {
  return cudnn([&] {
    Geometry g;
    return workspace_size<Forward>(handle, resolve(x, w, y, convolution, g), g, algorithm, bytes);
  });
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_desc,
                                      const void* x, cudnnFilterDescriptor_t w_desc, const void* w,
                                      cudnnConvolutionDescriptor_t convolution, cudnnConvolutionFwdAlgo_t algorithm,
                                      void* workspace, std::size_t workspace_bytes, const void* beta,
                                      cudnnTensorDescriptor_t y_desc, void* y) {
  return cudnn([&] {
    Geometry g;
    return convolve<Forward>(handle, resolve(x_desc, w_desc, y_desc, convolution, g), g, algorithm,
                             {alpha, x, w, beta, y, workspace, workspace_bytes});
  });
}

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t handle, cudnnFilterDescriptor_t w,
                                                          cudnnTensorDescriptor_t dy,
                                                          cudnnConvolutionDescriptor_t convolution,
                                                          cudnnTensorDescriptor_t dx, int wanted, int* count,
                                                          cudnnConvolutionBwdDataAlgoPerf_t* results) {
  return cudnn([&] {
    Geometry g;
    return suggest<BackwardData>(handle, resolve(dx, w, dy, convolution, g), g, wanted, count, results);
  });
}

cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t handle, cudnnFilterDescriptor_t w,
                                                           cudnnTensorDescriptor_t dy,
                                                           cudnnConvolutionDescriptor_t convolution,
                                                           cudnnTensorDescriptor_t dx,
                                                           cudnnConvolutionBwdDataAlgo_t algorithm,
                                                           std::size_t* bytes) {
  return cudnn([&] {
    Geometry g;
    return workspace_size<BackwardData>(handle, resolve(dx, w, dy, convolution, g), g, algorithm, bytes);
  });
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha, cudnnFilterDescriptor_t w_desc,
                                           const void* w, cudnnTensorDescriptor_t dy_desc, const void* dy,
                                           cudnnConvolutionDescriptor_t convolution,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace,
                                           std::size_t workspace_bytes, const void* beta,
                                           cudnnTensorDescriptor_t dx_desc, void* dx) {
  return cudnn([&] {
    Geometry g;
    return convolve<BackwardData>(handle, resolve(dx_desc, w_desc, dy_desc, convolution, g), g, algorithm,
                                  {alpha, w, dy, beta, dx, workspace, workspace_bytes});
  });
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t handle, cudnnTensorDescriptor_t x,
                                                            cudnnTensorDescriptor_t dy,
                                                            cudnnConvolutionDescriptor_t convolution,
                                                            cudnnFilterDescriptor_t dw, int wanted, int* count,
                                                            cudnnConvolutionBwdFilterAlgoPerf_t* results) {
  return cudnn([&] {
    Geometry g;
    return suggest<BackwardFilter>(handle, resolve(x, dw, dy, convolution, g), g, wanted, count, results);
  });
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(cudnnHandle_t handle, cudnnTensorDescriptor_t x,
                                                             cudnnTensorDescriptor_t dy,
                                                             cudnnConvolutionDescriptor_t convolution,
                                                             cudnnFilterDescriptor_t dw,
                                                             cudnnConvolutionBwdFilterAlgo_t algorithm,
                                                             std::size_t* bytes) {
  return cudnn([&] {
    Geometry g;
    return workspace_size<BackwardFilter>(handle, resolve(x, dw, dy, convolution, g), g, algorithm, bytes);
  });
}

cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_desc,
                                             const void* x, cudnnTensorDescriptor_t dy_desc, const void* dy,
                                             cudnnConvolutionDescriptor_t convolution,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace,
                                             std::size_t workspace_bytes, const void* beta,
                                             cudnnFilterDescriptor_t dw_desc, void* dw) {
  return cudnn([&] {
    Geometry g;
    return convolve<BackwardFilter>(handle, resolve(x_desc, dw_desc, dy_desc, convolution, g), g, algorithm,
                                    {alpha, x, dy, beta, dw, workspace, workspace_bytes});
  });
}
}
