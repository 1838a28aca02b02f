#include "tests/cuda_on_cpu/runtime/order.h"

#include <algorithm>

namespace cuda_on_cpu {
namespace {

std::vector<Place>& places();

// Orders two nodes of one launch by the level at which their paths part.
bool edges_order(const std::vector<Step>& earlier, const std::vector<Step>& later) {
  const std::size_t depth = std::min(earlier.size(), later.size());
  for (std::size_t level = 0; level < depth; ++level) {
    const Step &a = earlier[level], &b = later[level];
    if (a.node != b.node) return a.node < b.preceding->size() && (*b.preceding)[a.node];
    if (a.round != b.round) return a.round < b.round;
  }
  return true;
}

bool happens_before(giro::simt::Operation earlier, giro::simt::Operation later) {
  if (earlier == 0 || later == 0 || earlier == later) return true;
  const Place &a = places()[earlier - 1], &b = places()[later - 1];
  if (a.queue == b.queue && a.entry == b.entry) return edges_order(a.path, b.path);
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

thread_local giro::simt::Operation running_operation = 0;

}  // namespace

void merge(Clock& into, const Clock& other) {
  for (const auto& [queue, count] : other) into[queue] = std::max(into[queue], count);
}

bool includes(const Clock& clock, const Clock& other) {
  return std::all_of(other.begin(), other.end(), [&](const auto& entry) {
    const auto known = clock.find(entry.first);
    return known != clock.end() && known->second >= entry.second;
  });
}

Clock& host_clock() {
  static auto* const clock = new Clock;
  return *clock;
}

void run_operation(const Place& place, const std::function<void()>& work) {
  places().push_back(place);
  const giro::simt::Operation outer = running_operation;
  running_operation = places().size();
  try {
    work();
  } catch (...) {
    running_operation = outer;
    throw;
  }
  running_operation = outer;
}

giro::simt::Operation current_operation() { return running_operation; }

}  // namespace cuda_on_cpu
