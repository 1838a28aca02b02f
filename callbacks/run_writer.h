#pragma once

#include <memory>

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

}  // namespace giro::detail
