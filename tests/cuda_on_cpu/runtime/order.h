#pragma once

// The order that the host imposes on its work by a stream, an event, a graph's edge, or a wait. The race check needs it
// for two pieces of work that touch the same bytes.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "tests/cuda_on_cpu/engine/memory.h"

namespace cuda_on_cpu {

// A vector clock: for each queue, by its id, how many of its entries are known to be done.
using Clock = std::map<std::uint64_t, std::uint64_t>;

void merge(Clock& into, const Clock& other);
bool includes(const Clock& clock, const Clock& other);

// What the host has waited for. Everything queued from now on comes after it.
Clock& host_clock();

// A node of a running graph.
struct Step {
  std::size_t node = 0;
  std::shared_ptr<const std::vector<bool>> preceding;  // for each earlier node: whether it precedes this one
  std::uint64_t round = 0;                             // which repetition, in a conditional node
};

// The place of a piece of work: an entry of a queue. If the entry launches a graph, the path names the node, the node
// of the graph within that node, and so on.
struct Place {
  std::uint64_t queue = 0, entry = 0;   // entries count from 1
  std::shared_ptr<const Clock> before;  // what is done when the entry starts
  std::vector<Step> path = {};
};

// Runs `work` as the next operation, at this place.
void run_operation(const Place& place, const std::function<void()>& work);

// The operation that is running, for giro::simt::Launch and giro::simt::Memory.
giro::simt::Operation current_operation();

}  // namespace cuda_on_cpu
