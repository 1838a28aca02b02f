#include "kernels/cpu/team.h"

#include <omp.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>

namespace giro::cpu {
namespace {

struct Team {
  std::mutex mutex;
  LeftToOthers left;
  std::atomic<int> threads_left = 0;
};

}  // namespace

int LeftToOthers::update(double seconds, std::int64_t switches, int most) {
  if (started_) {
    const double contended = std::max(kContended, kOfThread * (most - left_));
    if (static_cast<double>(switches - switches_before_) > contended * (seconds - before_)) {
      left_ = std::min(left_ + 1, most - 1);
      calm_at_ = seconds + kCalmSeconds;
    } else if (seconds >= calm_at_) {
      left_ = std::max(left_ - 1, 0);
    }
  }
  started_ = true;
  before_ = seconds;
  next_ = seconds + kWindow;
  switches_before_ = switches;
  return left_;
}

int team_threads() {
  const int most = omp_get_max_threads();
  if (most == 1) return 1;
  static auto* const team = new Team;  // never destroyed: threads may work while the program ends
  if (const std::unique_lock lock(team->mutex, std::try_to_lock); lock) {
    const std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
    if (team->left.due(now.count())) {
      rusage usage{};
      getrusage(RUSAGE_SELF, &usage);
      team->threads_left = team->left.update(now.count(), usage.ru_nivcsw, most);
    }
  }
  return std::max(1, most - team->threads_left);
}

ThreadLimit::ThreadLimit(int threads) : before_(omp_get_max_threads()) { omp_set_num_threads(threads); }
ThreadLimit::~ThreadLimit() { omp_set_num_threads(before_); }

}  // namespace giro::cpu
