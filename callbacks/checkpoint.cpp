#include <giro/callbacks/checkpoint.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include <giro/loop/interrupt.h>
#include <giro/runtime/tensor.h>

#include "callbacks/run_checkpoints.h"
#include "runtime/collection.h"
#include "runtime/files/kept_checkpoints.h"
#include "runtime/program/recording.h"
#include "runtime/text.h"
#include "runtime/throw_error.h"

namespace giro {
namespace {

// The state counts its own steps if it has a scalar "step".
std::optional<std::int64_t> counted_steps(const State& state) {
  if (!state.contains("step")) return std::nullopt;
  const Tensor step = state.at("step");
  if (step.dtype() != DType::i64 || step.count() != 1) return std::nullopt;
  return to_host<std::int64_t>(step, state.stream()).front();
}

// The larger of the state's count and the loop's.
std::int64_t reached(const Elapsed& elapsed, const State& state) {
  return std::max(counted_steps(state).value_or(0), elapsed.steps);
}

void check_choice(const std::string& dir, const char* option, const std::string& value,
                  const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), value) != known.end()) return;
  throw_invalid("checkpoint '{}': {} is '{}', expected '{}', '{}' or '{}'{}", dir, option, value, known[0], known[1],
                known[2], suggestion(value, known));
}

// A damaged checkpoint does not count: a resumed run has skipped it.
void check_no_later_checkpoint(const CheckpointStore& store, FileSystem& files, std::int64_t steps) {
  if (store.latest_steps() <= steps) return;
  const std::vector<StoredCheckpoint> all = store.all();
  const auto later = std::find_if(all.rbegin(), all.rend(), [&](const StoredCheckpoint& stored) {
    if (stored.record.steps <= steps) return false;
    try {
      return load_checkpoint(stored.path, files).skipped.empty();
    } catch (const Error& error) {
      if (error.code() == ErrorCode::unsupported || error.code() == ErrorCode::out_of_memory) throw;
      return false;
    }
  });
  if (later == all.rend()) return;
  throw_invalid(
      "checkpoint '{}': step {} is saved there, later than step {}; expected a run that continues from it (resume), "
      "another directory, or overwrite",
      store.dir(), later->record.steps, steps);
}

// Retries, because a network file system may show another machine's files late.
void check_same_directory(const CheckpointStore& store, const Partitioner& ranks) {
  // Looks only after rank 0 has announced its lock, so that it exists.
  const std::string expected = decide_on_rank_0(&ranks, [&] { return store.writer(); });
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  std::string found = store.writer();
  while (found != expected && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    found = store.writer();
  }
  ranks.expect_same(fmt::format("checkpoint '{}', a directory that all ranks must see", store.dir()),
                    found.empty() ? "no writer there" : found);
}

// Whether the directory has a checkpoint of a finite state.
bool has_finite(const CheckpointStore& store) {
  if (const auto latest = store.latest(); latest && latest->record.not_finite.empty()) return true;
  const std::vector<StoredCheckpoint> all = store.all();
  return std::any_of(all.begin(), all.end(), [](const auto& stored) { return stored.record.not_finite.empty(); });
}

template <class Bits>
bool has_no(const Tensor& tensor, Bits exponent) {
  const auto* bits = static_cast<const Bits*>(tensor.raw());
  Bits found = 0;  // not a bool: the compiler would not vectorize the loop
  for (std::int64_t i = 0; i < tensor.count(); ++i) found |= static_cast<Bits>((bits[i] & exponent) == exponent);
  return found == 0;
}

// Of a tensor in host memory: NaN and infinity have all bits of the exponent.
bool is_finite(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::f32:
      return has_no<std::uint32_t>(tensor, 0x7F800000);
    case DType::f64:
      return has_no<std::uint64_t>(tensor, 0x7FF0000000000000);
    case DType::f16:
      return has_no<std::uint16_t>(tensor, 0x7C00);
    case DType::bf16:
      return has_no<std::uint16_t>(tensor, 0x7F80);
    case DType::i32:
    case DType::i64:
    case DType::u8:
    case DType::boolean:
      break;
  }
  return true;
}

