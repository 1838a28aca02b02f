#pragma once

#include <giro/distributed/communicator.h>
#include <giro/runtime/device.h>

namespace giro::detail {

// The GPU of the rank that is this one among those of its machine, or the CPU where the machine has none. Where a
// launcher shows each rank one GPU alone, that one.
Device device_of_rank(int local_rank);

// Whether the ranks can communicate between these devices, one of each rank. A call of all ranks; an error is one on
// every rank: device_mismatch, device.
void check_placement(const Communicator& host, Device device);

}  // namespace giro::detail
