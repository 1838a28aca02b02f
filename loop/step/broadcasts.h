#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <giro/loop/data/batch.h>
#include <giro/loop/time/elapsed.h>

namespace giro {

// Small named values passed to every call of a step in addition to its batch. A recorded step receives them as leaves
// on its device, each an f32 scalar (exact for integers up to 2^24) that is written before the replay. So a new value
// needs no new recording; a different set of names does.
class Broadcasts {
 public:
  Broadcasts() = default;
  Broadcasts(std::initializer_list<std::pair<std::string, double>> values);
  // What a loop passes to its steps: elapsed steps, samples and time (seconds), as "steps", "samples" and "time".
  explicit Broadcasts(const Elapsed& elapsed);
  // Sets the values for another Elapsed; only for broadcasts that were made from an Elapsed.
  void set(const Elapsed& elapsed);
  explicit Broadcasts(Batch values);

  // The value with this name; within a step it is on the step's device and stream. Error(not_found) naming the nearest.
  nn::Var operator[](const std::string& name) const { return values_[name]; }
  const Batch& values() const noexcept { return values_; }
  bool empty() const noexcept;

 private:
  std::shared_ptr<std::vector<float>> memory_;
  Batch values_;
};

}  // namespace giro