// The path of the first leaf that contains NaN or infinity, or "". The leaves are in host memory.
std::string find_not_finite(const std::vector<Leaf>& leaves) {
  const auto found = std::ranges::find_if(leaves, [](const Leaf& leaf) { return !is_finite(leaf.value); });
  return found == leaves.end() ? "" : found->path;
}

bool is_interrupted() { return detail::interrupt_signal() != 0; }

constexpr std::chrono::seconds kRetryWaits[] = {std::chrono::seconds(1), std::chrono::seconds(2),
                                                std::chrono::seconds(4)};
constexpr std::chrono::seconds kPause{10};
constexpr int kMaxSkipped = 10;

}  // namespace

Checkpoint::Checkpoint(std::string dir, CheckpointOptions options)
    : dir_(std::move(dir)), options_(std::move(options)), report_(std::make_shared<std::string>()) {
  if (dir_.empty()) throw_invalid("checkpoint: the directory's name is empty");
  if (options_.keep < 1 || options_.keep_every_n_steps < 0) {
    throw_invalid("checkpoint '{}': keep is {}, keep_every_n_steps is {}, expected at least 1 and 0", dir_,
                  options_.keep, options_.keep_every_n_steps);
  }
  check_choice(dir_, "not_finite", options_.not_finite, {"skip", "error", "save"});
  check_choice(dir_, "on_failure", options_.on_failure, {"fail", "retry", "pause"});
  if (options_.asynchronous && options_.on_failure != "fail") {
    throw_invalid("checkpoint '{}': on_failure of an asynchronous one is '{}', expected 'fail'", dir_,
                  options_.on_failure);
  }
  if (!options_.monitor.empty()) monitor_.emplace(options_.monitor, options_.mode);
}

bool Checkpoint::decide(const std::function<bool()>& decision) const {
  return !decide_on_rank_0(ranks_.get(), [&] { return decision() ? "yes" : ""; }).empty();
}

CheckpointStoreOptions Checkpoint::store_options() const {
  // Without a mode it is not known yet which checkpoints are better.
  const bool is_rated = monitor_ && monitor_->mode() != "auto";
  return {.keep = options_.keep,
          .keep_every_n_steps = options_.keep_every_n_steps,
          .monitor = is_rated ? monitor_->entry() : "",
          .mode = is_rated ? monitor_->mode() : "",
          .files = options_.files};
}

void Checkpoint::finish(const Elapsed& elapsed, const State& state, bool prunes) {
  wait();
  if (run_ && prunes && !state.moved_from()) run_->prune(reached(elapsed, state));
  store_.reset();
  snapshot_.reset();
  ranks_.reset();
  run_.reset();
}

void Checkpoint::open_store(const std::shared_ptr<const Partitioner>& ranks) {
  const Shard shard = ranks ? ranks->update_shard() : Shard{};
  ranks_ = shard.count > 1 ? ranks : nullptr;
  CheckpointStoreOptions options = store_options();
  options.group.shard = shard;
  if (ranks_) options.group.timeout = ranks_->timeout();
  store_ = detail::shared_store(dir_, options, run_.get());
}

void Checkpoint::claim(std::shared_ptr<detail::RunCheckpoints>& run, const std::shared_ptr<const Partitioner>& ranks) {
  if (ranks) ranks->expect_same("checkpoint: the directory", dir_);
  if (!run) run = std::make_shared<detail::RunCheckpoints>();
  run_ = run;
  store_.reset();
  if (takes_part(ranks.get())) open_store(ranks);
  run_->add(dir_, store_options(), monitor_.has_value(), store_);
  if (store_) store_->acquire();
}

