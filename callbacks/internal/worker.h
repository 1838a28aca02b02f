#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace giro::detail {

// A thread that runs jobs one after the other, in their order. What one of them throws comes up once, at the next call;
// the jobs after it run all the same. May be used by several threads.
class Worker {
 public:
  Worker() = default;
  // Runs what is left. An error of that is lost.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Adds a job, unless an earlier one's error comes up. Waits while there are kCapacity of them.
  void submit(std::function<void()> job);
  // Waits until all jobs have run.
  void join();

 private:
  static constexpr std::size_t kCapacity = 1024;

  void run();
  void rethrow(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;  // the first is under way
  std::exception_ptr failed_;
  bool ends_ = false;
  std::thread thread_;  // from the first job on
};

}  // namespace giro::detail
