#pragma once

#include <memory>

#include <giro/distributed/communicator.h>
#include <giro/runtime/device.h>

namespace giro {

struct WorldOptions {
  // Seconds that a rank waits for the others in a collective before that is an Error(communication). On a GPU, where a
  // host does not see the collectives of recorded steps one by one, also how long it may wait for such steps in one go.
  double timeout = 600;
};

// The processes that were started together, its ranks: by mpirun (or srun --mpi), or this one alone. One a program; it
// outlives all communication. Started by mpirun, a rank that ends otherwise than through ~World takes the others with
// it within about a second.
class World {
 public:
  // A call of all ranks, which waits. Uses MPI only where mpirun or its like has started the program; if the program
  // has called MPI_Init itself, uses that and leaves MPI_Finalize to it. Errors: unsupported (started by
  // mpirun, and giro was built without MPI; started by torchrun or Slurm without MPI), communication (the ranks run
  // different programs), invalid_argument (a second World).
  explicit World(const WorldOptions& options = {});
  // Waits for the other ranks, unless an exception is on its way, a collective has failed or set_failed was called:
  // then MPI is left as it is, for mpirun to end the other ranks when this process ends.
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const noexcept;
  int size() const noexcept;
  // Among the ranks of this machine.
  int local_rank() const noexcept;
  int local_size() const noexcept;
  bool is_primary() const noexcept { return rank() == 0; }  // the one rank that prints and writes
  // This rank's GPU, by its local rank, or the CPU where the machine has no GPU.
  Device device() const noexcept;

  // Of all ranks, for tensors in host memory.
  const Communicator& host() const noexcept;
  // Of all ranks, for tensors on their devices: a call of all ranks, each with its own device, made once a device.
  // Errors, on every rank: device_mismatch (one rank's is a GPU, another's the CPU; two ranks share a GPU), device (a
  // GPU is missing), unsupported (giro was built without NCCL).
  Communicator communicator(Device device) const;

  // An error that the other ranks do not know of: the destructor will not wait for them.
  void set_failed() noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace giro
