#pragma once

#include <cstdint>

#include <giro/kernels/gather.h>
#include <giro/runtime/host_device.h>
#include <giro/runtime/tensor.h>

#include "kernels/functors/slots.h"

namespace giro::functors {

struct BatchIndices {
  std::int64_t* indices;
  CurrentSlot position;
  RowOrder order;
  GIRO_HOST_DEVICE void operator()(std::int64_t r) const {
    indices[r] = order(*reinterpret_cast<const std::int64_t*>(position()) + r);
  }
};

// The result for an index out of range, repeated to fill eight bytes: NaN, or 0 if the dtype is not floating.
inline std::uint64_t missing(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 0x7FC000007FC00000;
    case DType::f64:
      return 0x7FF8000000000000;
    case DType::bf16:
      return 0x7FC07FC07FC07FC0;
    case DType::f16:
      return 0x7E007E007E007E00;
    default:
      return 0;
  }
}

template <class ForEach>
void batch_indices(const ForEach& for_each, const Tensor& indices, const SlotRing& positions, const RowOrder& order) {
  for_each(indices.count(), BatchIndices{indices.data<std::int64_t>(), CurrentSlot(positions), order});
}

}  // namespace giro::functors
