// The callbacks that notice when a training diverges.

#include <giro/callbacks/restore_on_divergence.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <giro/callbacks/resume.h>
#include <giro/callbacks/terminate_on_nan.h>
#include <giro/runtime/files/archive.h>
#include <giro/runtime/files/checkpoint_store.h>

#include "callbacks/run_checkpoints.h"
#include "loop/log/record_text.h"
#include "runtime/files/stored_checkpoints.h"
#include "runtime/throw_error.h"

namespace giro {
namespace {

constexpr double kDecay = 0.9;  // the weight of a value relative to the one after it

}  // namespace

RestoreOnDivergence::RestoreOnDivergence(std::string dir, RestoreOnDivergenceOptions options)
    : dir_(std::move(dir)),
      options_(std::move(options)),
      memory_(std::make_shared<Memory>(Memory{.monitor = Monitor(options_.monitor, "min")})) {
  if (dir_.empty()) throw_invalid("restore_on_divergence: the directory's name is empty");
  const auto check = [&](bool good, const char* what, double found, const char* expected) {
    if (good) return;
    throw_invalid("restore_on_divergence '{}': {} is {}, expected {}", dir_, what, found, expected);
  };
  check(options_.spike == 0 || (options_.spike > 1 && std::isfinite(options_.spike)), "spike", options_.spike,
        "0 or a number above 1");
  check(options_.factor > 0 && options_.factor < 1, "factor", options_.factor, "a number in (0, 1)");
  check(options_.max_restores >= 1, "max_restores", static_cast<double>(options_.max_restores), "at least 1");
}

void RestoreOnDivergence::persist(Archive& archive) {
  Memory& memory = *memory_;
  archive("restores", memory.restores)("mean", memory.mean)("tried", memory.tried);
  archive("first_record", memory.first_record);
}

bool RestoreOnDivergence::on_logged(const LogSchema& entries) {
  if (options_.spike == 0) return true;
  const std::optional<std::size_t> found = entries.find(options_.monitor);
  if (found && entries.direction(*found) == nn::Direction::higher) {
    throw_invalid(
        "restore_on_divergence '{}': spike is {}, but higher values of '{}' are better, expected an entry "
        "whose lower values are",
        dir_, options_.spike, entries[*found].path());
  }
  return found.has_value();
}

Logs RestoreOnDivergence::logged(const History& history) const {
  // A run continued after its stop (Run::extend) has a new history.
  return history.latest(memory_->first_record <= history.size() + 1 ? memory_->first_record : 0);
}

bool RestoreOnDivergence::has_diverged(const Logs& logs, const Partitioner* ranks) {
  Memory& memory = *memory_;
  const auto value_on = [&](const Partitioner* deciding) -> std::optional<double> {
    try {
      return memory.monitor.value(logs, deciding);
    } catch (const Error& error) {
      // After a restore the entry may not have been logged again yet.
      if (error.code() != ErrorCode::not_found || memory.restores == 0) throw;
      return std::nullopt;
    }
  };
  const std::optional<double> value = value_on(ranks);
  const bool is_high = value && options_.spike > 0 && memory.mean && *value > options_.spike * *memory.mean;
  bool diverged = value && (!std::isfinite(*value) || is_high);
  memory.value = value.value_or(0);
  memory.rank = 0;
  if (ranks != nullptr && !diverged) {
    const bool is_finite_here = !logs.schema().find(options_.monitor) || std::isfinite(value_on(nullptr).value_or(0));
    if (const std::optional<int> other = rank_with(ranks, !is_finite_here)) {
      diverged = true;
      memory.value = std::numeric_limits<double>::quiet_NaN();
      memory.rank = *other;
    }
  }
  if (!diverged && value) {
    memory.mean = memory.mean ? kDecay * *memory.mean + (1 - kDecay) * *value : *value;
    memory.tried.reset();
  }
  return diverged;
}

std::string RestoreOnDivergence::divergence(const Elapsed& elapsed) const {
  const double value = detail::without_nan_sign(memory_->value);
  if (memory_->rank != 0) {
    return fmt::format("{} is not finite on rank {} at step {}", options_.monitor, memory_->rank, elapsed.steps);
  }
  return fmt::format("{} is {} at step {}", options_.monitor, value, elapsed.steps);
}

void RestoreOnDivergence::report_stop(const Elapsed& elapsed) {
  memory_->report = fmt::format("{}, after {} restores", divergence(elapsed), memory_->restores);
}

Logs RestoreOnDivergence::go_back(State& state, const Elapsed& elapsed, const Partitioner* ranks,
                                  detail::RunCheckpoints* saves) {
  // A save in progress may become the newest checkpoint, and which one is restored must not depend on its speed.
  if (saves != nullptr) saves->wait(dir_);
  Memory& memory = *memory_;
  const Tensor leaf = state.at("learning_rate_scale");
  // Read before the restore: the checkpoint's scale lacks the reductions since.
  const float scale = to_host<float>(leaf, state.stream()).front() * static_cast<float>(options_.factor);
  std::string why;
  std::vector<std::string> paths;
  if (ranks == nullptr || ranks->rank() == 0) paths = candidates(elapsed);
  const std::optional<Restored> restored = detail::restore_first(state, ranks, paths, *options_.files, why);
  if (!restored) {
    throw_error(ErrorCode::not_found,
                "restore_on_divergence: {}, and '{}' has no intact checkpoint of a finite state to restore{}{}",
                divergence(elapsed), dir_, why.empty() ? "" : ": ", why);
  }
  from_host(leaf, std::vector{scale}, state.stream());
  memory.tried = restored->steps;
  ++memory.restores;
  memory.report = fmt::format("{}: restored '{}', learning_rate_scale is {}, restore {} of {}", divergence(elapsed),
                              restored->path, scale, memory.restores, options_.max_restores);
  return logs().add_stateful_metric("restores", memory.restores).add_stateful_metric("learning_rate_scale", scale);
}

// The paths of the checkpoints of this run's past, in the order to try them.
std::vector<std::string> RestoreOnDivergence::candidates(const Elapsed& elapsed) const {
  std::vector<StoredCheckpoint> stored = CheckpointStore(dir_, {.files = options_.files}).all();
  std::erase_if(stored, [&](const StoredCheckpoint& one) {
    return !one.record.not_finite.empty() || one.record.steps > elapsed.steps + 1;
  });
  // Newest first; the one restored last, which did not help, and newer ones come last.
  std::ranges::reverse(stored);
  const std::optional<std::int64_t> tried = memory_->tried;
  std::ranges::stable_partition(stored,
                                [&](const StoredCheckpoint& one) { return !tried || one.record.steps < *tried; });
  std::vector<std::string> paths;
  for (const StoredCheckpoint& one : stored) paths.push_back(one.path);
  return paths;
}

bool TerminateOnNan::operator()(const Elapsed& elapsed, const Logs& logs) {
  report_->clear();
  const auto check = [&](const std::string& name, double value) {
    if (std::isfinite(value)) return;
    if (report_->empty()) first_ = name;
    *report_ += fmt::format("{}{} is {}", report_->empty() ? "" : ", ", name, detail::without_nan_sign(value));
  };
  for (const std::string& key : keys_) {
    try {
      check(key, logs.entry_value(key));
    } catch (const Error& error) {
      throw_error(error.code(), "terminate_on_nan: {}", error.what());
    }
  }
  for (std::size_t i = 0; keys_.empty() && i < logs.entries().size(); ++i) {
    const Logs::Entry entry = logs.entries()[i];
    const std::string& collection = entry.collection;
    if (collection != "losses" && collection != "metrics" && collection != "stateful_metrics") continue;
    check(collection + "." + entry.name, entry.value.value());
  }
  if (report_->empty()) return false;
  *report_ += fmt::format(" at step {}", elapsed.steps);
  return true;
}

bool TerminateOnNan::is_found_on_any(const Elapsed& elapsed, const Logs& logs, const Partitioner* ranks) {
  bool is_here = false;
  try {
    is_here = (*this)(elapsed, logs);
  } catch (const Error& error) {
    // Ranks other than 0 need not log what comes from the host.
    if (error.code() != ErrorCode::not_found || ranks == nullptr || ranks->rank() == 0) throw;
  }
  const std::optional<int> rank = rank_with(ranks, is_here);
  if (rank && !is_here) {
    first_ = fmt::format("an entry of rank {}", *rank);
    *report_ = fmt::format("{} is not finite at step {}", first_, elapsed.steps);
  }
  return rank.has_value();
}

}  // namespace giro
