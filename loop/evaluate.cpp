#include <giro/loop/evaluate.h>

#include <map>

#include <giro/runtime/error.h>

namespace giro {

Logs weighted_mean(const std::vector<std::pair<Logs, std::int64_t>>& batches) {
  struct Sum {
    double value = 0;
    double samples = 0;
  };
  std::map<std::pair<std::string, std::string>, Sum> sums;
  Logs result;
  double samples = 0;
  for (const auto& [logs, size] : batches) {
    const auto weight = static_cast<double>(size);
    samples += weight;
    for (const Logs::Entry& entry : logs.entries()) {
      if (entry.collection == "outputs" && !entry.value.is_scalar()) continue;
      Sum& sum = sums[{entry.collection, entry.name}];
      sum.value += weight * entry.value.value();
      sum.samples += weight;
      result.add_entry(entry.collection, entry.name, sum.value / sum.samples);
    }
  }
  if (samples == 0) throw Error(ErrorCode::invalid_argument, "there is nothing to evaluate: the dataset has no samples");
  return result;
}

}  // namespace giro
