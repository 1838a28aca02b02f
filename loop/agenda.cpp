#include <giro/loop/agenda.h>

#include <algorithm>

namespace giro::detail {

Agenda::Agenda(std::vector<Schedule> schedules) : asking_(schedules.size()) {
  entries_.reserve(schedules.size());
  for (Schedule& schedule : schedules) {
    const Traits traits = schedule.traits();
    entries_.push_back({std::move(schedule), traits});
    awaits_end_ |= traits.awaits_end;
    reads_clock_ |= traits.reads_clock;
  }
}

void Agenda::restart() {
  for (Entry& entry : entries_) entry.wake = {.steps = 0};
  watched_.clear();
  others_ = wake_ = {.steps = 0};
}

bool Agenda::ask(Entry& entry, const Elapsed& elapsed) {
  asking_ = static_cast<std::size_t>(&entry - entries_.data());
  const bool due = entry.schedule(elapsed);
  entry.wake = Wake::at(entry.schedule.next(elapsed), elapsed);
  asking_ = entries_.size();
  return due;
}

void Agenda::watch_all() {
  watched_.clear();
  for (std::size_t task = 0; task < entries_.size(); ++task) watched_.push_back(task);
}

// Stops watching the tasks that cannot be due in the next step.
void Agenda::forget_others(const Elapsed& elapsed) {
  others_ = {};
  std::erase_if(watched_, [&](std::size_t task) {
    const Entry& entry = entries_[task];
    // The clock may be read in the middle of a step, after `others_` was checked.
    if (entry.traits.reads_clock || entry.wake.steps <= elapsed.steps + 1) return false;
    others_.merge(entry.wake);
    return true;
  });
}

}  // namespace giro::detail
