#pragma once

#include <optional>
#include <string>

#include <giro/loop/log/logs.h>
#include <giro/loop/time/elapsed.h>

namespace giro {

class Archive;

// The best value so far of an entry to minimize or maximize.
class Monitor {
 public:
  // `entry` is a name or "collection.name", `mode` "min" or "max". A value is better only if it is better by more than
  // `min_delta`. Error(invalid_argument) for an unknown mode, naming the nearest, no entry, or min_delta < 0.
  Monitor(std::string entry, const std::string& mode, double min_delta = 0);

  const std::string& entry() const noexcept { return entry_; }
  // Call this when its loop begins.
  void begin(const Elapsed& elapsed) { waits_ = elapsed.steps > 0; }
  // The entry's value; none if it is not logged yet and the loop continues another one or is being ended by a signal.
  // Errors: those of Logs::entry_value.
  std::optional<double> value(const Logs& logs) const;
  // Strictly, by more than min_delta. NaN is never better than anything, and every number is better than NaN.
  bool is_better(double value, double than) const;

  double best() const noexcept { return best_; }  // NaN while there is none
  // Makes `value` the best one if it is better. Returns whether it is.
  bool update(double value);
  void persist(Archive& archive);

 private:
  std::string entry_;
  bool maximize_;
  double min_delta_;
  double best_;
  bool waits_ = false;  // whether the entry may still be logged
};

}  // namespace giro
