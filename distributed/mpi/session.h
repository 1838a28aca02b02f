#pragma once

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

namespace giro::mpi {

// What a call was asked to do, for errors.
struct Call {
  const char* name;
  std::size_t bytes;
  int rank, size;
};

// What the communicators of a World share.
struct Session {
  std::chrono::milliseconds timeout{};
  std::atomic<bool> failed{false};  // a collective has: its ranks no longer agree on what comes next
  std::atomic<bool> ended{false};

  // Error(communication) if a collective has failed, Error(invalid_argument) once World has gone.
  void check_usable(const Call& call) const;
  // Error(communication) with MPI's reason unless `status` is a success.
  void check(int status, const Call& call);
  // Gives other processes the CPU until the operation is complete. Error(communication) at the timeout.
  void wait(MPI_Request& request, const Call& call);

 private:
  [[noreturn]] void fail(const std::string& why);
};

}  // namespace giro::mpi
