#pragma once

#include <cstdint>
#include <span>

#include <giro/runtime/dtype.h>
#include <giro/runtime/shape.h>

namespace giro {

// The rows of a feature, at least one, read when a batch is made, so that they need not fit into memory (Dataset). A
// row must have the same bytes whenever it is read, and on every rank: ranks, and a resumed run with the saved one,
// compare a checksum of up to 511 rows. partition() or the first checkpoint reads these once.
class RowSource {
 public:
  virtual ~RowSource() = default;

  virtual std::int64_t num_rows() const = 0;
  virtual DType dtype() const = 0;
  virtual Shape row_shape() const = 0;
  // Writes the rows with these indices to `to`, one after the other, aligned like a Buffer. Several threads may call it
  // at once. The iterator passes on its exceptions.
  virtual void read(std::span<const std::int64_t> rows, void* to) const = 0;
};

}  // namespace giro
