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

// A run's way to the device and back: its device steps are held back and launched together, their logs come back
// through the journal, and the device can be brought to the step at hand.
class DeviceLane final : public StepSink {
 public:
  // `elapsed` and `logs` are those of the step at hand.
  DeviceLane(Journal& journal, const RunClock& clock, const Elapsed& elapsed, Logs& logs)
      : journal_(journal), clock_(clock), elapsed_(elapsed), logs_(logs) {}

  // Error(invalid_argument) if it is negative.
  void set_steps_per_execution(std::int64_t steps);

  void push(const std::shared_ptr<StepRecording>& recording, const StepCall& call) override;
  void make_way() override;
  void launch();
  // Calls launch; the lane must outlive it.
  std::function<void()> launcher();
  // Whether a launch is being made, or has failed.
  bool is_launching() const noexcept { return is_launching_; }
  // Everything that was queued, on `stream` if there is one, is done and has been seen, and what the step at hand has
  // logged so far is in its logs.
  void bring(const Stream* stream) {
    if (stream != nullptr || !queue_.is_empty() || journal_.has_pending() || journal_.has_rows()) bring_it(stream);
  }
  // Commits and shows what has arrived, or everything.
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
  std::optional<Stream> stream_;  // of the calls that were made last
  bool is_launching_ = false;
};

}  // namespace giro::detail
