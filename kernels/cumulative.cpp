#include <giro/kernels/cumulative.h>

#include "kernels/checks.h"
#include "kernels/ops.h"
#include "runtime/throw_error.h"

namespace giro {

void cumulative(const Tensor& y, const Tensor& x, Cumulative of, bool reversed, const Stream& stream) {
  checks::on_device("cumulative", {{"y", y}, {"x", x}}, stream);
  checks::has_rank("cumulative", {"x", x}, 2);
  checks::same_dtype("cumulative", {"y", y}, {"x", x});
  checks::same_shape("cumulative", {"y", y}, {"x", x});
  if (x.dtype() == DType::boolean) {
    throw_error(ErrorCode::dtype_mismatch, "cumulative: x is {}, expected a numeric dtype", to_string(x));
  }
  queue(ops::Cumulative{y, x, of, reversed}, stream);
}

}  // namespace giro