void Checkpoint::begin(const Elapsed& elapsed, const State& state, bool resumes) {
  expect_whole(state);
  if (monitor_) monitor_->begin(elapsed);
  store().begin_run();
  store().set_keep(store_options());
  if (is_writer()) {
    const std::int64_t steps = reached(elapsed, state);
    if (run_) run_->begin(steps);
    if (options_.overwrite) {
      // The next save removes the later checkpoints.
    } else if (resumes || elapsed.steps > 0) {
      const std::vector<std::string> aside = store().set_aside(steps);
      if (!aside.empty()) {
        *report_ = fmt::format("what is later than step {}, from which the run continues, was set aside: '{}'", steps,
                               fmt::join(aside, "', '"));
      }
    } else {
      // Fails now rather than at the first save, after much training.
      check_no_later_checkpoint(store(), *options_.files, steps);
    }
    std::int64_t bytes = 0;
    for (const Collection* collection : collections_of(state, Collections::saved)) {
      const int parts = collection->is_sharded() ? collection->options().parts : 1;
      bytes += static_cast<std::int64_t>(collection->bytes().bytes()) * parts;
    }
    store().check_writable(bytes);
  }
  if (ranks_ != nullptr) check_same_directory(store(), *ranks_);
}

bool Checkpoint::on_logged(const LogSchema& entries) {
  if (!monitor_) return true;
  const bool is_known = monitor_->learn_mode(entries);
  if (is_known && run_) run_->set_best(dir_, store_options());
  return is_known;
}

bool Checkpoint::is_improvement(double value, std::int64_t done, const State& state) {
  return decide([&] {
    if (!best_) {
      // Existing checkpoints up to this step belong to this run's past.
      const std::int64_t steps = counted_steps(state).value_or(done);
      best_.emplace();
      for (const StoredCheckpoint& stored : store().all()) {
        if (stored.record.steps <= steps) add_to_best(stored.record);
      }
    }
    const CheckpointRecord found{.monitor = monitor_->entry(), .best = value};
    const bool has_room = std::cmp_less(best_->size(), options_.keep);
    return is_better(found, has_room ? CheckpointRecord() : best_->back());
  });
}

bool Checkpoint::is_better(const CheckpointRecord& a, const CheckpointRecord& b) const {
  return detail::is_better(a, b, monitor_->entry(), monitor_->mode());
}

void Checkpoint::add_to_best(const CheckpointRecord& record) {
  if (!best_ || !is_better(record, {})) return;
  best_->insert(std::upper_bound(best_->begin(), best_->end(), record,
                                 [&](const auto& a, const auto& b) { return is_better(a, b); }),
                record);
  if (std::cmp_greater(best_->size(), options_.keep)) best_->pop_back();
}

void Checkpoint::expect_whole(const State& state) const {
  if (!state.moved_from() && !collections_of(state, Collections::saved).empty()) return;
  throw_invalid("checkpoint '{}': the state {}, expected one that holds its leaves", dir_,
                state.moved_from() ? "was moved from" : "has nothing to save");
}

Checkpoint::Saving Checkpoint::take_snapshot(const Elapsed& completed, const State& state, std::optional<double> best,
                                             const std::string& diverged) {
  expect_whole(state);
  store().wait();
  if (snapshot_ && snapshot_->fits(state)) {
    snapshot_->update(state);
  } else {
    snapshot_ = std::make_shared<Snapshot>(state, MemoryKind::pinned,
                                           is_writer() ? Collections::saved : Collections::saved_shards);
  }
  snapshot_->wait();

  const auto seconds = [&](double date) { return std::max(date - completed.date_start, 0.0); };
  Saving saving{snapshot_,
                {.steps = counted_steps(state).value_or(completed.steps),
                 .samples = completed.samples,
                 .previous_samples = completed.previous_samples,
                 .time = seconds(completed.date),
                 .previous_time = seconds(completed.previous_date),
                 .not_finite = find_not_finite(snapshot_->leaves())}};
  if (best) {
    saving.record.monitor = monitor_->entry();
    saving.record.best = best;
  }
  saving.completed = completed.steps;
  std::string& not_finite = saving.record.not_finite;
  if (not_finite.empty()) not_finite = diverged;
  const std::optional<int> rank = rank_with(ranks_.get(), !not_finite.empty());
  if (rank && not_finite.empty()) not_finite = fmt::format("a leaf of rank {}", *rank);
  const bool may_skip = !not_finite.empty() && options_.not_finite != "save";
  if (may_skip && decide([&] { return has_finite(store()); })) {
    *report_ = fmt::format("step {} is not saved: {} is not finite", saving.record.steps, not_finite);
    ++skipped_;
    if (options_.not_finite == "error" || skipped_ == kMaxSkipped) {
      const std::string before = skipped_ < 2 ? "" : fmt::format(", nor are the {} due before it", skipped_ - 1);
      throw_invalid("checkpoint '{}': {}{}", dir_, *report_, before);
    }
    saving.snapshot.reset();
  } else {
    skipped_ = 0;
  }
  return saving;
}

