#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include <giro/runtime/span.h>

namespace giro::detail {

// A thread that runs jobs one after the other, in order. An error in a job is thrown once, by the next call; later jobs
// still run. Several threads may use it. The destructor runs the remaining jobs; their errors are lost.
class Worker {
 public:
  // Adds a job, or throws the error of an earlier one. Waits while kCapacity jobs are queued.
  void submit(std::function<void()> job) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return jobs_.size() < kCapacity; });
    rethrow(lock);
    if (!thread_.joinable()) thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
    jobs_.push_back(std::move(job));
    lock.unlock();
    changed_.notify_all();
  }
  // Waits until all jobs have run.
  void join() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return jobs_.empty(); });
    rethrow(lock);
  }

 private:
  static constexpr std::size_t kCapacity = 1024;

  void rethrow(std::unique_lock<std::mutex>& lock) {
    if (!failed_) return;
    const std::exception_ptr failed = std::exchange(failed_, nullptr);
    lock.unlock();
    std::rethrow_exception(failed);
  }

  void run(const std::stop_token& stop) {
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

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::function<void()>> jobs_;  // the first is running
  std::exception_ptr failed_;
  std::jthread thread_;  // started by the first job; declared last: it joins before the members it uses are destroyed
};

}  // namespace giro::detail
