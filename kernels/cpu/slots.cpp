#include <cstring>

#include "kernels/functors/slots.h"
#include "kernels/internal/ops.h"
#include "runtime/cpu/stream.h"

namespace giro::cpu {

void run(const ops::ReadSlot& op, const Stream& stream) {
  submit(stream, [to = op.out.raw(), bytes = op.out.bytes(), slot = functors::CurrentSlot(op.ring()),
                  offset = op.offset] { std::memcpy(to, slot() + offset, bytes); });
}

void run(const ops::WriteSlot& op, const Stream& stream) {
  submit(stream, [from = op.in.raw(), bytes = op.in.bytes(), slot = functors::CurrentSlot(op.ring()),
                  offset = op.offset] { std::memcpy(slot() + offset, from, bytes); });
}

}  // namespace giro::cpu
