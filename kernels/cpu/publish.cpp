#include "kernels/functors/publish.h"

#include "kernels/cpu/expression.h"
#include "kernels/internal/backends.h"
#include "runtime/cpu/stream.h"

namespace giro::cpu {

void publish_columns(const RowRing& ring, const Tensor& row, const RowPart& part, const Stream& stream) {
  submit(stream, [ring, counter = row.data<std::int64_t>(), part] {
    part.count();
    double* out = ring.values + (*counter % ring.capacity) * part.row_columns + part.first;
    for (int c = 0; c < part.columns; ++c) out[c] = part.read(c);
    if (part.ends_row()) *ring.published = ++*counter;
  });
}

void run_and_publish(const pointwise::Expression& expression, const RowRing& ring, const Tensor& row,
                     const RowPart& part, const Stream& stream) {
  run(expression, stream);
  publish_columns(ring, row, part, stream);
}

}  // namespace giro::cpu
