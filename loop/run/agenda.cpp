#include "loop/run/agenda.h"

namespace giro::detail {

Agenda::Agenda(std::vector<Schedule> schedules) : evaluating_(schedules.size()) {
  entries_.reserve(schedules.size());
  for (Schedule& schedule : schedules) {
    const Traits traits = schedule.traits();
    entries_.push_back({.traits = traits, .schedule = std::move(schedule)});
    awaits_end_ |= traits.awaits_end;
    reads_clock_ |= traits.reads_clock;
  }
}

void Agenda::restart() {
  for (Entry& entry : entries_) entry.next = {.steps = 0};
  next_ = {.steps = 0};
}

bool Agenda::is_due(std::size_t task, const Elapsed& elapsed) {
  Entry& entry = entries_[task];
  evaluating_ = task;
  const bool due = entry.schedule(elapsed);
  entry.next = Deadline::at(entry.schedule.next(elapsed), elapsed);
  evaluating_ = entries_.size();
  return due;
}

}  // namespace giro::detail
