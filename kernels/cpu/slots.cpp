#include <cstring>

#include "kernels/host_device/current_slot.h"
#include "kernels/ops.h"
#include "runtime/cpu/stream.h"

namespace giro::cpu {

void run(const ops::ReadSlot& op, const Stream& stream) {
  submit(stream, [to = op.out.raw(), bytes = op.out.bytes(), slot = host_device::CurrentSlot(op.ring()),
                  offset = op.offset] { std::memcpy(to, slot() + offset, bytes); });
}

void run(const ops::WriteSlot& op, const Stream& stream) {
  submit(stream, [from = op.in.raw(), bytes = op.in.bytes(), slot = host_device::CurrentSlot(op.ring()),
                  offset = op.offset] { std::memcpy(slot() + offset, from, bytes); });
}

}  // namespace giro::cpu
