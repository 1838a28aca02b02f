#include <giro/callbacks/periodic_action.h>

#include <algorithm>
#include <utility>

#include <giro/callbacks/periodic_callback.h>
#include <giro/runtime/files/archive.h>

#include "callbacks/worker.h"
#include "runtime/throw_error.h"

namespace giro {

PeriodicAction::PeriodicAction(std::string name, ActionInterval interval)
    : name_(std::move(name)), interval_(std::move(interval)) {
  const auto reject = [&](const char* what, auto found) {
    throw_invalid("{}: {} is {}, expected more than 0", name_, what, found);
  };
  if (interval_.every_steps && *interval_.every_steps < 1) reject("every_steps", *interval_.every_steps);
  if (interval_.every_secs && !(*interval_.every_secs > 0)) reject("every_secs", *interval_.every_secs);
}

bool PeriodicAction::operator()(std::int64_t step, double t) {
  expect_next(step);
  see(step, t);
  if (!is_due(t)) return false;
  ran(step, t);
  return true;
}

void PeriodicAction::expect_next(std::int64_t step) const {
  if (!is_seeded_ || !interval_.every_steps || step == last_step_ + 1) return;
  throw_invalid("{}: step {} comes after step {}, but with every_steps = {} it must be called once after every step",
                name_, step, last_step_, *interval_.every_steps);
}

void PeriodicAction::see(std::int64_t step, double t) {
  seen_before_ = is_seeded_ ? last_step_ : step - 1;
  last_step_ = step;
  if (!std::exchange(is_seeded_, true)) ran(step, t);
}

bool PeriodicAction::is_due(double t) const {
  if (const auto& each = interval_.every_steps; each && reaches(last_step_ / *each * *each)) return true;
  if (interval_.every_secs && t - previous_time_ > *interval_.every_secs) return true;
  return std::ranges::any_of(interval_.on_steps, [this](std::int64_t step) { return reaches(step); });
}

void PeriodicAction::ran(std::int64_t step, double t) {
  previous_step_ = step;
  previous_time_ = t;
}

void PeriodicAction::begin(const Elapsed& elapsed) { is_seeded_ = is_seeded_ && last_step_ <= elapsed.steps; }

void PeriodicAction::persist(Archive& archive) {
  archive("is_seeded", is_seeded_)("last_step", last_step_)("previous_step", previous_step_);
  archive.date("previous_time", previous_time_);
}

struct PeriodicCallback::Memory {
  // Returns whether the step is one in which it is due.
  bool pass(std::int64_t step, double t, const Logs& logs);

  Function call;
  PeriodicAction action;
  bool execute_async;
  detail::Worker worker;  // last, so that its calls end before the members they use are destroyed
};

PeriodicCallback::PeriodicCallback(Function f, const PeriodicCallbackOptions& options, int)
    : memory_(std::shared_ptr<Memory>(
          new Memory{.call = std::move(f),
                     .action = {"periodic_callback", {options.every_steps, options.every_secs, options.on_steps}},
                     .execute_async = options.execute_async,
                     .worker = {}})) {}

bool PeriodicCallback::Memory::pass(std::int64_t step, double t, const Logs& logs) {
  action.see(step, t);
  if (!action.is_due(t)) return false;
  action.ran(step, t);
  if (!execute_async) {
    call(step, t, logs);
    return true;
  }
  Logs fetched = logs;  // in this thread, because no other may use the device's stream
  fetched.fetch();
  worker.submit([this, step, t, fetched = std::move(fetched)] { call(step, t, fetched); });
  return true;
}

bool PeriodicCallback::update(std::int64_t step, double t, const Logs& logs) {
  memory_->action.expect_next(step);
  return memory_->pass(step, t, logs);
}

void PeriodicCallback::join() { memory_->worker.join(); }
void PeriodicCallback::on_start(const Elapsed& elapsed) { memory_->action.begin(elapsed); }
void PeriodicCallback::operator()(const Elapsed& elapsed, const Logs& logs) {
  memory_->pass(elapsed.steps + 1, elapsed.date, logs);
}
void PeriodicCallback::on_end() { join(); }
void PeriodicCallback::persist(Archive& archive) { memory_->action.persist(archive); }

}  // namespace giro
