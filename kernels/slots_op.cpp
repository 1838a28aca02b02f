#include "kernels/slots_op.h"

#include "kernels/batch_op.h"
#include "runtime/throw_error.h"

namespace giro::ops {

void check_ring(std::string_view op, const ByteRing& ring, const Stream& stream, std::int64_t offset,
                std::int64_t bytes) {
  if (!ring.slots.device().is_cpu()) detail::expect_on_device(op, ring.slots, stream.device());
  detail::expect_on_device(op, ring.call, stream.device());
  if (ring.count() < 1 || ring.bytes() % ByteRing::kAlignment != 0) {
    throw_shape("{}: slots is {}, expected one or more slots, each a multiple of {} bytes", op, to_string(ring.slots),
                static_cast<int>(ByteRing::kAlignment));
  }
  if (offset < 0 || offset % ByteRing::kAlignment != 0 || offset + bytes > ring.bytes()) {
    throw_invalid(
        "{}: bytes [{}, {}) of slots of {} bytes, expected a range within a slot that begins at a multiple of {}", op,
        offset, offset + bytes, ring.bytes(), static_cast<int>(ByteRing::kAlignment));
  }
}

void BatchIndices::check(std::string_view name, const Stream& stream) const {
  detail::expect_on_device(name, indices, stream.device());
  check_ring(name, positions(), stream);
  if (order.size >= 1) return;
  throw_invalid("{}: an order of {} rows, expected at least 1", name, order.size);
}

}  // namespace giro::ops
