#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include <giro/loop/callback.h>
#include <giro/loop/journal.h>
#include <giro/loop/run_clock.h>
#include <giro/loop/step/device_queue.h>

namespace giro::detail {

// Connects a run to the device: holds back its device steps and launches them together, passes their logs to the
// journal, and can wait until the device has finished the current step.
class DeviceLane final : public StepSink {
 public:
  // `elapsed` and `logs` belong to the current step.
  DeviceLane(Journal& journal, const RunClock& clock, const Elapsed& elapsed, Logs& logs)
      : journal_(journal), clock_(clock), elapsed_(elapsed), logs_(logs) {}

  // Error(invalid_argument) if `steps` is negative.
  void set_steps_per_execution(std::int64_t steps);

  void push(const std::shared_ptr<StepRecording>& recording, const StepCall& call) override;
  void flush_deferred() override;
  void launch();
  // Returns a function that calls launch; the lane must outlive it.
  std::function<void()> launcher();
  // Whether a launch is in progress or has failed.
  bool is_launching() const noexcept { return is_launching_; }
  // Waits until all queued work, on `stream` if there is one, is done and observed. Then `logs` holds everything the
  // current step has logged so far.
  void bring(const Stream* stream) {
    if (stream != nullptr || !queue_.is_empty() || journal_.has_pending() || journal_.has_rows()) bring_it(stream);
  }
  // Commits the logs that have arrived, or all of them, and shows them to their observers.
  void drain(bool all);
  void end_step() {
    if (queue_.end_step()) launch();
  }

 private:
  void bring_it(const Stream* stream);
  void make_room(const Stream& stream);

  Journal& journal_;
  const RunClock& clock_;
  const Elapsed& elapsed_;
  Logs& logs_;
  DeviceQueue queue_{0};
  std::optional<Stream> stream_;  // of the latest calls
  bool is_launching_ = false;
};

}  // namespace giro::detail
