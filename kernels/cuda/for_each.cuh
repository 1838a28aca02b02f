#pragma once

#include <cub/device/device_for.cuh>

#include <cstdint>

#include <giro/runtime/stream.h>

#include "runtime/cuda/check.h"
#include "runtime/cuda/stream.h"

namespace giro::cuda {

// Runs the functors of kernels/functors, one thread per index. Launches nothing for n = 0.
struct ForEach {
  const Stream& stream;

  template <class F>
  void operator()(std::int64_t n, const F& f) const {
    if (n > 0) check(cub::DeviceFor::Bulk(n, f, handle(stream)), "cub::DeviceFor::Bulk");
  }
};

}  // namespace giro::cuda
