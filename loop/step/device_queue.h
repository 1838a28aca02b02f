#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <giro/loop/step/launch_pacer.h>
#include <giro/loop/step/step_recording.h>

namespace giro::detail {

// The calls of recorded steps that a run has made and not yet passed to the device. They are held back until something
// needs the device, or until there are enough of them, and launched in as few pieces as possible: a repeating sequence,
// for example A B A B or A A B A A B, is one graph, launched in powers of two.
class DeviceQueue {
 public:
  // `steps_per_execution` as in LoopOptions. Error(invalid_argument) if it is negative.
  explicit DeviceQueue(std::int64_t steps_per_execution) : pacer_(steps_per_execution) {}

  // Appends a call of a recording. Its logs are the next row of the recording's ring. The recording must have room.
  void push(const std::shared_ptr<StepRecording>& recording, const StepCall& call);
  // Call this at the end of each step of the loop. Returns whether enough is held back for a launch.
  bool end_step() {
    if (!step_has_calls_) return false;
    step_has_calls_ = false;
    return pacer_.is_full(++steps_);
  }
  // Errors: device. After an error the recordings of the held calls are never used again.
  void launch();
  // Waits until an earlier launch is done. False if none is in flight.
  bool wait() { return pacer_.wait(); }

  bool is_empty() const noexcept { return held_.empty(); }
  // Graph launches so far.
  std::int64_t num_launches() const noexcept { return launches_; }

 private:
  void replay(const Graph& graph, std::size_t times);
  void launch_runs(std::size_t first, std::size_t last);
  std::size_t shortest_period() const;
  void forget_held();

  LaunchPacer pacer_;
  std::vector<StepRecording*> held_;
  std::vector<std::shared_ptr<StepRecording>> recordings_;     // of the held calls
  std::vector<std::shared_ptr<const ResidentRows>> datasets_;  // the datasets of their batches
  std::int64_t steps_ = 0;                                     // steps of the loop that the held calls belong to
  bool step_has_calls_ = false;
  std::int64_t launches_ = 0;
};

}  // namespace giro::detail
