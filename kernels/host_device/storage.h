#pragma once

#include <cstdint>

#include <giro/runtime/dtype.h>
#include <giro/runtime/host_device.h>
#include <giro/runtime/tensor.h>

#include "runtime/dtype_dispatch.h"

// The types in which ops store elements: f32, bf16 or f16. Ops compute in f32; T(value) rounds once.
namespace giro::host_device {

template <class F>
void with_storage(DType dtype, F&& f) {
  with_one_of<float, BFloat16, Float16>("f32, bf16 or f16", dtype, f);
}

// `value` after it has been stored as T and read back.
template <class T>
GIRO_HOST_DEVICE float stored(float value) {
  return static_cast<float>(T(value));
}

// Where a result computed in f32 is stored, for kernels that do not depend on its dtype.
struct Output {
  void* data;
  DType dtype;

  Output(void* data, DType dtype) : data(data), dtype(dtype) {}
  explicit Output(const Tensor& tensor) : Output(tensor.raw(), tensor.dtype()) {}

  GIRO_HOST_DEVICE void store(std::int64_t i, float value) const {
    if (dtype == DType::bf16) {
      static_cast<BFloat16*>(data)[i] = BFloat16(value);
    } else if (dtype == DType::f16) {
      static_cast<Float16*>(data)[i] = Float16(value);
    } else {
      static_cast<float*>(data)[i] = value;
    }
  }
};

// Consecutive elements, moved in one access.
template <class T, int kCount>
struct alignas(kCount * sizeof(T)) Pack {
  T element[kCount];
};

}  // namespace giro::host_device
