#include <giro/kernels/publish.h>

#include <fmt/format.h>

#include <giro/runtime/error.h>

#include "kernels/internal/backends.h"
#include "kernels/internal/checks.h"
#include "kernels/internal/dispatch.h"

namespace giro {

void publish_row(const RowRing& ring, const Tensor& row, const std::vector<Tensor>& scalars, const Stream& stream) {
  constexpr std::string_view op = "publish_row";
  checks::on_device(op, {{"row", row}}, stream);
  checks::has_dtype(op, {"row", row}, DType::i64);
  checks::has_shape(op, {"row", row}, {});
  if (scalars.size() > RowRing::kMaxColumns || ring.capacity < 1) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("publish_row: {} scalars into a ring of {} rows, expected at most {} scalars and a row",
                            scalars.size(), ring.capacity, RowRing::kMaxColumns));
  }
  for (const Tensor& scalar : scalars) {
    checks::on_device(op, {{"scalar", scalar}}, stream);
    checks::has_shape(op, {"scalar", scalar}, {});
    if (scalar.dtype() != DType::i32 && scalar.dtype() != DType::i64 && scalar.dtype() != DType::f64) {
      checks::has_dtype(op, {"scalar", scalar}, DType::f32);
    }
  }
  GIRO_DISPATCH(stream, publish_row, ring, row, scalars);
}

}  // namespace giro
