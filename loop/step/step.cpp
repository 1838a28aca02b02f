#include <giro/loop/step/step.h>

#include <algorithm>
#include <utility>

namespace giro::detail {

std::shared_ptr<StepRecording> StepEngine::find(const StepCall& call, const StepBody& body,
                                                std::shared_ptr<StepRecording> latest) {
  if (latest && latest->matches(call)) return latest;
  const std::lock_guard lock(mutex_);
  return find_locked(call, body);
}

std::shared_ptr<StepRecording> StepEngine::find_locked(const StepCall& call, const StepBody& body) {
  ++uses_;
  for (Used& used : recordings_) {
    if (!used.recording->matches(call)) continue;
    used.last = uses_;
    return used.recording;
  }
  std::erase_if(recordings_, [](const Used& used) { return used.recording->expired(); });
  auto recording = std::make_shared<StepRecording>(call, body, mode_);
  if (recordings_.size() >= kMaxRecordings) {
    recordings_.erase(std::ranges::min_element(recordings_, {}, &Used::last));
  }
  recordings_.push_back({recording, uses_});
  return recording;
}

Logs StepEngine::call(const StepCall& call, const StepBody& body) {
  std::unique_lock lock(mutex_);
  const std::shared_ptr<StepRecording> recording = find_locked(call, body);
  // The user's function, which an eager step calls each time, need not know of threads.
  if (!recording->is_eager()) lock.unlock();
  try {
    return recording->call(call, body);
  } catch (...) {
    recording->set_failed();
    throw;
  }
}

std::size_t StepEngine::num_recordings() const {
  const std::lock_guard lock(mutex_);
  return mode_ == StepRecording::Mode::recorded ? recordings_.size() : 0;
}

}  // namespace giro::detail
