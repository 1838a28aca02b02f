#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include <giro/loop/time/elapsed.h>
#include <giro/loop/time/schedule.h>
#include <giro/loop/time/wake.h>

namespace giro::detail {

// Finds the tasks of a run that are due. Evaluates a task's schedule only when its result may have changed; the steps
// in between cost nothing.
class Agenda {
 public:
  using Traits = ScheduleNode::Traits;

  // One task per schedule, numbered by its position.
  explicit Agenda(std::vector<Schedule> schedules);

  // Starts over as if no schedule had been evaluated; the schedules keep their memory.
  void restart();

  std::size_t size() const noexcept { return entries_.size(); }
  Schedule& schedule(std::size_t task) { return entries_[task].schedule; }
  const Schedule& schedule(std::size_t task) const { return entries_[task].schedule; }
  // Whether any task may be due only because the loop ends, and whether any depends on the time.
  bool awaits_end() const noexcept { return awaits_end_; }
  bool reads_clock() const noexcept { return reads_clock_; }

  // The earliest point at which a schedule must be evaluated again.
  const Wake& wake() const noexcept { return wake_; }
  bool is_quiet(const Elapsed& elapsed) const { return !elapsed.last && !wake_.reached(elapsed); }

  // Evaluates, in order, the schedules that may be due in the step at `elapsed`. Calls before(traits) before each
  // evaluation, and due(task) if the task is due.
  template <class Before, class Due>
  void ask(const Elapsed& elapsed, Before&& before, Due&& due) {
    const bool all = elapsed.last || others_.reached(elapsed);
    if (all) [[unlikely]]
      watch_all();
    bool changes = all;
    for (const std::size_t task : watched_) {
      Entry& entry = entries_[task];
      if (!elapsed.last && !entry.wake.reached(elapsed)) continue;
      if (entry.traits.always) [[likely]] {
        entry.wake.steps = elapsed.steps + 1;
        due(task);
      } else {
        changes = true;
        before(entry.traits);
        if (ask(entry, elapsed)) due(task);
      }
    }
    if (all) [[unlikely]]
      forget_others(elapsed);
    // The usual case: only tasks that are always due were evaluated, and they are due in the next step too.
    if (!changes) [[likely]] {
      wake_.steps = elapsed.steps + 1;
      return;
    }
    wake_ = others_;
    for (const std::size_t task : watched_) wake_.merge(entries_[task].wake);
  }

  // The same for the tasks that await the end, if the step was not known to be the last (Elapsed::last) when ask ran.
  template <class Before, class Due>
  void ask_at_end(const Elapsed& elapsed, Before&& before, Due&& due) {
    for (std::size_t task = 0; task < entries_.size(); ++task) {
      Entry& entry = entries_[task];
      if (!entry.traits.awaits_end) continue;
      before(entry.traits);
      if (ask(entry, elapsed)) due(task);
    }
  }

  // The task whose schedule is being evaluated, or threw; size() if none.
  std::size_t asking() const noexcept { return asking_; }

 private:
  struct Entry {
    Schedule schedule;
    Traits traits;
    Wake wake{.steps = 0};  // when to evaluate it next
  };

  bool ask(Entry& entry, const Elapsed& elapsed);
  void watch_all();
  void forget_others(const Elapsed& elapsed);

  std::vector<Entry> entries_;
  bool awaits_end_ = false, reads_clock_ = false;
  std::vector<std::size_t> watched_;  // the tasks that may be due in the next step, in order
  Wake others_{.steps = 0};           // when one of the other tasks may be due
  Wake wake_{.steps = 0};
  std::size_t asking_;
};

}  // namespace giro::detail
