#pragma once

// The private interface to what starts processes and connects them. distributed/no_mpi and distributed/no_nccl stand in
// for what giro was built without.

#include <chrono>
#include <memory>
#include <string>

#include "distributed/internal/communicator_impl.h"
#include "distributed/internal/launch.h"

namespace giro::detail {

// Of this process: why its ranks no longer agree on what comes next, which the first collective that fails says; empty
// while none has. All communicators of GPUs have then failed: a GPU may be in a collective of one of them while the
// host waits for another, or for MPI.
void set_failure(const std::string& why) noexcept;
std::string failure();

// The processes that were started together.
class Job {
 public:
  virtual ~Job() = default;
  // Waits for all ranks; then they part. Errors: communication.
  virtual void finish() = 0;

  std::shared_ptr<CommunicatorImpl> host;  // of all ranks
  int local_rank = 0, local_size = 1;
};

}  // namespace giro::detail

namespace giro::mpi {
// Whether giro was built with it.
bool is_available() noexcept;
// Whether the program has called MPI_Init.
bool is_initialized() noexcept;
std::unique_ptr<detail::Job> start(std::chrono::milliseconds timeout);
}  // namespace giro::mpi

namespace giro::nccl {
// Whether giro was built with it.
bool is_available() noexcept;
// Of processes that the environment tells how to meet, each with its GPU. A call of all ranks, which waits.
std::unique_ptr<detail::Job> start(const detail::Launch& launch, Device device, std::chrono::milliseconds timeout);
// A text that tells this GPU from all others, of other machines as well.
std::string identity_of(Device device);
// Of the ranks of `host`, each on its own GPU. A call of all ranks, which waits.
std::shared_ptr<detail::CommunicatorImpl> connect(const Communicator& host, Device device,
                                                  std::chrono::milliseconds timeout);
// The other ranks are not waited for any more, whatever happens.
void give_up() noexcept;
}  // namespace giro::nccl
