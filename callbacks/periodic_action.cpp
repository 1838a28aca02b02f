#include <giro/callbacks/periodic_action.h>

#include <algorithm>
#include <utility>

#include <giro/runtime/files/archive.h>

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

}  // namespace giro
