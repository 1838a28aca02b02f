#pragma once

#include <cstddef>
#include <cstdint>

#include <giro/kernels/row_order.h>
#include <giro/runtime/host_device.h>

#include "kernels/host_device/current_slot.h"

namespace giro::host_device {

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
  constexpr std::uint64_t kNan[] = {0x7FC000007FC00000, 0x7FC07FC07FC07FC0, 0x7E007E007E007E00,
                                    0x7FF8000000000000};  // in the order of DType
  return is_floating(dtype) ? kNan[static_cast<std::size_t>(dtype)] : 0;
}

}  // namespace giro::host_device
