#include "distributed/mpi/session.h"

#include <fmt/format.h>
#include <sched.h>

#include <string>
#include <thread>

#include <giro/runtime/error.h>

#include "distributed/internal/job.h"
#include "runtime/internal/throw_error.h"

namespace giro::mpi {
namespace {

using Clock = std::chrono::steady_clock;

// Ranks may outnumber the cores. Yielding is fast, but processes that only yielded kept all others, including mpirun,
// off the cores for ten seconds on Linux 6.18. So a waiting rank sleeps briefly once per millisecond.
void yield_cpu(Clock::time_point now) {
  thread_local Clock::time_point slept = now;
  if (now - slept < std::chrono::milliseconds(1)) {
    sched_yield();
    return;
  }
  std::this_thread::sleep_for(std::chrono::microseconds(1));
  slept = Clock::now();
}

}  // namespace

void Session::fail(const std::string& why) {
  failed = true;
  detail::set_failure(why);
  throw Error(ErrorCode::communication, why);
}

void Session::check_usable(const Call& call) const {
  if (ended) throw_error(ErrorCode::invalid_argument, "{}: the World of this communicator has ended", call.name);
  if (failed) {
    throw_error(ErrorCode::communication,
                "{} on rank {} of {}: an earlier collective has failed, and the ranks no longer agree", call.name,
                call.rank, call.size);
  }
}

void Session::check(int status, const Call& call) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(status, text, &length);
  fail(fmt::format("{} of {} bytes on rank {} of {}: MPI reports: {}", call.name, call.bytes, call.rank, call.size,
                   text));
}

void Session::wait(MPI_Request& request, const Call& call) {
  const Clock::time_point begin = Clock::now();
  for (;;) {
    int done = 0;
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), call);
    if (done) return;
    const Clock::time_point now = Clock::now();
    if (now - begin > timeout) break;
    yield_cpu(now);
  }
  // The operation stays pending: MPI cannot cancel it. No further MPI call is made, so it does not progress.
  fail(fmt::format(
      "{} of {} bytes: rank {} of {} has waited {:.1f} s for the others; another rank has exited, hangs, or makes "
      "different calls",
      call.name, call.bytes, call.rank, call.size, std::chrono::duration<double>(Clock::now() - begin).count()));
}

}  // namespace giro::mpi
