#include "distributed/nccl/watchdog.h"

#include <chrono>

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

}  // namespace giro::nccl
