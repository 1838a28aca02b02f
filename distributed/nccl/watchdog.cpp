#include "distributed/nccl/watchdog.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "distributed/job.h"
#include "distributed/nccl/communicator.h"

namespace giro::nccl {

std::shared_ptr<Watchdog> Watchdog::instance() {
  static std::mutex mutex;
  static std::weak_ptr<Watchdog> current;
  const std::lock_guard lock(mutex);
  std::shared_ptr<Watchdog> watchdog = current.lock();
  if (!watchdog) current = watchdog = std::shared_ptr<Watchdog>(new Watchdog);
  return watchdog;
}

Watchdog::Watchdog() : thread_([this] { run(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Watchdog::add(Watched& watched) {
  const std::lock_guard lock(mutex_);
  all_.push_back(&watched);
}

void Watchdog::remove(Watched& watched) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase(all_, &watched);
}

void Watchdog::run() {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    for (Watched* watched : all_) watched->poll();
    changed_.wait_for(lock, std::chrono::milliseconds(50), [this] { return ends_; });
  }
}

// What the watchdog checks: whether NCCL reports an error, and whether the other ranks keep up.
bool NcclCommunicator::poll_queue() {
  while (!queued_.empty()) {
    if (cudaEventQuery(queued_.front().done) == cudaErrorNotReady) {
      (void)cudaGetLastError();
      return Clock::now() - last_progress_ <= timeout_;
    }
    queued_.pop_front();  // done, or the device has failed, which the next wait reports
    last_progress_ = Clock::now();
  }
  return true;
}

bool NcclCommunicator::poll_host_waits() {
  const std::lock_guard lock(waits_mutex_);
  return !is_recorded_ || host_waits_ == 0 || Clock::now() - std::max(waits_since_, last_progress_) <= timeout_;
}

void NcclCommunicator::poll() noexcept {
  const std::unique_lock lock(mutex_, std::try_to_lock);  // if locked, a call is running, which has its own timeout
  if (!lock || comm_ == nullptr) return;
  if (!detail::failure().empty()) return abort({});
  (void)cudaSetDevice(device.index());
  ncclResult_t status = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(comm_, &status);
  if (asked != ncclSuccess) status = asked;
  if (status != ncclSuccess && status != ncclInProgress) {
    return abort(
        fmt::format("rank {} of {} on {}: NCCL reports: {}", rank, size, to_string(device), reason(status, comm_)));
  }
  const bool queue_progresses = poll_queue();
  if (queue_progresses && poll_host_waits()) return;
  const double seconds = std::chrono::duration<double>(timeout_).count();
  const std::string what = queue_progresses
                               ? fmt::format("replayed collectives: rank {} of {} on {}", rank, size, to_string(device))
                               : describe(queued_.front().name, queued_.front().bytes);
  abort(fmt::format("{} has waited {:.1f} s for the others; another rank has exited, hangs, or makes different calls",
                    what, seconds));
}

}  // namespace giro::nccl
