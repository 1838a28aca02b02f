#pragma once

#include <map>
#include <string>
#include <vector>

#include <giro/runtime/host_array.h>

namespace giro::jaxloop {

// What the steps of one inner loop have returned: a list per name, with one value per step, in order, never averaged.
// Statistics of the loop are lists of one.
struct LoopOutputs {
  std::map<std::string, std::vector<double>> scalars;
  std::map<std::string, std::vector<HostArray>> arrays;
  // Set by an action: the outer loop ends after the evaluations of this round.
  bool stop_loop = false;
  // The signal that has ended the loop, or 0.
  int interrupted = 0;

  // The numbers of a name. Error(not_found) naming the nearest.
  const std::vector<double>& operator[](const std::string& name) const;
  // Their mean. Errors: as above; invalid_argument if there are none.
  double mean(const std::string& name) const;
  bool empty() const noexcept { return scalars.empty() && arrays.empty(); }
};

}  // namespace giro::jaxloop
