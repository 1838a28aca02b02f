#pragma once

#include <memory>

#include "distributed/internal/communicator_impl.h"

namespace giro::detail {

// The group of a single process.
std::shared_ptr<CommunicatorImpl> single_communicator(Device device);

}  // namespace giro::detail
