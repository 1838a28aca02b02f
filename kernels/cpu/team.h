#pragma once

#include <cstdint>

namespace giro::cpu {

// How many threads fewer than OpenMP has are to work, so that no two of them share a CPU with a busy process: told by
// how often a thread loses its CPU though it could go on. One that does keeps all the others waiting.
class LeftToOthers {
 public:
  // Whether it is time, in seconds of any clock that starts at 0 or later, for the next update.
  bool due(double seconds) const { return seconds >= next_; }

  // By now the process has had `switches` involuntary context switches. At most `most` threads work.
  int update(double seconds, std::int64_t switches, int most);

 private:
  static constexpr double kWindow = 0.2;     // seconds between updates, at least
  static constexpr double kContended = 120;  // switches a second at least, of all threads together, and
  static constexpr double kOfThread = 3;     // of each; a busy process causes 300 and more, an idle system up to 40
  static constexpr double kCalmSeconds = 2;  // before a thread that was left out is tried again
  double before_ = 0, next_ = 0, calm_at_ = 0;
  std::int64_t switches_before_ = 0;
  int left_ = 0;
  bool started_ = false;
};

// How many threads the next parallel work has: OpenMP's number, less while others want the CPUs. What is computed must
// not depend on it.
int team_threads();

// While it lives, parallel work that this thread begins has so many threads.
class ThreadLimit {
 public:
  explicit ThreadLimit(int threads);
  ~ThreadLimit();
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;

 private:
  int before_;
};

}  // namespace giro::cpu
