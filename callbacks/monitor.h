#pragma once

#include <optional>
#include <string>

#include <giro/kernels/nn/direction.h>
#include <giro/kernels/nn/partitioner.h>
#include <giro/loop/log/logs.h>
#include <giro/loop/time/elapsed.h>

namespace giro {

class Archive;

// The best value so far of an entry to minimize or maximize.
class Monitor {
 public:
  // `entry` is a name or "collection.name". `mode` is "min", "max" or "auto": as the entry itself says
  // (LogSchema::direction). A value is better only if it is better by more than `min_delta`. Error(invalid_argument)
  // for an unknown mode, naming the nearest, no entry, or min_delta < 0.
  explicit Monitor(std::string entry, const std::string& mode = "auto", double min_delta = 0);

  const std::string& entry() const noexcept { return entry_; }
  // "min" or "max"; "auto" until the entry has said which.
  const std::string& mode() const noexcept { return mode_; }
  // Call this when its loop begins.
  void begin(const Elapsed& elapsed) { waits_ = elapsed.steps > 0; }
  // Sets the mode "auto" to that of the entry, if it is among these. Returns whether the mode is known.
  // Error(invalid_argument), naming the entry, if the entry does not say which way it is better.
  bool learn_mode(const LogSchema& entries);
  // Sets the mode "auto" to that of a direction; an unknown one changes nothing.
  void learn_mode(nn::Direction direction);
  // The entry's value; none if it is not logged yet and the loop continues another one or is being ended by a signal.
  // With several ranks the value and the mode are rank 0's on each: numbers from their hosts may differ. All of them
  // call it at the same place. Errors: those of Logs::entry_value and learn_mode.
  std::optional<double> value(const Logs& logs, const Partitioner* ranks = nullptr);
  // Error(invalid_argument), naming the entry, if the mode is not known.
  void expect_mode() const;
  // Strictly, by more than min_delta. NaN is never better than anything, and every number is better than NaN. The mode
  // must be known to compare two numbers.
  bool is_better(double value, double than) const;

  double best() const noexcept { return best_; }  // NaN while there is none
  // Makes `value` the best one if it is better. Returns whether it is.
  bool update(double value);
  void persist(Archive& archive);

 private:
  std::optional<double> own_value(const Logs& logs);

  std::string entry_, mode_;
  double min_delta_;
  double best_;
  bool waits_ = false;  // whether the entry may still be logged
};

}  // namespace giro
