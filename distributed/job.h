#pragma once

// The private interface to MPI and NCCL, which connect the processes. distributed/no_mpi and distributed/no_nccl
// implement it in builds without them.

#include <chrono>
#include <memory>
#include <string>

#include "distributed/communicator_impl.h"
#include "distributed/launch.h"

namespace giro::detail {

// The first failure of a collective in this process, after which its ranks no longer agree on what comes next; empty if
// none has failed. A failure fails all GPU communicators: a GPU may be in a collective of one of them while the host
// waits for another, or for MPI.
void set_failure(const std::string& why) noexcept;
std::string failure();

// The processes that were started together.
struct Job {
  virtual ~Job() = default;
  // Ends the job, once all ranks have arrived.
  virtual void finish() {}

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
// Connects the processes as the environment describes, each with its own GPU. Called by all ranks; blocks.
std::unique_ptr<detail::Job> start(const detail::Launch& launch, Device device, std::chrono::milliseconds timeout);
// Identifies this GPU among the GPUs of all machines.
std::string identity_of(Device device);
// A communicator of the ranks of `host`, each on its own GPU. Called by all ranks; blocks.
std::shared_ptr<detail::CommunicatorImpl> connect(const Communicator& host, Device device,
                                                  std::chrono::milliseconds timeout);
// From now on, destroying a communicator does not wait for the other ranks.
void abandon_peers() noexcept;
}  // namespace giro::nccl
