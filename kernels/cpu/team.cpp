#include "kernels/cpu/team.h"

#include <omp.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <new>

namespace giro::cpu {
namespace {

struct Team {
  std::mutex mutex;
  ContentionMonitor monitor;
  std::atomic<int> idle_threads = 0;
};

}  // namespace

int ContentionMonitor::update(double seconds, std::int64_t switches, int most) {
  if (started_) {
    const double contended = std::max(kContended, kPerThread * (most - idle_));
    if (static_cast<double>(switches - switches_before_) > contended * (seconds - before_)) {
      idle_ = std::min(idle_ + 1, most - 1);
      retry_at_ = seconds + kRetrySeconds;
    } else if (seconds >= retry_at_) {
      idle_ = std::max(idle_ - 1, 0);
    }
  }
  started_ = true;
  before_ = seconds;
  next_ = seconds + kWindow;
  switches_before_ = switches;
  return idle_;
}

int team_threads() {
  const int most = omp_get_max_threads();
  if (most == 1) return 1;
  static auto* const team = new Team;  // never destroyed: threads may work while the program ends
  if (const std::unique_lock lock(team->mutex, std::try_to_lock); lock) {
    const std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
    if (team->monitor.due(now.count())) {
      rusage usage{};
      getrusage(RUSAGE_SELF, &usage);
      team->idle_threads = team->monitor.update(now.count(), usage.ru_nivcsw, most);
    }
  }
  return std::max(1, most - team->idle_threads);
}

ThreadLimit::ThreadLimit(int threads) : before_(omp_get_max_threads()) { omp_set_num_threads(threads); }
ThreadLimit::~ThreadLimit() { omp_set_num_threads(before_); }

std::byte* memory_of_thread(std::size_t bytes) {
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete(memory, std::align_val_t(4096)); }
  };
  thread_local std::unique_ptr<std::byte, Free> memory;
  thread_local std::size_t size = 0;
  if (bytes > size) {
    memory.reset();
    size = 0;
    memory.reset(static_cast<std::byte*>(::operator new(bytes, std::align_val_t(4096))));
    size = bytes;
  }
  return memory.get();
}

}  // namespace giro::cpu
