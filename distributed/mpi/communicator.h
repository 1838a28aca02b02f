#pragma once

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "distributed/communicator_impl.h"

namespace giro::mpi {

// Describes a call in error messages.
struct Call {
  const char* name;
  std::size_t bytes;
  int rank, size;
};

// Shared by the communicators of a World.
struct Session {
  std::chrono::milliseconds timeout{};
  std::atomic<bool> failed{false};  // a collective has failed, so the ranks no longer agree on what comes next
  std::atomic<bool> ended{false};

  // Error(communication) if a collective has failed, Error(invalid_argument) once the World has ended.
  void check_usable(const Call& call) const;
  // Error(communication) with MPI's reason unless `status` is MPI_SUCCESS.
  void check(int status, const Call& call, const char* hint = "");
  // Waits until the operation is complete, yielding the CPU meanwhile. Error(communication) at the timeout.
  void wait(MPI_Request& request, const Call& call);

 private:
  [[noreturn]] void fail(const std::string& why);
};

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
  void barrier_now(const char* call);
  void gather(const detail::Collective& call);
  void scatter(const detail::Collective& call, char* out);

  const std::shared_ptr<Session> session_;
  const MPI_Comm comm_;
};

}  // namespace giro::mpi
