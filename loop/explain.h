#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <giro/loop/task.h>

namespace giro {

namespace detail {

std::string explain(std::vector<AnyTask> tasks, std::int64_t batch_size, std::int64_t tokens_per_sample);

}  // namespace detail

// Describes in words what a loop over these tasks does: for each task, the kinds of its callbacks and the steps in
// which they need the host; and how many steps the device can run alone if the dataset is on it. `batch_size` (samples)
// and `tokens_per_sample` are for schedules by samples and tokens. Schedules by time are not predicted.
template <class S, class B>
std::string explain(const std::vector<Task<S, B>>& tasks, std::int64_t batch_size = 1,
                    std::int64_t tokens_per_sample = 1) {
  return detail::explain({tasks.begin(), tasks.end()}, batch_size, tokens_per_sample);
}

}  // namespace giro
