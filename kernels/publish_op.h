#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <giro/kernels/publish.h>

#include "kernels/expr/expression_op.h"

namespace giro {
namespace ops {

struct Counter {
  InOut count{};  // i64 scalar
  std::int64_t by = 0;
};

// Publishes consecutive scalars of a row (publish.h). The op that ends the row increments `counters` first, and the
// row's number last.
struct Publish {
  static constexpr bool kIsSequence = true;
  static constexpr const char* kName = "publish_columns";
  static constexpr std::size_t kMaxColumns = 32;
  ScalarRing ring{};
  // The row's number: `counted` in the op that ends the row and increments it, `uncounted` in the others.
  In uncounted{};
  std::vector<Counter> counters{};
  std::vector<In> scalars{};
  InOut counted{};
  std::int64_t first = 0;  // column of the first scalar

  bool ends_row() const { return static_cast<bool>(counted); }
  Tensor row() const { return ends_row() ? Tensor(counted) : Tensor(uncounted); }
};

// An expression without reductions, followed by a whole row.
struct RunAndPublish {
  static constexpr bool kIsSequence = true;
  expr::Expression expression;
  Publish row;
};
Program::Node node_of(std::string name, const RunAndPublish& op);

}  // namespace ops

// Appends a row of zero or more scalars of any dtype; integers are exact up to 2^53. `row`, an i64 scalar on the
// device, is the row's number and is incremented. The host must not let the device get more than `capacity` rows ahead.
// Errors: shape_mismatch, dtype_mismatch, device_mismatch; invalid_argument for a capacity that is not a power of two,
// or if the number of scalars is not the ring's columns.
void publish_row(const ScalarRing& ring, const Tensor& row, const std::vector<Tensor>& scalars, const Stream& stream);

}  // namespace giro
