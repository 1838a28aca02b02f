#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "kernels/cpu/one_dnn.h"
#include "kernels/cpu/winograd.h"
#include "kernels/elementwise.h"
#include "kernels/ops.h"

namespace giro::cpu {
namespace {

using dnnl::memory;

// Identifies a convolution.
struct Key {
  Shape x, w, y;
  DType dtype;                         // of x, w and y
  std::optional<DType> b, dw;          // if requested
  std::optional<memory::desc> layout;  // required of w or dw
  Conv2dOptions options;
  bool operator==(const Key&) const = default;
};

// Filters (O, KH, KW, C) as oneDNN names their axes; with groups the first axis is the group.
memory::desc filters(const Key& key, DType dtype) {
  const std::int64_t groups = key.options.groups, o = key.w[0] / groups, h = key.w[1], w = key.w[2], c = key.w[3];
  memory::dims dims{groups, o, c, h, w}, strides{o * h * w * c, h * w * c, 1, w * c, c};
  if (groups == 1) dims.erase(dims.begin()), strides.erase(strides.begin());
  return {dims, one_dnn::data_type(dtype), strides};
}

// A convolution's oneDNN descriptors. Filters may be reordered into the layout that oneDNN computes fastest with.
struct Convolution {
  memory::dims stride, dilation, pad_before, pad_after;
  memory::desc x, w_given, w_any, dw_any, b, y;

