#include <giro/kernels/sort.h>

#include <limits>

#include "kernels/checks.h"
#include "kernels/ops.h"
#include "runtime/throw_error.h"

namespace giro {

void argsort(const Tensor& indices, const Tensor& x, bool descending, const Stream& stream) {
  checks::on_device("argsort", {{"indices", indices}, {"x", x}}, stream);
  checks::has_rank("argsort", {"x", x}, 2);
  checks::has_dtype("argsort", {"indices", indices}, DType::i64);
  checks::has_rank("argsort", {"indices", indices}, 2);
  if (indices.shape()[0] != x.shape()[0] || indices.shape()[1] > x.shape()[1]) {
    throw_error(ErrorCode::shape_mismatch,
                "argsort: indices is {}, x is {}; expected equally many rows, none longer than those of x",
                to_string(indices), to_string(x));
  }
  if (x.shape()[1] > std::numeric_limits<std::uint32_t>::max()) {
    throw_error(ErrorCode::shape_mismatch, "argsort: x is {}, expected rows of fewer than 2^32 elements", to_string(x));
  }
  queue(ops::ArgSort{indices, x, descending}, stream);
}

}  // namespace giro
