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

// The processes that were started together, its ranks: by mpirun (or srun --mpi), by torchrun or srun where each has a
// GPU, or this one alone. One a program; it outlives all communication. Started by mpirun, a rank that ends otherwise
// than through ~World takes the others with it within about a second. Other launchers do so for exit codes other than
// 0; what they do not see is noticed at the timeout.
class World {
 public:
  // A call of all ranks, which waits. Uses MPI only where mpirun or its like has started the program; if the program
  // has called MPI_Init itself, uses that and leaves MPI_Finalize to it. Where there is no MPI, the environment says
  // how NCCL connects the ranks: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, as torchrun sets them, or
  // Slurm's variables, with MASTER_ADDR and MASTER_PORT for several machines.
  // Errors: unsupported (started by mpirun, and giro was built without MPI; by another launcher, and a rank has no GPU
  // or giro was built without NCCL), device_mismatch (there are more ranks than GPUs on a machine), communication (the
  // ranks do not meet or run different programs), invalid_argument (a second World; a variable that is missing or
  // malformed).
  explicit World(const WorldOptions& options = {});
  // Waits for the other ranks, unless an exception is on its way, a collective has failed or set_failed was called:
  // then MPI is left as it is, for mpirun to end the other ranks when this process ends. Other launchers go by the
  // program's exit code.
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const noexcept;
  int size() const noexcept;
  // Among the ranks of this machine.
  int local_rank() const noexcept;
  int local_size() const noexcept;
  double timeout() const noexcept;                          // WorldOptions::timeout
  bool is_primary() const noexcept { return rank() == 0; }  // the one rank that prints and writes
  // This rank's GPU, by its local rank, or the CPU where the machine has no GPU.
  Device device() const noexcept;

  // Of all ranks, for tensors in host memory. Without MPI each call copies them to this rank's GPU and back.
  const Communicator& host() const noexcept;
  // Of all ranks, for tensors on their devices: a call of all ranks, each with its own device, made once a device.
  // Errors, on every rank: device_mismatch (one rank's is a GPU, another's the CPU; two ranks share a GPU), device (a
  // GPU is missing), unsupported (giro was built without NCCL).
  Communicator communicator(Device device) const;

  // An error that the other ranks do not know of: the destructor will not wait for them.
  void set_failed() noexcept;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace giro
