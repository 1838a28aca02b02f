#pragma once

#include <string>

#include <giro/loop/log/logs.h>
#include <giro/runtime/stream.h>

namespace giro {
class Partitioner;
}

namespace giro::detail {

// Whether the entries of a collection of logs are averaged over the ranks.
bool is_averaged(const std::string& collection);

// Replaces losses and metrics by their means over the ranks, where this rank has the given weight, and totals by their
// sums. Metrics with counts become the metrics of all elements on all ranks.
void average_logs(Logs& logs, const Partitioner& partitioner, double weight, const Stream& stream);

}  // namespace giro::detail
