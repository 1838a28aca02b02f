#pragma once

#include <memory>

#include <giro/distributed/communicator.h>
#include <giro/runtime/device.h>
#include <giro/runtime/not_copied.h>

namespace giro {

struct WorldOptions {
  // Seconds that a rank waits for the others in a collective before it fails with Error(communication). On a GPU the
  // host cannot observe the collectives of recorded steps individually, so this also limits a single wait for such
  // steps.
  double timeout = 600;
};

// The processes that were started together, called ranks: by mpirun (or srun --mpi), by torchrun or srun if each has a
// GPU, or this process alone. One per program; it must outlive all communication. Under mpirun, when a rank ends
// without ~World, the others are killed within about a second. Other launchers do so only for nonzero exit codes;
// otherwise the other ranks fail at the timeout.
class World : detail::NotCopied {
 public:
  // Called by all ranks; blocks. Uses MPI only if mpirun or a similar launcher started the program. If the program has
  // called MPI_Init itself, World uses that MPI and leaves MPI_Finalize to the program. Without MPI, NCCL connects the
  // ranks as the environment describes: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, as torchrun sets
  // them, or Slurm's variables, plus MASTER_ADDR and MASTER_PORT for several machines. Errors: unsupported (started by
  // mpirun, and giro was built without MPI; started by another launcher, and a rank has no GPU or giro was built
  // without NCCL), device_mismatch (more ranks than GPUs on a machine), communication (the ranks do not find each
  // other, or run different programs), invalid_argument (a second World; a missing or malformed variable).
  explicit World(const WorldOptions& options = {});
  // Waits for the other ranks, unless an exception is propagating, a collective has failed or set_failed was called.
  // Then MPI is not finalized, and mpirun ends the other ranks when this process ends. Other launchers act on the
  // program's exit code.
  ~World();

  int rank() const noexcept;
  int size() const noexcept;
  // This rank among those of this machine, and their number.
  int local_rank() const noexcept;
  int local_size() const noexcept;
  double timeout() const noexcept;                          // WorldOptions::timeout
  bool is_primary() const noexcept { return rank() == 0; }  // the one rank that prints and writes
  // The GPU selected by this rank's local rank, or the CPU if the machine has no GPU.
  Device device() const noexcept;

  // All ranks, for tensors in host memory. Without MPI each call copies the tensors to this rank's GPU and back.
  const Communicator& host() const noexcept;
  // All ranks, for tensors on their devices. Called by all ranks, each with its own device; created once per device.
  // Errors, on every rank: device_mismatch (one rank has a GPU, another the CPU; two ranks share a GPU), device (a GPU
  // is missing), unsupported (giro was built without NCCL).
  Communicator communicator(Device device) const;

  // Reports an error that the other ranks do not know about: the destructor will not wait for them.
  void set_failed() noexcept;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace giro
