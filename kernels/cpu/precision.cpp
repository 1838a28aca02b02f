#include "kernels/precision_support.h"

#include <fmt/format.h>

#include "kernels/cpu/one_dnn.h"

namespace giro::cpu {
namespace {

using dnnl::memory;

// Whether oneDNN has convolutions of that dtype on this CPU. They are the most demanding ops of a model.
bool convolves(DType dtype) {
  const auto type = one_dnn::data_type(dtype);
  const memory::desc x({1, 16, 4, 4}, type, memory::format_tag::nhwc), w({16, 16, 3, 3}, type, memory::format_tag::any);
  const memory::desc y({1, 16, 2, 2}, type, memory::format_tag::nhwc);
  const memory::desc dw({16, 16, 3, 3}, memory::data_type::f32, memory::format_tag::any), no_bias;
  const memory::dims one{1, 1}, none{0, 0};
  const auto direct = dnnl::algorithm::convolution_direct;
  try {
    const auto forward = one_dnn::describe<dnnl::convolution_forward>(
        one_dnn::skips_none, dnnl::prop_kind::forward_training, direct, x, w, no_bias, y, one, none, none);
    one_dnn::describe_backward<dnnl::convolution_backward_weights>(one_dnn::skips_none, forward, direct, x, dw, no_bias,
                                                                   y, one, none, none);
    return true;
  } catch (const dnnl::error&) {
    return false;
  }
}

// oneDNN emulates bf16 on CPUs without it, at a fraction of the speed of f32.
bool has_bf16() {
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto wanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  return (isa & wanted) == wanted;
}

}  // namespace

std::string unsupported_reason(Precision precision, Device) {
  switch (precision) {
    case Precision::f32:
      return "";
    case Precision::tf32:
      return "it requires a GPU of compute capability 8.0 or later";
    case Precision::bf16:
      return has_bf16() && convolves(DType::bf16) ? "" : "it requires a processor with AVX512_BF16 or AMX";
    case Precision::f16:
      if (convolves(DType::f16)) return "";
      const dnnl_version_t* const version = dnnl_version();
      return fmt::format("it requires a processor with AVX512_FP16 and oneDNN 3 or later, found oneDNN {}.{}",
                         version->major, version->minor);
  }
  return "";
}

}  // namespace giro::cpu
