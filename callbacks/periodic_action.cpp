#include <giro/callbacks/periodic_action.h>

#include <algorithm>
#include <utility>

#include <giro/runtime/files/archive.h>

#include "runtime/internal/throw_error.h"

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
  see(step, t);
  if (!is_due(step, t)) return false;
  ran(step, t);
  return true;
}

void PeriodicAction::see(std::int64_t step, double t) {
  if (!is_seeded_) {
    is_seeded_ = true;
    ran(step, t);
  } else if (interval_.every_steps && !follows(step)) {
    throw_invalid("{}: step {} comes after step {}, but with every_steps = {} it must be called once after every step",
                  name_, step, last_step_, *interval_.every_steps);
  }
  last_step_ = step;
}

bool PeriodicAction::is_due(std::int64_t step, double t) const {
  if (interval_.every_steps && step % *interval_.every_steps == 0) return true;
  if (interval_.every_secs && t - previous_time_ > *interval_.every_secs) return true;
  return std::find(interval_.on_steps.begin(), interval_.on_steps.end(), step) != interval_.on_steps.end();
}

void PeriodicAction::ran(std::int64_t step, double t) {
  previous_step_ = step;
  previous_time_ = t;
}

void PeriodicAction::begin(const Elapsed& elapsed) { is_seeded_ = is_seeded_ && last_step_ == elapsed.steps; }

void PeriodicAction::persist(Archive& archive) {
  archive("is_seeded", is_seeded_)("last_step", last_step_)("previous_step", previous_step_);
  archive.date("previous_time", previous_time_);
}

}  // namespace giro
