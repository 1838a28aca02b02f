#pragma once

#include <string>

#include <giro/callbacks/metric_writer.h>

namespace giro::detail {

// Error(invalid_argument), naming the writer, if it is closed.
void expect_open(const std::string& writer, bool is_open);
// The same, and for a step below 0 and an empty tag.
void expect_writable(const std::string& writer, bool is_open, const MetricRecord& record);

}  // namespace giro::detail
