#include <giro/callbacks/flip/checkpoint.h>

#include <fmt/format.h>

#include <giro/runtime/error.h>

#include "callbacks/flip/internal/source.h"
#include "runtime/internal/text.h"

namespace giro::flip {

TrainState& Checkpoint::mutable_state() const {
  if (source_ && source_->run_state != nullptr) return *source_->run_state;
  if (source_ && source_->copy) return *source_->copy;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("the checkpoint of step {} has no state: expected one from a train loop that has not failed "
                          "since",
                          step));
}

double Summary::metric(std::string_view group, std::string_view label) const {
  std::vector<std::string> known;
  for (const Metric& metric : metrics) {
    if (metric.group == group && metric.label == label) return metric.value;
    known.push_back(metric.group + "/" + metric.label);
  }
  const std::string wanted = fmt::format("{}/{}", group, label);
  throw Error(ErrorCode::not_found,
              fmt::format("the summary of step {} has no metric '{}'{}", step, wanted, suggestion(wanted, known)));
}

}  // namespace giro::flip
