#include <giro/callbacks/monitor.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>
#include <vector>

#include <giro/loop/interrupt.h>
#include <giro/runtime/files/archive.h>

#include "runtime/text.h"
#include "runtime/throw_error.h"

namespace giro {

Monitor::Monitor(std::string entry, const std::string& mode, double min_delta)
    : entry_(std::move(entry)), mode_(mode), min_delta_(min_delta), best_(std::numeric_limits<double>::quiet_NaN()) {
  if (entry_.empty()) throw_invalid("monitor: the entry's name is empty");
  const std::vector<std::string> modes{"min", "max", "auto"};
  if (std::ranges::find(modes, mode) == modes.end()) {
    throw_invalid("monitor '{}': mode is '{}', expected 'min', 'max' or 'auto'{}", entry_, mode,
                  suggestion(mode, modes));
  }
  if (!(min_delta >= 0)) throw_invalid("monitor '{}': min_delta is {}, expected at least 0", entry_, min_delta);
}

void Monitor::expect_mode() const {
  if (mode_ != "auto") return;
  throw_invalid(
      "monitor '{}': the entry does not say whether lower or higher values are better; expected mode = \"min\" or mode "
      "= \"max\"",
      entry_);
}

void Monitor::learn_mode(nn::Direction direction) {
  if (mode_ != "auto" || direction == nn::Direction::unknown) return;
  mode_ = direction == nn::Direction::lower ? "min" : "max";
}

bool Monitor::learn_mode(const LogSchema& entries) {
  if (mode_ != "auto") return true;
  const std::optional<std::size_t> found = entries.find(entry_);
  if (!found) return false;
  learn_mode(entries.direction(*found));
  expect_mode();
  return true;
}

std::optional<double> Monitor::own_value(const Logs& logs) {
  double value = 0;
  try {
    value = logs.entry_value(entry_);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::not_found && (waits_ || detail::may_be_interrupted())) return std::nullopt;
    throw_error(error.code(), "monitor '{}': {}", entry_, error.what());
  }
  (void)learn_mode(logs.schema());
  return value;
}

std::optional<double> Monitor::value(const Logs& logs, const Partitioner* ranks) {
  if (ranks == nullptr || ranks->size() == 1) return own_value(logs);
  const std::string said = decide_on_rank_0(ranks, [&] {
    const std::optional<double> value = own_value(logs);
    return value ? fmt::format("{} {:a}", mode_, *value) : "";
  });
  if (said.empty()) return std::nullopt;
  const std::size_t space = said.find(' ');
  mode_ = said.substr(0, space);
  return std::strtod(said.c_str() + space, nullptr);
}

bool Monitor::is_better(double value, double than) const {
  if (std::isnan(value) || std::isnan(than)) return !std::isnan(value);
  expect_mode();
  return mode_ == "max" ? value - min_delta_ > than : value + min_delta_ < than;
}

void Monitor::persist(Archive& archive) {
  const Archive::Owner owner{
      "the monitor", "its best value is of another entry or mode; to go on without it, restore() the state alone"};
  archive.same(owner, "entry", entry_);
  std::string saved = mode_;
  if (archive.is_reading()) archive("mode", saved);
  if (mode_ == "auto") mode_ = saved;
  if (saved != "auto" || !archive.is_reading()) archive.same(owner, "mode", mode_);
  archive("best", best_);
}

bool Monitor::update(double value) {
  if (!is_better(value, best_)) return false;
  best_ = value;
  return true;
}

}  // namespace giro
