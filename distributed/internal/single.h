#pragma once

#include <memory>

#include "distributed/internal/communicator_impl.h"

namespace giro::detail {

// Of one process.
std::shared_ptr<CommunicatorImpl> single_communicator(Device device);

}  // namespace giro::detail