  explicit Convolution(const Key& key)
      : stride(key.options.stride.begin(), key.options.stride.end()),
        dilation{key.options.dilation[0] - 1, key.options.dilation[1] - 1},  // between taps
        pad_before(key.options.pad_before.begin(), key.options.pad_before.end()),
        // Only as far as the windows reach: the stride may leave some of the given padding unused.
        pad_after{(key.y[1] - 1) * stride[0] + (key.w[1] - 1) * key.options.dilation[0] + 1 - key.x[1] - pad_before[0],
                  (key.y[2] - 1) * stride[1] + (key.w[2] - 1) * key.options.dilation[1] + 1 - key.x[2] - pad_before[1]},
        x(one_dnn::images(key.x, key.dtype)),
        w_given(filters(key, key.dtype)),
        w_any(one_dnn::dims_of(w_given), one_dnn::data_type(key.dtype), memory::format_tag::any),
        y(one_dnn::images(key.y, key.dtype)) {
    if (key.b) b = memory::desc({key.w[0]}, one_dnn::data_type(*key.b), memory::format_tag::x);
    if (!key.dw) {
      if (key.layout) w_any = *key.layout;
      return;
    }
    dw_any = key.layout.value_or(
        memory::desc(one_dnn::dims_of(w_given), one_dnn::data_type(*key.dw), memory::format_tag::any));
  }
};

constexpr auto kDirect = dnnl::algorithm::convolution_direct;

// oneDNN's 1 x 1 convolutions with a stride write beyond their scratchpad where a vector has more lanes than there are
// channels left (seen in 2.6 on AVX2). Another implementation does not.
auto overruns_scratchpad(const Key& key) {
  const bool may =
      key.w[1] == 1 && key.w[2] == 1 && key.w[3] % 8 != 0 && std::max(key.options.stride[0], key.options.stride[1]) > 1;
  return [may](std::string_view implementation) { return may && implementation.starts_with("jit_1x1"); };
}

dnnl::convolution_forward::primitive_desc describe_forward(const Convolution& c, const Key& key) {
  return one_dnn::describe<dnnl::convolution_forward>(overruns_scratchpad(key), dnnl::prop_kind::forward_training,
                                                      kDirect, c.x, c.w_any, c.b, c.y, c.stride, c.dilation,
                                                      c.pad_before, c.pad_after);
}

struct Forward : Convolution, one_dnn::Kernel<dnnl::convolution_forward> {
  static constexpr int kX = DNNL_ARG_SRC, kY = DNNL_ARG_DST;
  explicit Forward(const Key& key) : Convolution(key), Kernel(describe_forward(*this, key)) {}
  memory::desc layout() const { return desc.weights_desc(); }
};

struct BackwardWeights : Convolution, one_dnn::Kernel<dnnl::convolution_backward_weights> {
  explicit BackwardWeights(const Key& key)
      : Convolution(key),
        Kernel(one_dnn::describe_backward<dnnl::convolution_backward_weights>(
            overruns_scratchpad(key), describe_forward(*this, key), kDirect, x, dw_any, b, y, stride, dilation,
            pad_before, pad_after)) {}
  memory::desc layout() const { return desc.diff_weights_desc(); }
};

struct BackwardData : Convolution, one_dnn::Kernel<dnnl::convolution_backward_data> {
  static constexpr int kX = DNNL_ARG_DIFF_SRC, kY = DNNL_ARG_DIFF_DST;
  explicit BackwardData(const Key& key)
      : Convolution(key),
        Kernel(one_dnn::describe_backward<dnnl::convolution_backward_data>(
            overruns_scratchpad(key), describe_forward(*this, key), kDirect, x, w_any, y, stride, dilation, pad_before,
            pad_after)) {}
  memory::desc layout() const { return desc.weights_desc(); }
};

// The number of multiplications in one direction.
std::int64_t work_of(const Shape& y, const Shape& w) { return y.count() * w.drop_front().count(); }

// Calls f(kernel, begin, end) for each part of `size` images. All kernels use the same filter layout.
template <class Made, class F>
void for_parts(Key key, std::int64_t size, const F& f) {
  const std::int64_t images = key.x[0];
  std::shared_ptr<const Made> kernel;
  for (std::int64_t begin = 0; begin < images; begin += size) {
    const std::int64_t end = std::min(begin + size, images);
    if (begin == 0 || end - begin < size) {
      key.x = key.x.drop_front().with_front(end - begin);
      key.y = key.y.drop_front().with_front(end - begin);
      kernel = one_dnn::kernel_of<Made>(key);
      key.layout = kernel->layout();
    }
    f(*kernel, begin, end);
  }
}

// Queues y = conv(x, w) + b, or the gradient x of a given y. b may be empty.
template <class Made>
void convolve(const char* name, const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y, const Key& key,
              const Stream& stream) {
  one_dnn::Parts parts;
  memory weights;
  const std::int64_t size = one_dnn::part_size(x.shape()[0], work_of(y.shape(), w.shape()));
  for_parts<Made>(key, size, [&](const Made& c, std::int64_t begin, std::int64_t end) {
    if (begin == 0) weights = one_dnn::in_layout(stream, one_dnn::memory(w, c.w_given), c.layout());
    one_dnn::Arguments arguments{{Made::kX, one_dnn::memory(x.rows(begin, end), c.x)},
                                 {DNNL_ARG_WEIGHTS, weights},
                                 {Made::kY, one_dnn::memory(y.rows(begin, end), c.y)}};
    if (b) arguments.emplace(DNNL_ARG_BIAS, one_dnn::memory(b, c.b));
    parts.add(c, std::move(arguments));
  });
  std::move(parts).submit(stream, name);
}

void backward_weights(const Tensor& dw, const Tensor& db, const Tensor& dz, const Tensor& x, const Key& of,
                      const Stream& stream) {
  // The parts' results are summed at the end. These limits keep the sum cheap compared with the parts.
  constexpr std::int64_t kMaxParts = 16, kMinPixels = 512;
  const std::int64_t pixels = dz.count() / dz.shape()[3], images = dz.shape()[0];
  const std::int64_t size = one_dnn::part_size(images, work_of(dz.shape(), of.w),
                                               std::clamp<std::int64_t>(pixels / kMinPixels, 1, kMaxParts));
  const std::int64_t count = (images + size - 1) / size;
  Key key = of;
  key.dw = count > 1 ? DType::f32 : dw.dtype();
  key.b = db && count > 1 ? DType::f32 : one_dnn::dtype_of(db);
  one_dnn::Parts parts;
  memory given, computed;
  Temporary dws, dbs;  // the parts' results, if there are several
  for_parts<BackwardWeights>(key, size, [&](const BackwardWeights& c, std::int64_t begin, std::int64_t end) {
    if (begin == 0) {
      given = one_dnn::memory(dw, filters(key, dw.dtype()));
      computed = c.layout() == given.get_desc() ? given : memory(c.layout(), one_dnn::engine());
      if (count > 1) {
        const auto size_of_dw = static_cast<std::int64_t>(c.layout().get_size() / sizeof(float));
        dws = Temporary(DType::f32, {count, size_of_dw}, stream);
        if (db) dbs = Temporary(DType::f32, {count, db.count()}, stream);
      }
    }
    const std::int64_t i = begin / size;
    one_dnn::Arguments arguments{
        {DNNL_ARG_SRC, one_dnn::memory(x.rows(begin, end), c.x)},
        {DNNL_ARG_DIFF_DST, one_dnn::memory(dz.rows(begin, end), c.y)},
        {DNNL_ARG_DIFF_WEIGHTS, count > 1 ? one_dnn::memory(dws.rows(i, i + 1), c.layout()) : computed}};
    if (db) arguments.emplace(DNNL_ARG_DIFF_BIAS, one_dnn::memory(count > 1 ? dbs.rows(i, i + 1) : db, c.b));
    parts.add(c, std::move(arguments));
  });
  std::move(parts).submit(stream, "conv2d_backward");
  if (dws)
    cpu::run(ops::SumRows{Tensor(computed.get_data_handle(), DType::f32, {dws.shape()[1]}, dw.device()), dws}, stream);
  if (dbs) cpu::run(ops::SumRows{db, dbs}, stream);
  if (computed != given) one_dnn::reorder(stream, computed, given);
}

void sum_pixels(const Tensor& db, const Tensor& dz, const Stream& stream) {
  cpu::run(ops::SumRows{db, dz.reshape({dz.count() / dz.shape()[3], dz.shape()[3]})}, stream);
}

}  // namespace

void run(const ops::Conv2d& op, const Stream& stream) {
  if (op.y.count() == 0) return;
  if (winograd::fits(op.x.shape(), op.w.shape(), op.y.shape(), op.w.dtype(), op.options)) {
    return winograd::forward(op.y, op.x, op.w, op.b, op.options, stream);
  }
  one_dnn::checked("conv2d", [&] {
    const Key key{op.x.shape(), op.w.shape(), op.y.shape(), op.w.dtype(), one_dnn::dtype_of(op.b), {}, {}, op.options};
    convolve<Forward>("conv2d", op.x, op.w, op.b, op.y, key, stream);
  });
}

void run(const ops::Conv2dBackward& op, const Stream& stream) {
  if (op.dz.count() == 0) {
    for (const Tensor& out : std::initializer_list<Tensor>{op.dx, op.dw, op.db}) {
      if (out) ops::fill(out, 0, stream);
    }
    return;
  }
  if ((op.dw || op.dx) && winograd::fits(op.x_shape(), op.w_shape(), op.dz.shape(), op.dz.dtype(), op.options)) {
    if (op.dw) winograd::backward_weights(op.dw, op.dz, op.x, op.options, stream);
    if (op.db) sum_pixels(op.db, op.dz, stream);
    if (op.dx) winograd::backward_data(op.dx, op.dz, op.w, op.options, stream);
    return;
  }
  one_dnn::checked("conv2d_backward", [&] {
    const Key key{op.x_shape(), op.w_shape(), op.dz.shape(), op.dz.dtype(), {}, {}, {}, op.options};
    if (op.dw) {
      backward_weights(op.dw, op.db, op.dz, op.x, key, stream);
    } else if (op.db) {
      sum_pixels(op.db, op.dz, stream);
    }
    if (op.dx) convolve<BackwardData>("conv2d_backward", op.dx, op.w, Tensor(), op.dz, key, stream);
  });
}

}  // namespace giro::cpu
