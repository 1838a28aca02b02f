#include <giro/callbacks/flip/checkpoint.h>

#include <fmt/format.h>

#include "callbacks/flip/source.h"
#include "runtime/text.h"
#include "runtime/throw_error.h"

namespace giro::flip {

TrainState& Checkpoint::mutable_state() const {
  if (source_ && source_->run_state != nullptr) return *source_->run_state;
  if (source_ && source_->copy) return *source_->copy;
  throw_invalid("the checkpoint of step {} has no state: expected one from a train loop that has not failed since",
                step);
}

double Summary::metric(std::string_view group, std::string_view label) const {
  std::vector<std::string> known;
  for (const Metric& metric : metrics) {
    if (metric.group == group && metric.label == label) return metric.value;
    known.push_back(metric.group + "/" + metric.label);
  }
  const std::string wanted = fmt::format("{}/{}", group, label);
  throw_error(ErrorCode::not_found, "the summary of step {} has no metric '{}'{}", step, wanted,
              suggestion(wanted, known));
}

}  // namespace giro::flip
