// Runs a plan: the convolution in its three directions, summed in double, and the operations that follow it, rounded
// once.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "tests/cuda_on_cpu/libraries/cudnn.h"
#include "tests/cuda_on_cpu/libraries/cudnn_engine.h"
#include "tests/cuda_on_cpu/libraries/decline.h"
#include "tests/cuda_on_cpu/libraries/tf32.h"
#include "tests/cuda_on_cpu/runtime/seed.h"

namespace cuda_on_cpu::dnn {
namespace graph {
namespace {

// Calls f(position in values, index in memory) for each element. Values lie in the order (n, h, w, c).
template <class F>
void for_each_element(const Tensor& tensor, F&& f) {
  std::size_t position = 0;
  for (std::size_t n = 0; n < tensor.n; ++n) {
    for (std::size_t h = 0; h < tensor.h; ++h) {
      for (std::size_t w = 0; w < tensor.w; ++w) {
        for (std::size_t c = 0; c < tensor.c; ++c) {
          f(position++, n * tensor.n_stride + c * tensor.c_stride + h * tensor.h_stride + w * tensor.w_stride);
        }
      }
    }
  }
}

std::vector<double> load(const Tensor& tensor, const void* data) {
  std::vector<double> values(tensor.count());
  for_each_element(tensor, [&](std::size_t position, std::size_t index) {
    values[position] = tensor.type == CUDNN_DATA_HALF ? __half2float(static_cast<const __half*>(data)[index])
                       : tensor.type == CUDNN_DATA_BFLOAT16
                           ? __bfloat162float(static_cast<const __nv_bfloat16*>(data)[index])
                           : static_cast<const float*>(data)[index];
  });
  return values;
}

void store(const Tensor& tensor, void* data, const std::vector<double>& values) {
  for_each_element(tensor, [&](std::size_t position, std::size_t index) {
    const double value = values[position];
    if (tensor.type == CUDNN_DATA_HALF) {
      static_cast<__half*>(data)[index] = __double2half(value);
    } else if (tensor.type == CUDNN_DATA_BFLOAT16) {
      static_cast<__nv_bfloat16*>(data)[index] = __double2bfloat16(value);
    } else {
      static_cast<float*>(data)[index] = static_cast<float>(value);
    }
  });
}

// Calls f(offset in y, offset in x, offset in w) for every tap of every element of y. In x and w, the channels of the
// tap's group follow from there.
template <class F>
void for_each_tap(const Problem& p, F&& f) {
  for (std::size_t n = 0; n < p.y.n; ++n) {
    for (std::size_t h = 0; h < p.y.h; ++h) {
      for (std::size_t w = 0; w < p.y.w; ++w) {
        for (std::size_t kh = 0; kh < p.w.h; ++kh) {
          const std::int64_t row = p.rows.at(h, kh);
          if (row < 0 || row >= static_cast<std::int64_t>(p.x.h)) continue;
          for (std::size_t kw = 0; kw < p.w.w; ++kw) {
            const std::int64_t column = p.columns.at(w, kw);
            if (column < 0 || column >= static_cast<std::int64_t>(p.x.w)) continue;
            const std::size_t in =
                ((n * p.x.h + static_cast<std::size_t>(row)) * p.x.w + static_cast<std::size_t>(column)) * p.x.c;
            for (std::size_t o = 0; o < p.y.c; ++o) {
              const std::size_t group = o * p.groups() / p.y.c;
              f(((n * p.y.h + h) * p.y.w + w) * p.y.c + o, in + group * p.w.c, ((o * p.w.h + kh) * p.w.w + kw) * p.w.c);
            }
          }
        }
      }
    }
  }
}

std::vector<double> forward(const Problem& p, const std::vector<double>& x, const std::vector<double>& w) {
  std::vector<double> y(p.y.count());
  for_each_tap(p, [&](std::size_t at_y, std::size_t at_x, std::size_t at_w) {
    double sum = 0;
    for (std::size_t c = 0; c < p.w.c; ++c) sum += x[at_x + c] * w[at_w + c];
    y[at_y] += sum;
  });
  return y;
}

std::vector<double> backward_data(const Problem& p, const std::vector<double>& dy, const std::vector<double>& w) {
  std::vector<double> dx(p.x.count());
  for_each_tap(p, [&](std::size_t at_y, std::size_t at_x, std::size_t at_w) {
    for (std::size_t c = 0; c < p.w.c; ++c) dx[at_x + c] += dy[at_y] * w[at_w + c];
  });
  return dx;
}

std::vector<double> backward_filter(const Problem& p, const std::vector<double>& dy, const std::vector<double>& x) {
  std::vector<double> dw(p.w.count());
  for_each_tap(p, [&](std::size_t at_y, std::size_t at_x, std::size_t at_w) {
    for (std::size_t c = 0; c < p.w.c; ++c) dw[at_w + c] += dy[at_y] * x[at_x + c];
  });
  return dw;
}

struct Direction {
  const char* name;
  Tensor a, b;  // the inputs
  std::vector<double> (*run)(const Problem&, const std::vector<double>& a, const std::vector<double>& b);
};

Direction direction_of(const Problem& p) {
  switch (p.direction) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return {"cuDNN's convolution forward", p.x, p.w, forward};
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return {"cuDNN's convolution backward data", p.y, p.w, backward_data};
    default:
      return {"cuDNN's convolution backward filter", p.y, p.x, backward_filter};
  }
}

// cuDNN's documentation of CUDNN_POINTWISE_RELU_FWD names the clips, so infinity becomes the upper one. It does not
// specify what a NaN becomes if it is not propagated.
double apply(const Relu& relu, double value) {
  if (value != value) return relu.propagates_nan ? value : 0;
  return std::min(value < 0 ? 0 : value, relu.upper);
}

}  // namespace
}  // namespace graph

