#pragma once

#include <vector>

#include <giro/kernels/nn/precision.h>
#include <giro/runtime/error.h>

namespace giro::test {

inline bool computes_in(Precision precision, Device device) {
  try {
    expect_supported(precision, device);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Those that the device computes in, but f32, for tests that go through them.
inline std::vector<Precision> other_precisions(Device device) {
  std::vector<Precision> found;
  for (const Precision precision : {Precision::tf32, Precision::bf16, Precision::f16}) {
    if (computes_in(precision, device)) found.push_back(precision);
  }
  return found;
}

// How far off a product of two f32 factors, or a sum of such with this magnitude, may be because the factors lose bits:
// in TF32 all but 10 of their mantissa, by 2^-10 each where the device cuts them off.
inline double factor_error(Precision precision, double magnitude) {
  return precision == Precision::tf32 ? 0x1p-9 * magnitude : 0;
}

}  // namespace giro::test