void Checkpoint::save(const Saving& saving, const char* name, const std::function<void(Archive&)>& persist) {
  if (is_writer() && !options_.overwrite)
    check_no_later_checkpoint(store(), *options_.files, std::max(saving.record.steps, saving.completed));
  CheckpointStoreOptions keep = store_options();
  if (run_ && monitor_) keep.resumable = run_->resumable();
  store().set_keep(std::move(keep));
  std::vector<std::shared_ptr<CheckpointStore>> others;
  if (run_ && !monitor_) {
    others = run_->best_stores();
    run_->set_saving(dir_, saving.record.steps);
  }
  CheckpointRecord record = saving.record;
  if (is_writer() && !record.best && store().latest_steps() == record.steps) {
    // Another checkpoint callback of this run has saved this step as one of the best: it stays one.
    if (const auto replaced = store().latest(); replaced && replaced->record.steps == record.steps) {
      record.monitor = replaced->record.monitor;
      record.best = replaced->record.best;
    }
  }
  const std::string id = ranks_ ? ranks_->broadcast(new_save_id()) : "";
  if (!options_.asynchronous) {
    for (const auto& other : others) other->wait();  // the retries below are not for their errors
  }
  for (std::size_t failures = 0;; ++failures) {
    Archive archive = store().archive();
    detail::persist_declared(archive, saving.snapshot->declared());
    if (persist) archive.within(name, [&] { persist(archive); });
    try {
      if (options_.asynchronous) {
        store().save_async(saving.snapshot, record, std::move(archive), id, others);
      } else {
        store().save(*saving.snapshot, record, std::move(archive), id);
      }
      break;
    } catch (const Error& error) {
      const bool retries = options_.on_failure == "retry" && failures < std::size(kRetryWaits);
      const bool pauses = options_.on_failure == "pause" && !is_interrupted();
      if (error.code() != ErrorCode::io || (!retries && !pauses)) throw;
      *report_ = fmt::format("step {} is not saved yet: {}", saving.record.steps, error.what());
      const auto until = std::chrono::steady_clock::now() + (retries ? kRetryWaits[failures] : kPause);
      while (std::chrono::steady_clock::now() < until && !is_interrupted()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
    }
  }
  if (saving.record.best) add_to_best(saving.record);
}

void Checkpoint::wait() {
  if (store_) store_->wait();
}

bool Checkpoint::save_at(const Elapsed& elapsed, const State& state, std::optional<double> best,
                         const std::function<void(Archive&)>& memory) {
  detail::Recording::expect_none("checkpoint");
  if (best && !monitor_) {
    throw_invalid("checkpoint '{}': got the value {} to monitor, but `monitor` is not set", dir_, *best);
  }
  if (best) monitor_->expect_mode();
  // A state that counts its steps itself may not have counted this one yet.
  Elapsed completed = elapsed;
  if (counted_steps(state).value_or(elapsed.steps + 1) > elapsed.steps) completed.count(elapsed.step_samples);
  const Saving saving = take_snapshot(completed, state, best, "");
  if (saving.snapshot) save(saving, "memory", memory);
  wait();
  return saving.snapshot != nullptr;
}

Checkpoint checkpoint(const std::string& dir, const CheckpointOptions& options) { return Checkpoint(dir, options); }

}  // namespace giro