cudnnStatus_t execute(const Library& library, const Descriptor& plan, const Descriptor& pack) {
  const Descriptor& engine =
      *plan.descriptor(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
           ->descriptor(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  const graph::Problem problem =
      *graph::read(*engine.descriptor(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR));
  const auto index = static_cast<Engine>(engine.get<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX));
  const auto needed = static_cast<std::size_t>(plan.get<std::int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
  const graph::Direction direction = graph::direction_of(problem);

  const auto uids = pack.all<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = pack.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  // The categories that cuDNN's reference names for cudnnBackendExecute.
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  const auto pointer_of = [&](const graph::Tensor& tensor) -> void* {
    const auto found = std::find(uids.begin(), uids.end(), tensor.uid);
    void* const pointer = found == uids.end() ? nullptr : pointers[static_cast<std::size_t>(found - uids.begin())];
    if (pointer == nullptr) {
      status = reject(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "a tensor has no pointer");
    } else if (reinterpret_cast<std::uintptr_t>(pointer) % static_cast<std::uintptr_t>(tensor.alignment) != 0) {
      status = reject(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "a pointer is less aligned than its tensor says");
    }
    return pointer;
  };
  const void *const a = pointer_of(direction.a), *const b = pointer_of(direction.b),
                    *const bias = problem.bias ? pointer_of(*problem.bias) : nullptr;
  void* const out = pointer_of(problem.out);
  void* const workspace = pack.get<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (needed > 0 && workspace == nullptr) return reject(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "there is no workspace");
  if (index == Engine::unready || declined() == Decline::to_run_any) {
    return reject(CUDNN_STATUS_NOT_SUPPORTED, "the plan does not run");
  }
  if (failure_of(index) == Decline::to_run) return reject(CUDNN_STATUS_EXECUTION_FAILED, "the kernel does not start");
  if (failure_of(index) == Decline::to_run_for_memory) {
    return reject(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, "there is no memory to run it");
  }

  return submit_to(library, direction.name, [=] {
    Operands operands(direction.name);
    scribble(operands, workspace, needed);
    operands.read(a, direction.a.bytes());
    operands.read(b, direction.b.bytes());
    if (problem.bias) operands.read(bias, problem.bias->bytes());
    operands.write(out, problem.out.bytes());
    const auto load = [&](const graph::Tensor& tensor, const void* data) {
      std::vector<double> values = graph::load(tensor, data);
      if (index == Engine::tensor_core && tensor.type == CUDNN_DATA_FLOAT) {
        std::transform(values.begin(), values.end(), values.begin(), to_tf32);
      }
      return values;
    };
    std::vector<double> result = direction.run(problem, load(direction.a, a), load(direction.b, b));
    if (index == Engine::nondeterministic) {
      for (double& value : result) value *= 1 + static_cast<double>(random_number() % 8) * 0x1p-23;
    }
    if (problem.bias) {
      const std::vector<double> add = graph::load(*problem.bias, bias);
      for (std::size_t i = 0; i < result.size(); ++i) result[i] += add[i % add.size()];
    }
    if (problem.relu) {
      for (double& value : result) value = graph::apply(*problem.relu, value);
    }
    graph::store(problem.out, out, result);
  });
}

}  // namespace cuda_on_cpu::dnn
