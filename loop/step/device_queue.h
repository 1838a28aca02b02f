#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <giro/loop/step/pace.h>
#include <giro/loop/step/step_recording.h>

namespace giro::detail {

// The calls of recorded steps that a run has made and the device has not been given yet. They are held back until
// something needs the device, or there are enough of them, and launched in as few pieces as possible: a sequence that
// repeats, such as A B A B or A A B A A B, is one graph, launched in powers of two.
class DeviceQueue {
 public:
  // `steps_per_execution` as in LoopOptions. Error(invalid_argument) if it is negative.
  explicit DeviceQueue(std::int64_t steps_per_execution);

  // Appends a call of a recording, whose logs are the next row of its ring. It must have room.
  void push(const std::shared_ptr<StepRecording>& recording, const StepCall& call);
  // A step of the loop is over. Whether enough is held back for a launch.
  bool end_step() {
    if (!step_has_calls_) return false;
    step_has_calls_ = false;
    return pace_.is_full(++steps_);
  }
  // Errors: device. The recordings that were to run are then never used again.
  void launch();
  // Waits until something that was launched is done. False if there was nothing.
  bool wait();

  bool is_empty() const noexcept { return held_.empty(); }
  // Graph launches so far.
  std::int64_t num_launches() const noexcept { return launches_; }

 private:
  void replay(const Graph& graph, std::size_t times);
  void launch_runs(std::size_t first, std::size_t last);
  std::size_t shortest_period();
  void forget_held();

  Pace pace_;
  std::vector<StepRecording*> held_;
  std::vector<std::shared_ptr<StepRecording>> recordings_;  // of the held calls
  std::vector<std::shared_ptr<const Residence>> datasets_;  // whose rows they gather
  std::int64_t steps_ = 0;                                  // of the loop, that the held calls are of
  bool step_has_calls_ = false;
  std::vector<std::size_t> borders_;  // for shortest_period
  std::int64_t launches_ = 0;
};

}  // namespace giro::detail
