#pragma once

#include <cstdint>

namespace giro::cuda {

constexpr int kWarp = 32;
constexpr unsigned int kAllLanes = 0xffffffffu;

// Called by a whole warp: whether the largest of x[0, columns) (in a tie, the first) is at `label` and none is NaN.
// Lane 0 has the result.
template <class T>
__device__ bool is_correct(const T* x, std::int64_t columns, std::int64_t label, int lane) {
  float largest = -INFINITY;
  std::int64_t index = columns;
  bool nan = false;
  for (std::int64_t c = lane; c < columns; c += kWarp) {
    const auto value = static_cast<float>(x[c]);
    nan = nan || isnan(value);
    if (value > largest || index == columns) {
      largest = value;
      index = c;
    }
  }
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    const float other = __shfl_xor_sync(kAllLanes, largest, offset);
    const std::int64_t other_index = __shfl_xor_sync(kAllLanes, static_cast<long long>(index), offset);
    if (other > largest || (other == largest && other_index < index)) {
      largest = other;
      index = other_index;
    }
  }
  return __any_sync(kAllLanes, nan) == 0 && index == label;
}

}  // namespace giro::cuda
