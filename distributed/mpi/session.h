#pragma once

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>

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
  void check(int status, const Call& call);
  // Waits until the operation is complete, yielding the CPU meanwhile. Error(communication) at the timeout.
  void wait(MPI_Request& request, const Call& call);

 private:
  [[noreturn]] void fail(const std::string& why);
};

}  // namespace giro::mpi
