#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <giro/loop/loop.h>

namespace giro {

namespace detail {

// Implements explain without the types of the state and the batch. Add the tasks in order, each before its callbacks.
class Explanation {
 public:
  Explanation();
  ~Explanation();
  Explanation(const Explanation&) = delete;
  Explanation& operator=(const Explanation&) = delete;

  void add_task(const Schedule& schedule);
  // `sees_elapsed`: for a device step, whether it takes broadcasts.
  void add_callback(const std::string& name, CallbackKind kind, bool sees_elapsed);
  std::string text(std::int64_t batch_size, std::int64_t tokens_per_sample) const;

 private:
  struct Task;
  std::vector<Task> tasks_;
};

}  // namespace detail

// Describes in words what a loop over these tasks does: for each task, the kinds of its callbacks and the steps in
// which they need the host; and how many steps the device can run alone if the dataset is on it. `batch_size` (samples)
// and `tokens_per_sample` are for schedules by samples and tokens. Schedules by time are not predicted.
template <class S, class B>
std::string explain(const std::vector<Task<S, B>>& tasks, std::int64_t batch_size = 1,
                    std::int64_t tokens_per_sample = 1) {
  detail::Explanation explanation;
  for (const Task<S, B>& task : tasks) {
    explanation.add_task(task.schedule);
    for (const detail::AnyCallback& callback : task.callbacks) {
      explanation.add_callback(callback->name(), callback.kind(), callback->traits.sees_elapsed);
    }
  }
  return explanation.text(batch_size, tokens_per_sample);
}

}  // namespace giro
