#include <giro/loop/step/step.h>

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

namespace giro::detail {

struct StepEngine::Recordings {
  struct Used {
    std::shared_ptr<StepRecording> recording;
    std::uint64_t last;
  };

  std::shared_ptr<StepRecording> find(const StepCall& call, const StepBody& body) {
    ++uses;
    for (Used& one : used) {
      if (!one.recording->matches(call)) continue;
      one.last = uses;
      return one.recording;
    }
    std::erase_if(used, [](const Used& one) { return one.recording->expired(); });
    auto recording = std::make_shared<StepRecording>(call, body, mode, where);
    if (used.size() >= kMaxRecordings) {
      // A recording that a loop holds is in use, even if the loop does not look it up here.
      const auto age = [](const Used& one) { return std::pair{one.recording.use_count() > 1, one.last}; };
      used.erase(std::ranges::min_element(used, {}, age));
    }
    used.push_back({recording, uses});
    return recording;
  }

  const StepRecording::Mode mode;
  const std::source_location where;
  mutable std::mutex mutex = {};
  std::vector<Used> used = {};
  std::uint64_t uses = 0;
};

StepEngine::StepEngine(StepRecording::Mode mode, std::source_location where)
    : recordings_(new Recordings{.mode = mode, .where = where}) {}

std::shared_ptr<StepRecording> StepEngine::find(const StepCall& call, const StepBody& body,
                                                std::shared_ptr<StepRecording> latest) {
  if (latest && latest->matches(call)) return latest;
  const std::lock_guard lock(recordings_->mutex);
  return recordings_->find(call, body);
}

Logs StepEngine::call(const StepCall& call, const StepBody& body) {
  std::unique_lock lock(recordings_->mutex);
  const std::shared_ptr<StepRecording> recording = recordings_->find(call, body);
  // An eager step keeps the lock: it calls the user's function each time, which need not be thread-safe.
  if (!recording->is_eager()) lock.unlock();
  try {
    return recording->call(call, body);
  } catch (...) {
    recording->set_failed();
    throw;
  }
}

std::size_t StepEngine::num_recordings() const {
  const std::lock_guard lock(recordings_->mutex);
  return recordings_->mode == StepRecording::Mode::recorded ? recordings_->used.size() : 0;
}

}  // namespace giro::detail
