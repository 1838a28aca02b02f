#include "distributed/job.h"

#include <mpi.h>

#include <future>
#include <thread>
#include <utility>

#include <giro/runtime/error.h>

#include "distributed/mpi/communicator.h"
#include "runtime/throw_error.h"

namespace giro::mpi {
namespace {

// MPI from its initialization to its end. giro finalizes MPI only if giro initialized it.
class MpiJob final : public detail::Job {
 public:
  MpiJob(std::chrono::milliseconds timeout, bool is_own) : is_own_(is_own) {
    session_->timeout = timeout;
    MPI_Comm all = MPI_COMM_NULL, local = MPI_COMM_NULL;
    const Call start{"World", 0, 0, 0};
    session_->check(MPI_Comm_dup(MPI_COMM_WORLD, &all), start);
    host = MpiCommunicator::create(session_, all);
    session_->check(MPI_Comm_split_type(all, MPI_COMM_TYPE_SHARED, host->rank, MPI_INFO_NULL, &local), start);
    MPI_Comm_rank(local, &local_rank);
    MPI_Comm_size(local, &local_size);
    MPI_Comm_free(&local);
  }
  ~MpiJob() override { session_->ended = true; }

  void finish() override {
    session_->ended = true;
    if (is_own_) MPI_Finalize();
  }

 private:
  const std::shared_ptr<Session> session_ = std::make_shared<Session>();
  const bool is_own_;
};

struct Initialized {
  int status, provided;
};

// MPI_Init waits forever if a rank ends before calling it, and cannot be interrupted. So a separate thread makes the
// call, and is abandoned in it at the timeout.
Initialized initialize(std::chrono::milliseconds timeout) {
  std::packaged_task<Initialized()> call([] {
    Initialized made{};
    made.status = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &made.provided);
    return made;
  });
  std::future<Initialized> made = call.get_future();
  std::thread thread(std::move(call));
  if (made.wait_for(timeout) != std::future_status::ready) {
    thread.detach();
    throw_error(ErrorCode::communication,
                "World: MPI_Init_thread has waited {:.1f} s for the other ranks; one has exited before creating its "
                "World, or hangs",
                std::chrono::duration<double>(timeout).count());
  }
  thread.join();
  return made.get();
}

}  // namespace

bool is_available() noexcept { return true; }

bool is_initialized() noexcept {
  int initialized = 0;
  return MPI_Initialized(&initialized) == MPI_SUCCESS && initialized != 0;
}

std::unique_ptr<detail::Job> start(std::chrono::milliseconds timeout) {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized) throw_invalid("World: MPI has been finalized, and can be started only once per program");
  const bool is_own = !is_initialized();
  if (is_own) {
    const auto [status, provided] = initialize(timeout);
    if (status != MPI_SUCCESS) throw Error(ErrorCode::communication, "World: MPI_Init_thread failed");
    if (provided < MPI_THREAD_MULTIPLE) {
      throw Error(ErrorCode::unsupported,
                  "World: this MPI was built without MPI_THREAD_MULTIPLE: it cannot be called from several threads");
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  }
  return std::make_unique<MpiJob>(timeout, is_own);
}

}  // namespace giro::mpi
