#include "kernels/cuda/kernel_launch.cuh"
#include "kernels/host_device/current_slot.h"
#include "kernels/ops.h"

namespace giro::cuda {
namespace {

// Copies between a slot and memory elsewhere.
template <bool kReads, class Unit>
struct CopySlot {
  Unit* content;
  host_device::CurrentSlot slot;
  std::int64_t offset;
  GIRO_HOST_DEVICE void operator()(std::int64_t i) const {
    Unit& in_slot = reinterpret_cast<Unit*>(slot() + offset)[i];
    if constexpr (kReads) {
      content[i] = in_slot;
    } else {
      in_slot = content[i];
    }
  }
};

template <bool kReads>
void copy_slot(const Tensor& content, const ByteRing& ring, std::int64_t offset, const Stream& stream) {
  // Slots are always aligned.
  with_unit(reinterpret_cast<std::uintptr_t>(content.raw()) | content.bytes(), [&]<class Unit>(Unit) {
    for_each(stream, static_cast<std::int64_t>(content.bytes() / sizeof(Unit)),
             CopySlot<kReads, Unit>{static_cast<Unit*>(content.raw()), host_device::CurrentSlot(ring), offset});
  });
}

}  // namespace

void run(const ops::ReadSlot& op, const Stream& stream) { copy_slot<true>(op.out, op.ring(), op.offset, stream); }
void run(const ops::WriteSlot& op, const Stream& stream) { copy_slot<false>(op.in, op.ring(), op.offset, stream); }

}  // namespace giro::cuda
