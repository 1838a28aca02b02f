#include "tests/cuda_on_cpu/runtime/run_when_idle.h"

#include <chrono>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "tests/cuda_on_cpu/runtime/error.h"

namespace cuda_on_cpu {
namespace {

constexpr std::chrono::milliseconds kPatience{500};

// The thread runs the points that were already here when it last looked.
std::deque<Point>& waiting() {
  static auto* const points = new std::deque<Point>;
  return *points;
}

void run_idle_work() {
  for (std::deque<Point> seen;;) {
    std::this_thread::sleep_for(kPatience);
    const std::lock_guard lock(api_mutex());
    for (const Point& point : std::exchange(seen, {})) {
      while (!point.queue->is_done(point.entry)) point.queue->run_next();
    }
    seen = std::exchange(waiting(), {});
  }
}

}  // namespace

void run_when_idle(const Point& point) {
  static const bool started = (std::thread(run_idle_work).detach(), true);
  (void)started;
  waiting().push_back(point);
}

}  // namespace cuda_on_cpu
