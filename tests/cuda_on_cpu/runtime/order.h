#pragma once

// Which work the host has ordered before which: by a stream, an event, a graph's edge, or by waiting for it.
// The race check asks this of two pieces of work that touch the same bytes.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "tests/cuda_on_cpu/engine/memory.h"

namespace cuda_on_cpu {

// A vector clock: of each queue, by its id, how many of its entries are known to be done.
using Clock = std::map<std::uint64_t, std::uint64_t>;

void merge(Clock& into, const Clock& other);
bool includes(const Clock& clock, const Clock& other);

// What the host has waited for; all that is queued from now on comes after it.
Clock& host_clock();

// A node of a graph that runs.
struct Step {
  std::size_t node = 0;
  std::shared_ptr<const std::vector<bool>> preceding;  // of the graph's nodes up to here, whether it precedes this one
  std::uint64_t round = 0;                             // of what a conditional node repeats
};

// Where a piece of work stands: an entry of a queue, and if that is a graph's launch, which node of it, which
// node of the graph within that node, and so on.
struct Place {
  std::uint64_t queue = 0, entry = 0;   // entries count from 1
  std::shared_ptr<const Clock> before;  // what is done when the entry starts
  std::vector<Step> path = {};
};

// Runs `work` as the next operation, at that place.
void run_operation(const Place& place, const std::function<void()>& work);

// The operation now running; for giro::simt::Launch and giro::simt::Memory.
giro::simt::Operation current_operation();

}  // namespace cuda_on_cpu
