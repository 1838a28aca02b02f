#pragma once

#include <vector>

#include <giro/kernels/precision.h>
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

// The precisions other than f32 that the device supports.
inline std::vector<Precision> other_precisions(Device device) {
  std::vector<Precision> found;
  for (const Precision precision : {Precision::tf32, Precision::bf16, Precision::f16}) {
    if (computes_in(precision, device)) found.push_back(precision);
  }
  return found;
}

// The error of a product of two f32 factors, or of a sum of such products, of this magnitude, due to the bits that the
// factors lose. TF32 keeps 10 bits of the mantissa, so each factor loses up to 2^-10 where the device truncates.
inline double factor_error(Precision precision, double magnitude) {
  return precision == Precision::tf32 ? 0x1p-9 * magnitude : 0;
}

}  // namespace giro::test
