#include <cmath>

#include "kernels/cpu/expression.h"
#include "kernels/functors/dtype_dispatch.h"
#include "kernels/internal/publish_op.h"
#include "runtime/cpu/stream.h"

namespace giro::cpu {
namespace {

// The scalar as a double. All NaNs become the same one: signs and payloads depend on the code that computed them.
double number_at(const Tensor& scalar) {
  double number = NAN;
  functors::with_any(scalar.dtype(), [&]<class T>(functors::Type<T>) {
    if constexpr (is_16_bit(dtype_of<T>)) {
      number = static_cast<float>(*static_cast<const T*>(scalar.raw()));
    } else {
      number = static_cast<double>(*static_cast<const T*>(scalar.raw()));
    }
  });
  return number == number ? number : static_cast<double>(NAN);
}

}  // namespace

void run(const ops::Publish& op, const Stream& stream) {
  submit(stream, [op] {
    for (const ops::Counter& counter : op.counters) *static_cast<std::int64_t*>(counter.count.raw()) += counter.by;
    auto* const row = static_cast<std::int64_t*>(op.row().raw());
    double* const out = op.ring.values + static_cast<std::size_t>(*row % op.ring.capacity) * op.row_columns + op.first;
    for (std::size_t c = 0; c < op.scalars.size(); ++c) out[c] = number_at(op.scalars[c]);
    if (op.ends_row()) *op.ring.published = ++*row;
  });
}

void run(const ops::RunAndPublish& op, const Stream& stream) {
  cpu::run(op.expression, stream);
  cpu::run(op.row, stream);
}

}  // namespace giro::cpu
