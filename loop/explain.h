#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include <giro/loop/loop.h>

namespace giro {

namespace detail {

// A task, without the types of its state and batch.
struct TaskOutline {
  struct Callback {
    std::string name;
    CallbackKind kind;
    bool sees_elapsed;  // for a step: it takes broadcasts
  };
  Schedule schedule;
  std::vector<Callback> callbacks;
};

std::string explain(std::vector<TaskOutline> tasks, std::int64_t batch_size);

}  // namespace detail

// What a loop over these tasks does, in words: for each task what kind its callbacks are and in which steps they need
// the host, and how many steps the device may run alone, on a dataset that lies there. `batch_size` (samples) is for
// schedules by samples; schedules by time are not foreseen.
template <class S, class B>
std::string explain(const std::vector<Task<S, B>>& tasks, std::int64_t batch_size = 1) {
  std::vector<detail::TaskOutline> outlines;
  for (const Task<S, B>& task : tasks) {
    detail::TaskOutline& outline = outlines.emplace_back(detail::TaskOutline{task.schedule, {}});
    for (const Callback<S, B>& callback : task.callbacks) {
      outline.callbacks.push_back({callback.name(), callback.kind(), callback.sees_elapsed()});
    }
  }
  return detail::explain(std::move(outlines), batch_size);
}

}  // namespace giro
