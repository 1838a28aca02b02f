#include <atomic>
#include <bit>
#include <cmath>

#include "kernels/expr/expression_op.h"
#include "kernels/ops.h"
#include "runtime/cpu/stream.h"
#include "runtime/dtype_dispatch.h"

namespace giro::cpu {
namespace {

// The scalar as a double. All NaNs become the same one: signs and payloads depend on the code that computed them.
double number_at(const Tensor& scalar) {
  double number = NAN;
  host_device::with_any(scalar.dtype(), [&]<class T>(host_device::Type<T>) {
    number = static_cast<double>(*static_cast<const T*>(scalar.raw()));
  });
  return number == number ? number : static_cast<double>(NAN);
}

}  // namespace

void run(const ops::Publish& op, const Stream& stream) {
  submit(stream, [op] {
    for (const ops::Counter& counter : op.counters) *static_cast<std::int64_t*>(counter.count.raw()) += counter.by;
    auto* const row = static_cast<std::int64_t*>(op.row().raw());
    std::uint64_t* word = op.ring.slot(*row) + 2 * op.first;
    const std::uint64_t tag = std::uint64_t{static_cast<std::uint32_t>(*row)} << 32;
    const auto store = [&](std::uint64_t half) {
      std::atomic_ref<std::uint64_t>(*word++).store(tag | half, std::memory_order_release);
    };
    for (const Tensor& scalar : op.scalars) {
      const auto bits = std::bit_cast<std::uint64_t>(number_at(scalar));
      store(bits & 0xffffffffu);
      store(bits >> 32);
    }
    if (op.ring.columns == 0) store(0);
    if (op.ends_row()) ++*row;
  });
}

void run(const ops::RunAndPublish& op, const Stream& stream) {
  cpu::run(op.expression, stream);
  cpu::run(op.row, stream);
}

}  // namespace giro::cpu
