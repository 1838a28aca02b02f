#include <giro/kernels/publish.h>

#include <fmt/format.h>

#include <algorithm>

#include <giro/runtime/error.h>

#include "kernels/functors/publish.h"
#include "kernels/internal/backends.h"
#include "kernels/internal/checks.h"
#include "kernels/internal/dispatch.h"
#include "kernels/internal/publish_part.h"

namespace giro {

void publish_part(const RowRing& ring, const Tensor& row, const RowPart& part, const Stream& stream) {
  std::vector<Tensor> writes, reads{row};
  const auto scalar = [&](const void* data, DType dtype) {
    return Tensor(const_cast<void*>(data), dtype, {}, stream.device());
  };
  for (int c = 0; c < part.columns; ++c) reads.push_back(scalar(part.scalars[c], part.dtypes[c]));
  for (int c = 0; c < part.num_counters; ++c) writes.push_back(scalar(part.counters[c], DType::i64));
  if (part.ends_row()) writes.push_back(row);
  GIRO_QUEUE(stream, publish_columns, (ring, row, part), writes, reads);
}

void publish_row(const RowRing& ring, const Tensor& row, const std::vector<Tensor>& scalars, const Stream& stream) {
  constexpr std::string_view op = "publish_row";
  checks::on_device(op, {{"row", row}}, stream);
  checks::has_dtype(op, {"row", row}, DType::i64);
  checks::has_shape(op, {"row", row}, {});
  if (ring.capacity < 1) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("publish_row: a ring of {} rows, expected at least 1", ring.capacity));
  }
  for (const Tensor& scalar : scalars) {
    checks::on_device(op, {{"scalar", scalar}}, stream);
    checks::has_shape(op, {"scalar", scalar}, {});
  }
  // A kernel publishes so many, a lane each; the last of them counts the row.
  std::size_t first = 0;
  do {
    const std::size_t columns = std::min<std::size_t>(RowPart::kMaxColumns, scalars.size() - first);
    const RowPart part(scalars, first, columns);
    publish_part(ring, row, part, stream);
    first += columns;
  } while (first < scalars.size());
}

}  // namespace giro
