#include "distributed/mpi/session.h"

#include <fmt/format.h>
#include <sched.h>

#include <giro/runtime/error.h>

namespace giro::mpi {

void Session::check_usable(const Call& call) const {
  if (ended) {
    throw Error(ErrorCode::invalid_argument, fmt::format("{}: the World of this communicator has ended", call.name));
  }
  if (failed) {
    throw Error(ErrorCode::communication,
                fmt::format("{} on rank {} of {}: an earlier collective has failed, and the ranks no longer agree",
                            call.name, call.rank, call.size));
  }
}

void Session::check(int status, const Call& call) {
  if (status == MPI_SUCCESS) return;
  failed = true;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw Error(ErrorCode::communication, fmt::format("{} of {} bytes on rank {} of {}: MPI reports: {}", call.name,
                                                    call.bytes, call.rank, call.size, text));
}

void Session::wait(MPI_Request& request, const Call& call) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  for (;;) {
    int done = 0;
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), call);
    if (done) return;
    if (Clock::now() - begin > timeout) break;
    sched_yield();  // ranks may outnumber the cores
  }
  // The operation stays open: MPI cannot cancel it. Nothing advances it, as no further call is made.
  failed = true;
  throw Error(
      ErrorCode::communication,
      fmt::format("{} of {} bytes: rank {} of {} has waited {:.1f} s for the others; another rank is gone, hangs, "
                  "or makes other calls",
                  call.name, call.bytes, call.rank, call.size,
                  std::chrono::duration<double>(Clock::now() - begin).count()));
}

}  // namespace giro::mpi
