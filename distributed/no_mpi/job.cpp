#include "distributed/job.h"

#include <giro/runtime/error.h>

// Stands in for MPI in a build without it.
namespace giro::mpi {

bool is_available() noexcept { return false; }
bool is_initialized() noexcept { return false; }

std::unique_ptr<detail::Job> start(std::chrono::milliseconds) {
  throw Error(ErrorCode::unsupported,
              "World: the program was started by mpirun, but giro was built without MPI; install it (libopenmpi-dev) "
              "and rebuild giro");
}

}  // namespace giro::mpi
