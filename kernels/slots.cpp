#include <giro/kernels/slots.h>

#include "kernels/checks.h"
#include "kernels/ops.h"
#include "runtime/throw_error.h"

namespace giro {
namespace {

void check(std::string_view op, const ByteRing& ring, std::int64_t offset, const checks::Argument& content,
           const Stream& stream) {
  checks::is_slot_ring(op, ring, stream);
  checks::on_device(op, {content}, stream);
  const auto bytes = static_cast<std::int64_t>(content.tensor.bytes());
  if (offset < 0 || offset % ByteRing::kAlignment != 0 || offset + bytes > ring.bytes()) {
    throw_error(ErrorCode::invalid_argument,
                "{}: bytes [{}, {}) of slots of {} bytes, expected a range within a slot that begins at a "
                "multiple of {}",
                op, offset, offset + bytes, ring.bytes(), static_cast<int>(ByteRing::kAlignment));
  }
}

}  // namespace

void read_slot(const Tensor& out, const ByteRing& ring, std::int64_t offset, const Stream& stream) {
  check("read_slot", ring, offset, {"out", out}, stream);
  if (out.count() == 0) return;
  queue(ops::ReadSlot{out, ring.slots, ring.call, offset}, stream);
}

void write_slot(const ByteRing& ring, std::int64_t offset, const Tensor& in, const Stream& stream) {
  check("write_slot", ring, offset, {"in", in}, stream);
  if (in.count() == 0) return;
  queue(ops::WriteSlot{ring.slots, ring.call, in, offset}, stream);
}

}  // namespace giro
