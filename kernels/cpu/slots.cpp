#include <cstring>

#include "kernels/functors/slots.h"
#include "kernels/internal/backends.h"
#include "runtime/cpu/stream.h"

namespace giro::cpu {

void read_slot(const Tensor& out, const SlotRing& ring, std::int64_t offset, const Stream& stream) {
  submit(stream, [to = out.raw(), bytes = out.bytes(), slot = functors::CurrentSlot(ring), offset] {
    std::memcpy(to, slot() + offset, bytes);
  });
}

void write_slot(const SlotRing& ring, std::int64_t offset, const Tensor& in, const Stream& stream) {
  submit(stream, [from = in.raw(), bytes = in.bytes(), slot = functors::CurrentSlot(ring), offset] {
    std::memcpy(slot() + offset, from, bytes);
  });
}

}  // namespace giro::cpu
