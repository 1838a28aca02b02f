#pragma once

#include <cstdint>
#include <vector>

#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro {

// Where a step's scalars go: a ring of rows in memory that host and device share. Row r, counted from 0, is at
// values[(r % capacity) * columns]. `published` is the number of rows written so far and is stored after the row.
struct RowRing {
  double* values = nullptr;           // pinned
  std::int64_t* published = nullptr;  // pinned
  std::int64_t capacity = 0;
};

// Appends a row of zero or more scalars of any dtype; integers are exact up to 2^53. `row` is an i64 scalar on the
// device, the number of the row; it is incremented. The host must not let the device get more than `capacity` rows
// ahead. Errors: shape_mismatch, dtype_mismatch, device_mismatch; invalid_argument for a ring without rows.
void publish_row(const RowRing& ring, const Tensor& row, const std::vector<Tensor>& scalars, const Stream& stream);

}  // namespace giro
