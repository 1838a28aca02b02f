#include "kernels/cuda/for_each.cuh"
#include "kernels/functors/slots.h"
#include "kernels/internal/ops.h"

namespace giro::cuda {
namespace {

template <class Unit>
struct ReadSlot {
  Unit* out;
  functors::CurrentSlot slot;
  std::int64_t offset;
  GIRO_HOST_DEVICE void operator()(std::int64_t i) const { out[i] = reinterpret_cast<const Unit*>(slot() + offset)[i]; }
};

template <class Unit>
struct WriteSlot {
  const Unit* in;
  functors::CurrentSlot slot;
  std::int64_t offset;
  GIRO_HOST_DEVICE void operator()(std::int64_t i) const { reinterpret_cast<Unit*>(slot() + offset)[i] = in[i]; }
};

// Slots are always aligned.
template <class F>
void in_units(const Tensor& content, const F& copy) {
  with_unit(reinterpret_cast<std::uintptr_t>(content.raw()) | content.bytes(), copy);
}

}  // namespace

void run(const ops::ReadSlot& op, const Stream& stream) {
  in_units(op.out, [&]<class Unit>(Unit) {
    ForEach{stream}(static_cast<std::int64_t>(op.out.bytes() / sizeof(Unit)),
                    ReadSlot<Unit>{static_cast<Unit*>(op.out.raw()), functors::CurrentSlot(op.ring()), op.offset});
  });
}

void run(const ops::WriteSlot& op, const Stream& stream) {
  in_units(op.in, [&]<class Unit>(Unit) {
    ForEach{stream}(
        static_cast<std::int64_t>(op.in.bytes() / sizeof(Unit)),
        WriteSlot<Unit>{static_cast<const Unit*>(op.in.raw()), functors::CurrentSlot(op.ring()), op.offset});
  });
}

}  // namespace giro::cuda
