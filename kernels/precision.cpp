#include <giro/kernels/precision.h>

#include "kernels/precision_support.h"
#include "runtime/dispatch.h"
#include "runtime/throw_error.h"

namespace giro {

Precision parse_precision(const std::string& name) {
  for (const Precision precision : {Precision::f32, Precision::tf32, Precision::bf16, Precision::f16}) {
    if (name == name_of(precision)) return precision;
  }
  throw_invalid("'{}' is not a precision, expected f32, tf32, bf16 or f16", name);
}

void expect_supported(Precision precision, Device device) {
  if (precision == Precision::f32) return;
  const std::string needed = GIRO_DISPATCH_ON(device, unsupported_reason(precision, device));
  if (needed.empty()) return;
  throw_error(ErrorCode::unsupported, "{} does not support {}: {}", to_string(device), name_of(precision), needed);
}

}  // namespace giro
