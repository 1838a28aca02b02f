#pragma once

#include <giro/runtime/program.h>
#include <giro/runtime/stream.h>

namespace giro {

// How fast the stream's device copies a large buffer, reading and writing counted, and multiplies large matrices of
// f32: what Program::floor compares with. Measured when it is first asked for, once for each device of a process; that
// takes some tens of milliseconds, and up to 512 MiB of memory. Errors: device, out_of_memory; invalid_argument while
// the thread records.
DeviceSpeed device_speed(const Stream& stream);

}  // namespace giro
