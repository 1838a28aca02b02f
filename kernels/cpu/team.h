#pragma once

#include <cstddef>
#include <cstdint>

#include <giro/runtime/not_copied.h>

namespace giro::cpu {

// How many of OpenMP's threads should idle, so that no working thread shares a CPU with another busy process: such a
// thread would keep all the others waiting. Judged by the rate of involuntary context switches.
class ContentionMonitor {
 public:
  // Whether the next update is due. `seconds` is the time on any clock that starts at 0 or later.
  bool due(double seconds) const { return seconds >= next_; }

  // `switches`: the process's involuntary context switches so far. `most`: OpenMP's number of threads. Returns how many
  // should idle.
  int update(double seconds, std::int64_t switches, int most);

 private:
  static constexpr double kWindow = 0.2;      // seconds between updates, at least
  static constexpr double kContended = 120;   // contention: more switches per second than this in total and than
  static constexpr double kPerThread = 3;     // this per thread; busy processes cause 300 and up, idle systems up to 40
  static constexpr double kRetrySeconds = 2;  // before an idle thread is tried again
  double before_ = 0, next_ = 0, retry_at_ = 0;
  std::int64_t switches_before_ = 0;
  int idle_ = 0;
  bool started_ = false;
};

// The number of threads for the next parallel work: OpenMP's, or fewer while other processes need the CPUs. Results
// must not depend on it.
int team_threads();

// During its lifetime, parallel work that this thread starts has `threads` threads.
class ThreadLimit : detail::NotCopied {
 public:
  explicit ThreadLimit(int threads);
  ~ThreadLimit();

 private:
  int before_;
};

// Memory that a thread reuses from op to op, so that it stays in the cache. Aligned for any vector.
std::byte* memory_of_thread(std::size_t bytes);

}  // namespace giro::cpu
