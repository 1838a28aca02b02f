#include <giro/loop/device_lane.h>

namespace giro::detail {

void DeviceLane::set_steps_per_execution(std::int64_t steps) { queue_ = DeviceQueue(steps); }

void DeviceLane::push(const std::shared_ptr<StepRecording>& recording, const StepCall& call) {
  while (!recording->has_room()) make_room(recording->stream());
  stream_ = recording->stream();
  journal_.add(recording->logs());
  try {
    queue_.push(recording, call);
  } catch (...) {
    recording->set_failed();
    throw;
  }
}

void DeviceLane::flush_deferred() {
  if (journal_.has_rows()) {
    bring(&*stream_);
  } else {
    launch();
  }
}

void DeviceLane::launch() {
  if (queue_.is_empty()) return;
  is_launching_ = true;
  queue_.launch();
  is_launching_ = false;
}

std::function<void()> DeviceLane::launcher() {
  return [this] { launch(); };
}

// Makes room in rings that are full of calls not yet run or of logs not yet read.
void DeviceLane::make_room(const Stream& stream) {
  launch();
  if (journal_.has_pending() && queue_.wait()) return drain(false);
  bring(&stream);
}

void DeviceLane::drain(bool all) {
  journal_.drain(all, [&] { return clock_.date_of_arrival(elapsed_); });
}

void DeviceLane::bring_it(const Stream* stream) {
  launch();
  if (stream != nullptr) stream->synchronize();
  drain(true);
  journal_.arrive(logs_);
}

}  // namespace giro::detail
