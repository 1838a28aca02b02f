#include <giro/callbacks/early_stopping.h>

#include <giro/runtime/files/archive.h>
#include <giro/runtime/files/load_into.h>
#include <giro/runtime/host_array.h>

#include "runtime/throw_error.h"

namespace giro {

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

}  // namespace giro
