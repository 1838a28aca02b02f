#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <string>

#include <giro/kernels/conv2d.h>
#include <giro/runtime/error.h>

#include "kernels/cuda/graph_plan.h"
#include "kernels/cuda/own_conv2d.h"
#include "kernels/elementwise.h"
#include "kernels/few_channels.h"
#include "kernels/ops.h"
#include "runtime/cuda/stream.h"
#include "runtime/temporary.h"
#include "runtime/throw_error.h"

namespace giro::cuda {
namespace {

using Result = Convolution::Result;

std::string text_of(const Convolution& c) {
  constexpr const char* kResults[] = {"y", "dx", "dw"};
  return fmt::format("{} of x {}, w {}, strides {}, padding {} before and {} after, dilation {}, in {}",
                     kResults[static_cast<int>(c.result)], to_string(c.x), to_string(c.w),
                     fmt::join(c.options.stride, " and "), fmt::join(c.options.pad_before, " and "),
                     fmt::join(c.options.pad_after, " and "), fmt::join(c.options.dilation, " and "), name_of(c.dtype));
}

// Runs cuDNN's best plan or, if it has none, giro's own kernel: own(), which computes the same from the op's operands.
// Returns whether cuDNN ran.
template <class Own>
bool run_best(const Convolution& convolution, const GraphArrays& arrays, const Stream& stream, Own&& own) {
  const std::optional<std::string> failure_reason = run_best_plan(convolution, arrays, stream);
  if (!failure_reason) return true;
  try {
    own();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    throw_error(ErrorCode::unsupported, "conv2d: no kernel computes {}. cuDNN: {}. giro's own kernel: {}",
                text_of(convolution), *failure_reason, error.what());
  }
  return false;
}

// Computes dw and db.
void backward_filter(const ops::Conv2dBackward& op, const Convolution& convolution, const Stream& stream) {
  if (op.db) {
    const std::int64_t channels = op.dz.shape()[3];
    cuda::run(ops::SumRows{op.db, op.dz.reshape({op.dz.count() / channels, channels})}, stream);
  }
  if (!op.dw) return;
  // For 16-bit images cuDNN computes 16-bit gradients.
  const bool rounds = op.dw.dtype() != op.x.dtype();
  const Temporary memory = rounds ? Temporary(op.x.dtype(), op.dw.shape(), stream) : Temporary();
  const Tensor& rounded = rounds ? memory : static_cast<const Tensor&>(op.dw);
  const bool by_cudnn =
      run_best(convolution, {{GraphArray::x, op.x.raw()}, {GraphArray::w, rounded.raw()}, {GraphArray::y, op.dz.raw()}},
               stream, [&] { tiled_conv2d_backward_filter(op.dw, op.dz, op.x, op.options, stream); });
  if (by_cudnn && rounds) ops::cast(op.dw, rounded, stream);
}

}  // namespace

void run(const ops::Conv2d& op, const Stream& stream) {
  if (op.y.count() == 0) return;
  if (FewChannels(op)) return few_channels_conv2d(op, stream);
  Convolution convolution{Result::y, op.x.shape(), op.w.shape(), op.y.shape(), op.options, op.y.dtype(), op.math};
  convolution.has_relu = op.has_relu;
  convolution.has_bias = op.b && op.b.dtype() == op.y.dtype();  // cuDNN adds no bias of another dtype
  void* const bias = convolution.has_bias ? op.b.raw() : nullptr;
  const bool by_cudnn = run_best(
      convolution,
      {{GraphArray::x, op.x.raw()}, {GraphArray::w, op.w.raw()}, {GraphArray::y, op.y.raw()}, {GraphArray::b, bias}},
      stream, [&] { tiled_conv2d(op.y, op.x, op.w, op.b, op.has_relu, op.options, stream); });
  if (by_cudnn && !convolution.has_bias) ops::add_bias(op.y, op.b, stream);
}

void run(const ops::Conv2dBackward& op, const Stream& stream) {
  if (op.dz.count() == 0) {
    for (const Tensor& gradient : {Tensor(op.dx), Tensor(op.dw), Tensor(op.db)}) {
      if (gradient) stream.fill(gradient.raw(), 0, gradient.bytes());
    }
    return;
  }
  Convolution convolution{Result::dw, op.x_shape(), op.w_shape(), op.dz.shape(), op.options, op.dz.dtype(), op.math};
  if (op.dw && FewChannels(op)) {
    few_channels_conv2d_backward_filter(op, stream);
  } else {
    backward_filter(op, convolution, stream);
  }
  if (op.dx) {
    convolution.result = Result::dx;
    run_best(convolution, {{GraphArray::x, op.dx.raw()}, {GraphArray::w, op.w.raw()}, {GraphArray::y, op.dz.raw()}},
             stream, [&] { tiled_conv2d_backward_data(op.dx, op.dz, op.w, op.options, stream); });
  }
}

}  // namespace giro::cuda
