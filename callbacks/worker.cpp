#include "callbacks/worker.h"

#include <utility>

#include <giro/runtime/span.h>

namespace giro::detail {

void Worker::submit(std::function<void()> job) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return jobs_.size() < kCapacity; });
  rethrow(lock);
  jobs_.push_back(std::move(job));
  if (!thread_.joinable()) thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  lock.unlock();
  changed_.notify_all();
}

void Worker::join() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return jobs_.empty(); });
  rethrow(lock);
}

void Worker::rethrow(std::unique_lock<std::mutex>& lock) {
  if (!failed_) return;
  const std::exception_ptr failed = std::exchange(failed_, nullptr);
  lock.unlock();
  std::rethrow_exception(failed);
}

void Worker::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [&] { return !jobs_.empty(); })) {
    const std::function<void()>& job = jobs_.front();  // push_back by other threads moves no element of a deque
    lock.unlock();
    std::exception_ptr failed;
    try {
      const Span span("callback", "asynchronous work");
      job();
    } catch (...) {
      failed = std::current_exception();
    }
    lock.lock();
    jobs_.pop_front();
    if (failed && !failed_) failed_ = failed;
    changed_.notify_all();
  }
}

}  // namespace giro::detail
