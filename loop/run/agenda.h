#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include <giro/kernels/nn/partitioner.h>
#include <giro/loop/task.h>
#include <giro/loop/time/deadline.h>
#include <giro/loop/time/elapsed.h>
#include <giro/loop/time/schedule.h>
#include <giro/runtime/not_copied.h>

namespace giro::detail {

// The tasks of a run. Finds those that are due, and evaluates a schedule only when its result may have changed.
class Agenda : NotCopied {
 public:
  using Traits = ScheduleNode::Traits;
  struct Task : AnyTask {
    explicit Task(AnyTask&& task) : AnyTask(std::move(task)), traits(schedule.traits()) {}

    Traits traits;
    Deadline next{.steps = 0};  // when to evaluate its schedule next
    // The step in which it was due last, and how many of its callbacks ran: a stop may have skipped the rest.
    std::int64_t due_at = -1;
    std::size_t ran = 0;
  };

  // `ranks`: those that run the same tasks; null if this process works alone.
  explicit Agenda(std::vector<AnyTask> tasks, const Partitioner* ranks = nullptr)
      : tasks_(std::make_move_iterator(tasks.begin()), std::make_move_iterator(tasks.end())), ranks_(ranks) {}

  std::vector<Task>& tasks() noexcept { return tasks_; }
  const std::vector<Task>& tasks() const noexcept { return tasks_; }
  // Whether any task may be due only because the loop ends, and whether any depends on the time.
  bool awaits_end() const {
    return has([](const Traits& traits) { return traits.awaits_end; });
  }
  bool reads_clock() const {
    return has([](const Traits& traits) { return traits.reads_clock; });
  }

  // The earliest point at which a schedule must be evaluated again.
  const Deadline& next() const noexcept { return next_; }
  // Whether no task is due in the step at `elapsed`.
  bool is_idle(const Elapsed& elapsed) const { return !elapsed.last && !next_.reached(elapsed); }
  // Starts over as if no schedule had been evaluated; the schedules keep their memory.
  void restart() {
    for (Task& task : tasks_) task.next = {.steps = 0};
    next_ = {.steps = 0};
  }

  // Evaluates, in order, the schedules that may be due in the step at `elapsed`. Calls before(traits) before each
  // evaluation, and due(task) if the task is due. `again`: only those of tasks that await the end, since now the step
  // is known to be the last (Elapsed::last).
  template <class Before, class Due>
  void evaluate(const Elapsed& elapsed, bool again, Before&& before, Due&& due) {
    bool changes = false;
    const bool only_steps = next_.samples == Deadline().samples && !next_.has_time();  // then the rest needs no look
    for (Task& task : tasks_) {
      const auto is_later = [&] {
        return task.next.steps > elapsed.steps && (only_steps || !task.next.reached(elapsed));
      };
      if (again ? !task.traits.awaits_end : !elapsed.last && is_later()) continue;
      if (task.traits.always) {
        task.next.steps = elapsed.steps + 1;
      } else {
        changes = true;
        before(task.traits);
        evaluating_ = &task;
        const bool is_due = decide(task, elapsed);
        task.next = Deadline::at(task.schedule.next(elapsed), elapsed);
        evaluating_ = nullptr;
        if (!is_due) continue;
      }
      if (std::exchange(task.due_at, elapsed.steps) != elapsed.steps) task.ran = 0;
      due(task);
    }
    next_.steps = elapsed.steps + 1;
    if (!changes) return;  // the usual case: only tasks that are always due
    next_ = {};
    for (const Task& task : tasks_) next_.merge(task.next);
  }

  // The task whose schedule is being evaluated, or threw; null if there is none.
  const Task* evaluating() const noexcept { return evaluating_; }

 private:
  template <class F>
  bool has(F&& trait) const {
    return std::ranges::any_of(tasks_, trait, &Task::traits);
  }

  // A user's function may say something else on each rank: rank 0 decides. The others call it as well, since it may
  // remember its calls.
  bool decide(Task& task, const Elapsed& elapsed) const {
    if (ranks_ == nullptr || !task.traits.runs_user_code) return task.schedule(elapsed);
    if (ranks_->rank() != 0) (void)task.schedule(elapsed);
    return !decide_on_rank_0(ranks_, [&] { return task.schedule(elapsed) ? "due" : ""; }).empty();
  }

  std::vector<Task> tasks_;
  const Partitioner* ranks_;
  Deadline next_{.steps = 0};
  const Task* evaluating_ = nullptr;
};

}  // namespace giro::detail
