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

template <class ForEach>
void batch_indices(const ForEach& for_each, const Tensor& indices, const SlotRing& positions, const RowOrder& order) {
  for_each(indices.count(), BatchIndices{indices.data<std::int64_t>(), CurrentSlot(positions), order});
}

}  // namespace giro::functors
