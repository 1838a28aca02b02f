#pragma once

#include <memory>
#include <string>

#include <giro/callbacks/metric_writer.h>
#include <giro/loop/time/elapsed.h>

namespace giro::detail {

// A MetricWriter of files that belong to a run. flush() also syncs to disk.
class RunWriter : public MetricWriter {
 public:
  // Locks the files against other writers, until the last copy of the returned pointer is destroyed or, if it is null,
  // this. `self` keeps this alive.
  virtual std::shared_ptr<void> claim(std::shared_ptr<void> self) = 0;
  // Call this when a loop begins.
  virtual void begin(const Elapsed& elapsed) = 0;
  virtual void persist(Archive& archive) = 0;
};

// Error(invalid_argument), naming the writer, if it is closed.
void expect_open(const std::string& writer, bool is_open);
// The same, and for a step below 0 and an empty tag.
void expect_writable(const std::string& writer, bool is_open, const MetricRecord& record);

}  // namespace giro::detail
