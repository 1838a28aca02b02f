#pragma once

#include <giro/kernels/math_mode.h>
#include <giro/runtime/dtype.h>
#include <giro/runtime/program/program.h>
#include <giro/runtime/stream.h>

namespace giro {

// How fast the stream's device copies a large buffer (bytes read plus bytes written) and multiplies large f32 matrices,
// as Program::floor needs it. Measured on the first call for each device of the process, which takes some tens of
// milliseconds and up to 768 MiB of memory. Errors: device, out_of_memory; invalid_argument while the thread records.
DeviceSpeed device_speed(const Stream& stream);

// Only the FLOP/s, for the given dtype and precision, measured the same way. Errors: also those of dense.
double product_speed(const Stream& stream, DType dtype = DType::f32, MathMode math = MathMode::f32);

}  // namespace giro
