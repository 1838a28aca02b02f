#pragma once

#include <cstdint>

#include <giro/runtime/tensor.h>

#include "runtime/program/op.h"

namespace giro::ops {

// For the costs of ops.
inline double elements(const Tensor& tensor) { return static_cast<double>(tensor.count()); }
inline double scaled_bytes(const Tensor& tensor) { return tensor.dtype() == DType::u8 ? elements(tensor) : 0; }
inline std::int64_t bytes_of(const Tensor& tensor) { return static_cast<std::int64_t>(tensor.bytes()); }

}  // namespace giro::ops
