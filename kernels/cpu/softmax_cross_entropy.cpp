#include "kernels/internal/backends.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/for_each.h"
#include "kernels/functors/dtype_dispatch.h"

namespace giro::cpu {
namespace {

template <class Label>
void row(float* loss, float* gradient, const float* logits, std::int64_t classes, Label label) {
  const bool valid = label >= 0 && static_cast<std::int64_t>(label) < classes;
  if (!valid) {
    *loss = std::numeric_limits<float>::quiet_NaN();
    if (gradient != nullptr) std::fill_n(gradient, classes, *loss);
    return;
  }
  const float largest = *std::max_element(logits, logits + classes);
  const float at_label = logits[label];
  double total = 0;  // of a million classes, a float would keep three digits
  for (std::int64_t c = 0; c < classes; ++c) {
    const float e = std::exp(logits[c] - largest);
    total += static_cast<double>(e);
    if (gradient != nullptr) gradient[c] = e;
  }
  *loss = static_cast<float>(std::log(total)) + (largest - at_label);
  if (gradient != nullptr) {
    const float divisor = static_cast<float>(total);
    for (std::int64_t c = 0; c < classes; ++c) gradient[c] /= divisor;
    gradient[label] -= 1.0f;
  }
}

}  // namespace

void softmax_cross_entropy(const Tensor& losses, const Tensor& dlogits, const Tensor& logits, const Tensor& labels,
                           const Stream& stream) {
  functors::with_integer(labels.dtype(), [&]<class Label>(functors::Type<Label>) {
    submit(stream, [loss = losses.data<float>(), gradient = dlogits ? dlogits.data<float>() : nullptr,
                    logit = logits.data<float>(), label = labels.data<Label>(), rows = logits.shape()[0],
                    classes = logits.shape()[1]] {
      constexpr std::int64_t kRows = 16;
      constexpr std::int64_t kCostOfExp = 8;
      for_each_block(rows, kRows, rows * classes * kCostOfExp, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r) {
          row(loss + r, gradient == nullptr ? nullptr : gradient + r * classes, logit + r * classes, classes, label[r]);
        }
      });
    });
  });
}

}  // namespace giro::cpu
