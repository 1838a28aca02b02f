#pragma once

#include <cstdint>
#include <vector>

#include <giro/kernels/publish.h>
#include <giro/runtime/host_device.h>
#include <giro/runtime/tensor.h>

namespace giro::functors {

// The scalars of a row, as a kernel takes them by value.
struct RowSource {
  const void* scalars[RowRing::kMaxColumns];
  DType dtypes[RowRing::kMaxColumns];
  int columns = 0;

  explicit RowSource(const std::vector<Tensor>& tensors) : columns(static_cast<int>(tensors.size())) {
    for (int c = 0; c < columns; ++c) {
      scalars[c] = tensors[static_cast<std::size_t>(c)].raw();
      dtypes[c] = tensors[static_cast<std::size_t>(c)].dtype();
    }
  }

  GIRO_HOST_DEVICE double read(int column) const {
    switch (dtypes[column]) {
      case DType::f64:
        return *static_cast<const double*>(scalars[column]);
      case DType::i32:
        return *static_cast<const std::int32_t*>(scalars[column]);
      case DType::i64:
        return static_cast<double>(*static_cast<const std::int64_t*>(scalars[column]));
      default:
        return *static_cast<const float*>(scalars[column]);
    }
  }
};

}  // namespace giro::functors
