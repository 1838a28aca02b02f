#pragma once

#include <cstdint>

#include <giro/kernels/gather.h>
#include <giro/runtime/host_device.h>
#include <giro/runtime/tensor.h>

namespace giro::functors {

struct BatchIndices {
  std::int64_t* indices;
  const std::int64_t* position;
  RowOrder order;
  GIRO_HOST_DEVICE void operator()(std::int64_t r) const { indices[r] = order(position[0] + r); }
};

template <class ForEach>
void batch_indices(const ForEach& for_each, const Tensor& indices, const Tensor& position, const RowOrder& order) {
  for_each(indices.count(), BatchIndices{indices.data<std::int64_t>(), position.data<std::int64_t>(), order});
}

}  // namespace giro::functors
