// The best value of an entry, and the callbacks that wait for a better one.

#include <giro/callbacks/monitor.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>
#include <vector>

#include <giro/callbacks/early_stopping.h>
#include <giro/callbacks/reduce_on_plateau.h>
#include <giro/loop/interrupt.h>
#include <giro/runtime/files/archive.h>
#include <giro/runtime/files/load_into.h>
#include <giro/runtime/host_array.h>

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

EarlyStopping::EarlyStopping(const std::string& monitor, const EarlyStoppingOptions& options)
    : patience_(options.patience),
      baseline_(options.baseline),
      restore_best_(options.restore_best),
      memory_(std::make_shared<Memory>(Memory{.monitor = Monitor(monitor, options.mode, options.min_delta)})) {
  if (const auto* evaluations = std::get_if<std::int64_t>(&patience_)) {
    if (*evaluations < 0) {
      throw_invalid("early_stopping '{}': patience is {}, expected at least 0", monitor, *evaluations);
    }
  } else if (const Period& period = std::get<Period>(patience_); period.is_empty()) {
    throw_invalid("early_stopping '{}': patience is an empty period, expected steps, samples, tokens or time", monitor);
  }
}

void EarlyStopping::begin(const Elapsed& elapsed) {
  Memory& memory = *memory_;
  memory.monitor.begin(elapsed);
  memory.is_restored = false;
  if (std::exchange(memory.stopped, false)) {
    memory.waited = 0;
    memory.waits_since.reset();
  } else if (memory.waits_since && memory.ended) {
    // The time between the loops does not count as waiting.
    const Elapsed waited = *memory.ended - *memory.waits_since;
    memory.waits_since->steps = elapsed.steps - waited.steps;
    memory.waits_since->samples = elapsed.samples - waited.samples;
    memory.waits_since->date = elapsed.date - waited.time();
  }
}

EarlyStopping::Verdict EarlyStopping::evaluate(const Elapsed& elapsed, const Logs& logs, const Partitioner* ranks) {
  Memory& memory = *memory_;
  const std::optional<double> value = memory.monitor.value(logs, ranks);
  if (!value) return Verdict::wait;
  const bool first = !memory.waits_since, best = memory.monitor.update(*value);
  const bool passes = best && (!baseline_ || memory.monitor.is_better(*value, *baseline_));
  if (first || passes) memory.waits_since = elapsed;
  memory.waited = passes ? 0 : memory.waited + 1;
  if (best) memory.best_elapsed = elapsed;
  if (best) return Verdict::best;
  if (first) return Verdict::wait;  // there is no earlier value to compare with
  const auto* evaluations = std::get_if<std::int64_t>(&patience_);
  memory.stopped = evaluations != nullptr ? memory.waited >= *evaluations
                                          : elapsed - *memory.waits_since >= std::get<Period>(patience_);
  return memory.stopped ? Verdict::stop : Verdict::wait;
}

void EarlyStopping::persist(Archive& archive) {
  Memory& memory = *memory_;
  memory.monitor.persist(archive);
  archive("waited", memory.waited)("waits_since", memory.waits_since)("best_elapsed", memory.best_elapsed);
  archive("stopped", memory.stopped);
  if (archive.is_reading()) memory.ended.reset();
  if (!restore_best_) return;
  if (archive.is_reading()) {
    archive.arrays("best_state", memory.read, memory.read_owner);
  } else if (const Saved* const saved = std::any_cast<Saved>(&memory.best_state)) {
    std::vector<Leaf> leaves;
    const auto copies = std::make_shared<std::vector<HostArray>>();
    for (const Leaf& leaf : (*saved)->leaves()) {
      const HostArray& copy = copies->emplace_back(HostArray::copy_of(leaf.value, (*saved)->stream()));
      leaves.push_back({leaf.path, copy.tensor(), leaf.piece});
    }
    std::shared_ptr<const void> owner = copies;
    archive.arrays("best_state", leaves, owner);
  }
}

void EarlyStopping::adopt_restored(const State& state) {
  const std::vector<Leaf> read = std::exchange(memory_->read, {});
  if (read.empty()) return;
  State best = state.clone();
  try {
    load_into(best, read);
  } catch (const Error& error) {
    throw_error(error.code(), "early_stopping: the saved best state: {}", error.what());
  }
  memory_->read_owner.reset();
  memory_->best_state = std::make_shared<Snapshot>(best);
}

void EarlyStopping::copy_saved(const State& state, Saved& saved) {
  // The state of another loop may have another structure.
  if (saved && saved->fits(state)) {
    saved->update(state);
  } else {
    saved = std::make_shared<Snapshot>(state);
  }
}

void EarlyStopping::reject_other_state() {
  throw_invalid(
      "early_stopping: the best state belongs to a loop over another type or structure of states, expected a separate "
      "early_stopping for this loop");
}

ReduceOnPlateau::ReduceOnPlateau(const std::string& monitor, const ReduceOnPlateauOptions& options)
    : options_(options),
      memory_(std::make_shared<Memory>(Memory{.monitor = Monitor(monitor, options.mode, options.min_delta)})) {
  const auto check = [&](bool good, const char* what, double found, const char* expected) {
    if (good) return;
    throw_invalid("reduce_on_plateau '{}': {} is {}, expected {}", monitor, what, found, expected);
  };
  check(options.factor > 0 && options.factor < 1, "factor", options.factor, "a number in (0, 1)");
  check(options.patience >= 0, "patience", static_cast<double>(options.patience), "at least 0");
  check(options.cooldown >= 0, "cooldown", static_cast<double>(options.cooldown), "at least 0");
  check(std::isfinite(options.min_scale) && options.min_scale >= 0, "min_scale", options.min_scale,
        "a finite number >= 0");
}

void ReduceOnPlateau::evaluate(const State& state, const Logs& logs, const Partitioner* ranks) {
  Memory& memory = *memory_;
  const std::optional<double> value = memory.monitor.value(logs, ranks);
  if (!value) return;
  const Tensor leaf = state.at("learning_rate_scale");
  const bool is_better = memory.monitor.update(*value);
  if (memory.cooling > 0) {
    --memory.cooling;
    memory.waited = 0;
  } else {
    memory.waited = is_better ? 0 : memory.waited + 1;
  }
  if (memory.waited < std::max<std::int64_t>(options_.patience, 1)) return;
  const auto scale = static_cast<double>(to_host<float>(leaf, state.stream()).front());
  const double reduced = std::min(scale, std::max(scale * options_.factor, options_.min_scale));
  from_host(leaf, std::vector{static_cast<float>(reduced)}, state.stream());
  memory.waited = 0;
  memory.cooling = options_.cooldown;
  ++memory.reductions;
}

void ReduceOnPlateau::persist(Archive& archive) {
  memory_->monitor.persist(archive);
  archive("waited", memory_->waited)("cooling", memory_->cooling)("reductions", memory_->reductions);
}

}  // namespace giro
