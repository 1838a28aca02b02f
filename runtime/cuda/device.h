#pragma once

#include <giro/runtime/device.h>

namespace giro::cuda {

// Makes the device the calling thread's current one, where launches, allocations and new events go. Error(device).
void make_current(Device device);

// Times ten: 90 for 9.0. Error(device).
int compute_capability(Device device);

}  // namespace giro::cuda
