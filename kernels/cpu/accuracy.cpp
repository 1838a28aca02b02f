#include "kernels/internal/backends.h"

#include "kernels/cpu/is_correct.h"
#include "kernels/functors/dtype_dispatch.h"
#include "runtime/cpu/stream.h"

namespace giro::cpu {
void accuracy(const Tensor& out, const Tensor& logits, const Tensor& labels, const Stream& stream) {
  functors::with_integer(labels.dtype(), [&]<class Label>(functors::Type<Label>) {
    submit(stream, [out = out.data<float>(), logits = logits.data<float>(), labels = labels.data<Label>(),
                    rows = logits.shape()[0], classes = logits.shape()[1]] {
      std::int64_t correct = 0;
      for (std::int64_t r = 0; r < rows; ++r) correct += is_correct(logits + r * classes, classes, labels[r]);
      *out = static_cast<float>(static_cast<double>(correct) / static_cast<double>(rows));
    });
  });
}

void correct(const Tensor& out, const Tensor& logits, const Tensor& labels, const Stream& stream) {
  functors::with_integer(labels.dtype(), [&]<class Label>(functors::Type<Label>) {
    submit(stream, [out = out.data<float>(), logits = logits.data<float>(), labels = labels.data<Label>(),
                    rows = logits.shape()[0], classes = logits.shape()[1]] {
      for (std::int64_t r = 0; r < rows; ++r) {
        out[r] = is_correct(logits + r * classes, classes, labels[r]) ? 1.0f : 0.0f;
      }
    });
  });
}

}  // namespace giro::cpu
