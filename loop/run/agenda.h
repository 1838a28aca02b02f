#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <giro/loop/time/elapsed.h>
#include <giro/loop/time/schedule.h>

#include "loop/run/deadline.h"

namespace giro::detail {

// Finds the tasks of a run that are due. Evaluates a task's schedule only when its result may have changed.
class Agenda {
 public:
  using Traits = ScheduleNode::Traits;

  // One task per schedule, numbered by its position.
  explicit Agenda(std::vector<Schedule> schedules);

  // Starts over as if no schedule had been evaluated; the schedules keep their memory.
  void restart();

  Schedule& schedule(std::size_t task) { return entries_[task].schedule; }
  const Schedule& schedule(std::size_t task) const { return entries_[task].schedule; }
  // Whether any task may be due only because the loop ends, and whether any depends on the time.
  bool awaits_end() const noexcept { return awaits_end_; }
  bool reads_clock() const noexcept { return reads_clock_; }

  // The earliest point at which a schedule must be evaluated again.
  const Deadline& next() const noexcept { return next_; }
  // Whether no task is due in the step at `elapsed`.
  bool is_idle(const Elapsed& elapsed) const { return !elapsed.last && !next_.reached(elapsed); }

  // Evaluates, in order, the schedules that may be due in the step at `elapsed`. Calls before(traits) before each
  // evaluation, and due(task) if the task is due.
  template <class Before, class Due>
  void evaluate(const Elapsed& elapsed, Before&& before, Due&& due) {
    const auto reaches_rest = [&] { return elapsed.samples >= next_.samples || elapsed.time() >= next_.time; };
    const std::int64_t steps = elapsed.last ? std::numeric_limits<std::int64_t>::max() : elapsed.steps;
    bool rest = reaches_rest(), changes = elapsed.last;
    Entry* const entries = entries_.data();
    const std::size_t count = entries_.size();
    for (std::size_t task = 0; task < count; ++task) {
      Entry& entry = entries[task];
      if (entry.next.steps > steps && !(rest && entry.next.reached(elapsed))) continue;
      if (entry.traits.always) {
        entry.next.steps = elapsed.steps + 1;
        due(task);
      } else {
        changes = true;
        before(entry.traits);
        if (is_due(task, elapsed)) due(task);
      }
      rest = reaches_rest();  // the clock may have been read
    }
    next_.steps = elapsed.steps + 1;
    // The usual case: only tasks that are always due were evaluated.
    if (!changes) return;
    next_ = {};
    for (const Entry& entry : entries_) next_.merge(entry.next);
  }

  // The same for the tasks that await the end, if the step was not known to be the last (Elapsed::last) before.
  template <class Before, class Due>
  void evaluate_at_end(const Elapsed& elapsed, Before&& before, Due&& due) {
    for (std::size_t task = 0; task < entries_.size(); ++task) {
      if (!entries_[task].traits.awaits_end) continue;
      before(entries_[task].traits);
      if (is_due(task, elapsed)) due(task);
    }
  }

  // The task whose schedule is being evaluated, or threw; the number of tasks if there is none.
  std::size_t evaluating() const noexcept { return evaluating_; }

 private:
  struct Entry {
    Deadline next{.steps = 0};  // when to evaluate it next
    Traits traits;
    Schedule schedule;
  };

  bool is_due(std::size_t task, const Elapsed& elapsed);

  std::vector<Entry> entries_;
  bool awaits_end_ = false, reads_clock_ = false;
  Deadline next_{.steps = 0};
  std::size_t evaluating_;
};

}  // namespace giro::detail
