#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <giro/runtime/dtype.h>
#include <giro/runtime/shape.h>

namespace giro {

// The rows of a feature, read when a batch is made, so that they need not fit into memory (Dataset). There is at least
// one. A row is the same bytes whenever it is read, and on every rank: ranks, and a resumed run with the run before it,
// compare a checksum of up to 511 rows, for which these are read once, by partition() or the first checkpoint.
class RowSource {
 public:
  virtual ~RowSource() = default;

  virtual std::int64_t num_rows() const = 0;
  virtual DType dtype() const = 0;
  virtual Shape row_shape() const = 0;
  // Writes the rows with these indices to `to`, one after the other, aligned like a Buffer. Several threads may call it
  // at once. The iterator throws what it throws.
  virtual void read(std::span<const std::int64_t> rows, void* to) const = 0;
};

}  // namespace giro
