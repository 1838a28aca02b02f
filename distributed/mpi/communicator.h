#pragma once

#include <mpi.h>

#include <climits>
#include <cstdint>
#include <memory>

#include "distributed/internal/communicator_impl.h"
#include "distributed/mpi/session.h"

namespace giro::mpi {

// MPI counts are ints: more elements than this take several calls. Only tests change it.
inline std::int64_t max_elements_per_call = INT_MAX;

// For tensors in host memory. MPI_Finalize frees the MPI_Comm.
class MpiCommunicator final : public detail::CommunicatorImpl, public std::enable_shared_from_this<MpiCommunicator> {
 public:
  // All ranks of `comm`; takes ownership of it.
  static std::shared_ptr<MpiCommunicator> create(std::shared_ptr<Session> session, MPI_Comm comm);
  MpiCommunicator(std::shared_ptr<Session> session, MPI_Comm comm, int rank, int size);

  void run(const detail::Collective& call, const Stream& stream) override;
  std::shared_ptr<detail::CommunicatorImpl> split(int color, int key) override;

  // A barrier that runs at once, without a stream.
  void barrier_now(const char* call);

 private:
  Call call(const char* name, std::size_t bytes) const { return {name, bytes, rank, size}; }
  // Starts an operation with `start(MPI_Request*)` and waits for it.
  template <class Start>
  void finish(const Call& call, Start&& start);
  // The same for pieces of up to max_elements_per_call of the `count` elements: start(byte, elements, MPI_Request*),
  // where `byte` is the offset of the piece.
  template <class Start>
  void finish_pieces(const Call& call, const detail::Collective& of, Start&& start);

  void run_now(const detail::Collective& call);
  void gather(const detail::Collective& call);
  void scatter(const detail::Collective& call, char* out);

  const std::shared_ptr<Session> session_;
  const MPI_Comm comm_;
};

}  // namespace giro::mpi
