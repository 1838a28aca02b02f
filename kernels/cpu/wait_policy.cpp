#include "kernels/cpu/wait_policy.h"

#include <omp.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>

namespace giro::cpu {
namespace {

// libgomp spins but briefly while it manages more threads than there are CPUs (its manual, on GOMP_SPINCOUNT), and can
// be told so in no other way once it is loaded. These threads make them more, and sleep.
class SleepingTeam {
 public:
  explicit SleepingTeam(int threads) : owner_([this, threads] { sleep(threads); }) {}
  ~SleepingTeam() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    end_.notify_all();
    owner_.join();
  }
  SleepingTeam(const SleepingTeam&) = delete;
  SleepingTeam& operator=(const SleepingTeam&) = delete;

 private:
  void sleep(int threads) {
#pragma omp parallel num_threads(threads)
    {
      std::unique_lock lock(mutex_);
      end_.wait(lock, [this] { return ends_; });
    }
  }

  std::mutex mutex_;
  std::condition_variable end_;
  bool ends_ = false;
  std::thread owner_;
};

struct WaitPolicy {
  std::mutex mutex;
  Contention contention;
  std::unique_ptr<SleepingTeam> team;  // while waiting threads are to sleep
  const bool is_users = std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr;
};

}  // namespace

bool Contention::update(double seconds, std::int64_t switches) {
  if (started_) {
    if (static_cast<double>(switches - switches_before_) > kContended * (seconds - before_)) {
      contended_ = true;
      contended_at_ = seconds;
    } else if (seconds - contended_at_ >= kCalmSeconds) {
      contended_ = false;
    }
  }
  started_ = true;
  before_ = seconds;
  next_ = seconds + kWindow;
  switches_before_ = switches;
  return contended_;
}

void adapt_wait_policy() {
  const int threads = omp_get_max_threads();
  if (threads == 1) return;
  static auto* const policy = new WaitPolicy;  // never destroyed: at exit its threads just end
  if (policy->is_users) return;
  const std::unique_lock lock(policy->mutex, std::try_to_lock);
  if (!lock) return;
  const std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
  if (!policy->contention.due(now.count())) return;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const bool contended = policy->contention.update(now.count(), usage.ru_nivcsw);
  if (contended && !policy->team) {
    policy->team = std::make_unique<SleepingTeam>(std::max(2, omp_get_num_procs() - threads + 2));
  } else if (!contended) {
    policy->team.reset();
  }
}

}  // namespace giro::cpu
