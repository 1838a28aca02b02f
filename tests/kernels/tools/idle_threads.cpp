// That threads of OpenMP sleep while they wait where others want the CPUs (kernels/cpu/wait_policy.h): the behaviour
// whose worth tests/bench/busy_cpu.py measures in milliseconds a step. Beside more busy threads than there are
// CPUs the policy takes notice; then the CPU time of a thread that waits is compared with that of the one that it waits
// for. To be run without OMP_WAIT_POLICY and GOMP_SPINCOUNT, which switch the policy off.
//
// Exit status: 0, 1 where the thread spins, or 77 where the busy threads did not get into each other's way.

#include <omp.h>
#include <sys/resource.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "kernels/cpu/wait_policy.h"

namespace {

constexpr double kMost = 0.2;  // a thread that spins takes 1 and more, one that sleeps 0.01

double cpu_seconds_of_this_thread() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double involuntary_switches() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_nivcsw);
}

// Whether the policy must have taken notice: there were several times the switches a second that it goes by.
bool notices_contention() {
  std::atomic<bool> ends = false;
  std::vector<std::jthread> busy;
  for (int i = 0; i < 2 * omp_get_num_procs(); ++i) {
    busy.emplace_back([&ends] {
      while (!ends) {
      }
    });
  }
  bool notices = false;
  for (int attempt = 0; attempt < 10 && !notices; ++attempt) {
    const double before = involuntary_switches();
    const auto begin = std::chrono::steady_clock::now();
    std::chrono::duration<double> passed{};
    while ((passed = std::chrono::steady_clock::now() - begin).count() < 0.4) {
      giro::cpu::adapt_wait_policy();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    notices = involuntary_switches() - before > 100 * passed.count();
  }
  ends = true;
  return notices;
}

// The CPU time of a thread that waits while another works for a millisecond at a time, as a part of that one's.
double waiting_of_working() {
  double worked = 0, first = 0, last = 0;
  for (int round = 0; round <= 100; ++round) {
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 1) {
      last = cpu_seconds_of_this_thread();
      if (round == 0) first = last;
    }
    if (round == 100) break;
    const double begin = cpu_seconds_of_this_thread();
    double now = begin;
    while (now - begin < 1e-3) now = cpu_seconds_of_this_thread();
    worked += now - begin;
  }
  return (last - first) / worked;
}

}  // namespace

int main() {
  if (!notices_contention()) {
    std::puts("skipped: twice as many busy threads as CPUs were hardly ever interrupted");
    return 77;
  }
  const double part = waiting_of_working();
  std::printf("a thread that waits takes %.2f of the CPU time of the one that it waits for, expected at most %.2f\n",
              part, kMost);
  return part <= kMost ? 0 : 1;
}
