#pragma once

#include <giro/distributed/communicator.h>
#include <giro/runtime/device.h>

namespace giro::detail {

// The GPU with this local rank on the machine, or the CPU if the machine has none. If a launcher shows each rank a
// single GPU, that one.
Device device_of_rank(int local_rank);

// Checks that the ranks can communicate between these devices, one per rank. Called by all ranks. An error is thrown on
// every rank: device_mismatch, device.
void check_placement(const Communicator& host, Device device);

}  // namespace giro::detail
