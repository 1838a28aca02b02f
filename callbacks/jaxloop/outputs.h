#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include <giro/loop/log/combined_logs.h>
#include <giro/runtime/host_array.h>

namespace giro {
class Archive;
}

namespace giro::jaxloop {

// What the steps of one inner loop have returned: a list per name, with one value per step, in order, never averaged.
// Statistics of the loop are lists of one.
struct LoopOutputs {
  std::map<std::string, std::vector<double>> scalars;
  std::map<std::string, std::vector<HostArray>> arrays;
  // What the steps are together, by count, samples and kind of metric.
  CombinedLogs combined;
  // Set by an action: the outer loop ends after the evaluations of this round.
  bool stop_loop = false;
  // The signal that has ended the loop, or 0.
  int interrupted = 0;
  // For actions of an outer loop's loops: saves what the loops and their actions remember (checkpoint_action).
  std::function<void(Archive&)> memory = {};

  // The numbers of a name. Error(not_found) naming the nearest.
  const std::vector<double>& operator[](const std::string& name) const&;
  std::vector<double> operator[](const std::string& name) && { return (*this)[name]; }
  // What the numbers are together, as in `combined`: a mean of all elements, or what else the metric's kind is. Of a
  // list that an action has added: the mean of its values. Errors: not_found as above; invalid_argument if there are
  // none.
  double mean(const std::string& name) const;
  // The same of the arrays: totals added up, of others the last one.
  HostArray array(const std::string& name) const;
  bool empty() const noexcept { return scalars.empty() && arrays.empty(); }
};

}  // namespace giro::jaxloop
