#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

namespace giro::detail {

// A thread that runs jobs one after the other, in order. An error in a job is thrown once, by the next call; later jobs
// still run. Several threads may use it. The destructor runs the remaining jobs; their errors are lost.
class Worker {
 public:
  // Adds a job, or throws the error of an earlier one. Waits while kCapacity jobs are queued.
  void submit(std::function<void()> job);
  // Waits until all jobs have run.
  void join();

 private:
  static constexpr std::size_t kCapacity = 1024;

  void run(const std::stop_token& stop);
  void rethrow(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::function<void()>> jobs_;  // the first is running
  std::exception_ptr failed_;
  std::jthread thread_;  // started by the first job; declared last: it joins before the members it uses are destroyed
};

}  // namespace giro::detail
