#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include <giro/loop/time/schedule.h>

namespace giro::detail {

template <class Node, class... Args>
Schedule make_schedule(Args&&... args) {
  return Schedule(std::make_unique<Node>(std::forward<Args>(args)...));
}

template <class T>
std::optional<T> earliest(const std::optional<T>& a, const std::optional<T>& b) {
  return a && b ? std::min(*a, *b) : a ? a : b;
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

}  // namespace giro::detail
