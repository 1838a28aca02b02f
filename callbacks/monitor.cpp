#include <giro/callbacks/monitor.h>

#include <cmath>
#include <limits>
#include <utility>

#include <giro/loop/interrupt.h>
#include <giro/runtime/files/archive.h>

#include "runtime/internal/text.h"
#include "runtime/internal/throw_error.h"

namespace giro {

Monitor::Monitor(std::string entry, const std::string& mode, double min_delta)
    : entry_(std::move(entry)),
      maximize_(mode == "max"),
      min_delta_(min_delta),
      best_(std::numeric_limits<double>::quiet_NaN()) {
  if (entry_.empty()) throw_invalid("monitor: the entry's name is empty");
  if (mode != "min" && mode != "max") {
    throw_invalid("monitor '{}': mode is '{}', expected 'min' or 'max'{}", entry_, mode,
                  suggestion(mode, {"min", "max"}));
  }
  if (!(min_delta >= 0)) throw_invalid("monitor '{}': min_delta is {}, expected at least 0", entry_, min_delta);
}

std::optional<double> Monitor::value(const Logs& logs) const {
  try {
    return logs.entry_value(entry_);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::not_found && (waits_ || detail::may_be_interrupted())) return std::nullopt;
    throw_error(error.code(), "monitor '{}': {}", entry_, error.what());
  }
}

bool Monitor::is_better(double value, double than) const {
  if (std::isnan(value) || std::isnan(than)) return !std::isnan(value);
  return maximize_ ? value - min_delta_ > than : value + min_delta_ < than;
}

void Monitor::persist(Archive& archive) {
  archive.same({"the monitor", "its best value is of another entry; to go on without it, restore() the state alone"},
               "entry", entry_);
  archive("best", best_);
}

bool Monitor::update(double value) {
  if (!is_better(value, best_)) return false;
  best_ = value;
  return true;
}

}  // namespace giro
