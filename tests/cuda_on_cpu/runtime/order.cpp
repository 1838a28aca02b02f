#include "tests/cuda_on_cpu/runtime/order.h"

#include <algorithm>

namespace cuda_on_cpu {
namespace {

std::vector<Place>& places();

bool happens_before(giro::simt::Operation earlier, giro::simt::Operation later) {
  if (earlier == 0 || later == 0 || earlier == later) return true;
  const Place &a = places()[earlier - 1], &b = places()[later - 1];
  if (a.queue == b.queue && a.entry == b.entry) return b.preceding_nodes && b.preceding_nodes->at(a.node);
  const auto known = b.before->find(a.queue);
  return known != b.before->end() && known->second >= a.entry;
}

std::vector<Place>& places() {  // of operation i + 1
  static auto* const places = [] {
    giro::simt::memory().happens_before = happens_before;
    return new std::vector<Place>;
  }();
  return *places;
}

giro::simt::Operation running = 0;

}  // namespace

void merge(Clock& into, const Clock& other) {
  for (const auto& [queue, count] : other) into[queue] = std::max(into[queue], count);
}

Clock& host_clock() {
  static auto* const clock = new Clock;
  return *clock;
}

void run_operation(const Place& place, const std::function<void()>& work) {
  places().push_back(place);
  const giro::simt::Operation outer = running;
  running = places().size();
  try {
    work();
  } catch (...) {
    running = outer;
    throw;
  }
  running = outer;
}

giro::simt::Operation current_operation() { return running; }

}  // namespace cuda_on_cpu
