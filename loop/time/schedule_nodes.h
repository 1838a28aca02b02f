#pragma once

#include <memory>
#include <utility>

#include <giro/loop/time/schedule.h>

#include "runtime/throw_error.h"

// What the sources of schedules share.
namespace giro::detail {

template <class Node, class... Args>
Schedule make_schedule(Args&&... args) {
  return Schedule(std::make_unique<Node>(std::forward<Args>(args)...));
}

inline bool is_steps_alone(const Period& p) { return p.steps && !p.samples && !p.tokens && !p.time && !p.date; }

// The traits of a schedule that combines two.
inline ScheduleNode::Traits both(const ScheduleNode::Traits& a, const ScheduleNode::Traits& b) {
  return {.remembers = a.remembers || b.remembers,
          .persists = a.persists || b.persists,
          .runs_user_code = a.runs_user_code || b.runs_user_code,
          .awaits_end = a.awaits_end || b.awaits_end,
          .reads_clock = a.reads_clock || b.reads_clock,
          .yields_to_end = a.yields_to_end || b.yields_to_end};
}

inline void check_not_empty(const Period& period, const char* schedule) {
  if (period.is_empty()) {
    throw_invalid("{}: expected a period of steps, samples, tokens, time or a date, found an empty one", schedule);
  }
}

}  // namespace giro::detail
