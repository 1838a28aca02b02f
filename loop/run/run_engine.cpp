#include "loop/run/run_engine.h"

#include <fmt/format.h>

#include <map>

#include <giro/runtime/files/archive.h>

#include "runtime/throw_error.h"

namespace giro::detail {
namespace {

// Sets the value of LoopOptions::tokens_per_sample, unless it is 0. Error(invalid_argument) if it is negative, or
// differs from the value in the steps so far, which would change their token count.
void set_tokens_per_sample(Elapsed& elapsed, std::int64_t given) {
  if (given == 0) return;
  if (given < 0) throw_invalid("LoopOptions::tokens_per_sample is {}, expected at least 0", given);
  if (elapsed.steps > 0 && elapsed.tokens_per_sample > 0 && elapsed.tokens_per_sample != given) {
    throw_invalid("LoopOptions::tokens_per_sample is {}, expected {}, as in the {} previous steps", given,
                  elapsed.tokens_per_sample, elapsed.steps);
  }
  elapsed.tokens_per_sample = given;
}

// The ranks that work on the state, or null if there is only one.
std::shared_ptr<const Partitioner> other_ranks(const StateAccess& state) {
  std::shared_ptr<const Partitioner> partitioner = state.partitioner();
  return partitioner && partitioner->size() > 1 ? partitioner : nullptr;
}

}  // namespace

Engine& AnyLoopState::run() const {
  if (run_ == nullptr) throw_invalid("there is no run here: this LoopState does not belong to one");
  return *run_;
}

Elapsed AnyLoopState::completed() const { return run().completed(); }
void AnyLoopState::at_step_end(std::function<void()> f) const { run().at_step_end(std::move(f)); }
void AnyLoopState::after_step(std::function<void()> f, bool first) const { run().after_step(std::move(f), first); }
void AnyLoopState::persist(Archive& archive) const { run().persist(archive); }

std::unique_ptr<Engine> Engine::create(EngineOptions options, std::vector<AnyTask> tasks, Cursor& dataset,
                                       StateAccess& state, AnyLoopState& loop) {
  return std::make_unique<RunEngine>(std::move(options), std::move(tasks), dataset, state, loop);
}

RunEngine::RunEngine(EngineOptions options, std::vector<AnyTask> tasks, Cursor& dataset, StateAccess& state,
                     AnyLoopState& loop)
    : Engine(std::move(options.results)),
      dataset_(dataset),
      state_(state),
      device_state_(state.device_state()),
      loop_(loop),
      options_(std::move(options)),
      partitioner_(other_ranks(state)),
      group_(partitioner_ && !options_.arbiter ? std::make_shared<GroupArbiter>(partitioner_) : nullptr),
      arbiter_(options_.arbiter ? options_.arbiter
               : group_         ? group_
                                : std::make_shared<Arbiter>()),
      asks_arbiter_(options_.arbiter || group_),
      clock_(*arbiter_),
      elapsed_(results.elapsed),
      journal_(results.history, results.outputs, current_),
      agenda_(std::move(tasks), partitioner_.get()),
      first_batch_(dataset.first_batch()),
      first_step_(elapsed_.steps),
      heeds_signals_(!is_in_saving_loop()) {
  constexpr std::int64_t kMost = std::int64_t{1} << 53;  // which logs and files hold exactly
  if (elapsed_.steps < 0 || elapsed_.samples < 0 || elapsed_.steps > kMost || elapsed_.samples > kMost) {
    throw_invalid("the loop begins after {} steps and {} samples of earlier ones, expected 0 to 2^53 of each",
                  elapsed_.steps, elapsed_.samples);
  }
  set_tokens_per_sample(elapsed_, options_.tokens_per_sample);
  clock_.start(elapsed_);
  stop_ = Deadline::at(options_.stop, elapsed_);
  if (group_) group_->set_launch([this] { launch(); });
  const auto is_left_out = [&](const AnyCallback& callback) {
    return callback->traits.is_primary_only && partitioner_ && partitioner_->rank() != 0;
  };
  std::erase_if(options_.on_start, is_left_out);
  std::erase_if(options_.on_end, is_left_out);
  for (Agenda::Task& task : agenda_.tasks()) {
    for (const AnyCallback& callback : task.callbacks) {
      saves_ |= callback->traits.saves;
      if (is_left_out(callback)) continue;
      callbacks_.push_back(callback.get());
      if (callback->traits.checks_entries) checking_entries_.push_back(callback.get());
    }
  }
}

RunEngine::Call::Call(RunEngine& run, const char* name) : run_(run) {
  if (run.device_state_ != nullptr) context_.emplace(run.device_state_->context());
  if (run.is_called_.exchange(true)) {
    throw_invalid("{}: called by a callback of the run, at step {}; expected a call after advance has returned", name,
                  run.elapsed_.steps);
  }
}

StopReason RunEngine::advance(const Period& until) {
  const Call call(*this, "advance");
  if (is_finished_ || results.ended != StopReason::reached) {
    throw_invalid("advance: the run has already ended at step {}", elapsed_.steps);
  }
  const InterruptScope signals(options_.catch_signals, saves_);
  try {
    StopReason why = advance_to(until);
    settle();
    between_steps_ = true;
    // A signal may have come while the run waited for the device.
    if (why != StopReason::reached) {
      if (results.interrupted == 0 && heeds_signals_ && !asks_arbiter_) results.interrupted = arbiter_->interrupt();
    } else if (is_interrupted()) {
      why = StopReason::interrupted;
      is_saved_ = saves_;
      loop_.batch_ = nullptr;
      run_last_after_all();
    }
    return results.ended = why;
  } catch (...) {
    fail(std::current_exception());
  }
}

void RunEngine::extend(const Period& stop, History history, Outputs outputs) {
  const Call call(*this, "extend");
  const bool has_stopped = (is_at_old_batch_ || (has_resumed_ && !has_begun_)) && !loop_.stop_iteration;
  if (!has_stopped || is_finished_) {
    throw_invalid("extend: expected a run that has stopped at LoopOptions::stop, found one that {}, at step {}",
                  is_finished_ ? "is finished" : "has not", elapsed_.steps);
  }
  results.ended = StopReason::reached;
  elapsed_.last = false;
  options_.stop = stop;
  stop_ = Deadline::at(stop, elapsed_);
  results.history = std::move(history);
  results.outputs = std::move(outputs);
  loop_.first_record_ = results.history.size();
}

StopReason RunEngine::advance_to(const Period& until) {
  if (!std::exchange(has_resumed_, true)) {
    resume();
    queue_ = DeviceQueue(options_.steps_per_execution);
  }
  set_aim(until);
  if ((!has_begun_ || is_at_old_batch_) && is_at_stop()) return StopReason::stopped;
  if (!std::exchange(has_begun_, true)) {
    if (!dataset_.begin(first_batch_)) {
      if (first_batch_ == dataset_.first_batch() &&
          (options_.stop.steps || options_.stop.samples || options_.stop.tokens)) {
        dataset_.activity = Cursor::Activity::dataset;
        throw_invalid("the dataset is empty, expected batches until {}", to_string(options_.stop));
      }
      return StopReason::dataset_ended;
    }
    loop_.batch_ = dataset_.batch();
    for (AnyCallback& c : options_.on_start) run_hook(c.get(), "::on_start", &CallbackModel::run);
    run_hooks("::on_start", &CallbackModel::on_start);
    loop_.logs.clear();
    if (arbiter_->stop(loop_.stop_iteration, elapsed_)) return StopReason::stopped;
  } else if (std::exchange(is_at_old_batch_, false)) {
    loop_.batch_ = nullptr;
    if (!dataset_.advance(loop_.batch_)) return StopReason::dataset_ended;
  }
  between_steps_ = false;
  while (!aim_.reached(elapsed_)) {
    const bool is_skipped = elapsed_.steps < idle_.steps && dataset_.skip(idle_, elapsed_, loop_.batch_);
    if (!is_skipped && aim_.reached(elapsed_)) break;
    if (const StopReason why = step(is_skipped); why != StopReason::reached) return why;
  }
  return StopReason::reached;
}

void RunEngine::set_aim(const Period& until) {
  aim_ = Deadline::at(until, elapsed_);
  // Later the clock knows of the run's own times; a pause must not make it read them again.
  const bool is_new = !has_begun_ || is_at_old_batch_;
  if (aim_.has_time() || (is_new && (stop_.has_time() || agenda_.reads_clock()))) clock_.watch();
  plan_idle_steps();
}

void RunEngine::plan_idle_steps() {
  const Deadline& next = agenda_.next();
  // The usual case: something is due in each step.
  idle_.steps = 0;
  if (next.steps <= elapsed_.steps || asks_arbiter_ || elapsed_.time() >= next.time) return;
  // A step that may be the run's last is not idle.
  idle_.steps = std::min({next.steps, stop_.steps - 1, aim_.steps, clock_.next() - 1});
  idle_.samples = std::min({next.samples, stop_.samples, aim_.samples});
}

// Runs one step. `is_skipped`: only its end, since it was idle and has turned out to be the dataset's last. Returns why
// the run ends with it, or `reached`.
StopReason RunEngine::step(bool is_skipped) {
  StopReason why = StopReason::dataset_ended;
  if (!is_skipped) {
    begin_step();
    why = reason_to_end();
    if (why == StopReason::reached && !dataset_.advance(loop_.batch_)) why = StopReason::dataset_ended;
  }
  if (why == StopReason::interrupted && saves_) {
    // The step is saved as if the run continued, so the callbacks of last() run after the save.
    end_step();
    is_saved_ = true;
    run_last_after_all();
  } else {
    if (why != StopReason::reached) run_last();
    end_step();
  }
  is_at_old_batch_ = why == StopReason::stopped;
  if (why != StopReason::dataset_ended) dataset_.release();
  return why;
}

void RunEngine::begin_step() {
  loop_.batch_ = dataset_.batch();
  elapsed_.step_samples = dataset_.samples(loop_.batch_);
  Elapsed after = elapsed_;
  after.count(elapsed_.step_samples);
  elapsed_.last = after.steps >= stop_.steps || after.samples >= stop_.samples;
  if (!agenda_.is_idle(elapsed_)) run_due(false);
}

// Why the run ends with this step, as far as callbacks, signals and the time decide it; else `reached`.
StopReason RunEngine::reason_to_end() {
  const double time = clock_.time_after(elapsed_);
  if (options_.arbiter) arbitrate_stop();
  if (elapsed_.last || loop_.stop_iteration) return StopReason::stopped;
  if (is_interrupted()) return StopReason::interrupted;
  if (group_ && group_->is_stop_agreed()) loop_.stop_iteration = true;
  return loop_.stop_iteration || time >= stop_.time ? StopReason::stopped : StopReason::reached;
}

// If a stop is refused, runs the callbacks that it had skipped.
void RunEngine::arbitrate_stop() {
  for (bool asked = true; asked;) {
    asked = loop_.stop_iteration;
    loop_.stop_iteration = arbiter_->stop(asked, elapsed_);
    if (!asked || loop_.stop_iteration) return;
    for (Agenda::Task& task : agenda_.tasks()) {
      if (task.due_at == elapsed_.steps) run_task(task, false);
    }
  }
}

void RunEngine::check_signals() {
  if (!heeds_signals_) return;
  const int signal = arbiter_->interrupt();
  const bool ends = signal != 0 && results.interrupted == 0;
  if (signal != 0) results.interrupted = signal;
  if (!saves_ || !(arbiter_->save() || ends)) return;
  const bool stopped = loop_.stop_iteration;
  run_hooks("::on_save", &CallbackModel::on_save);
  defer_stop(stopped);
}

// Passes the step's logs on to the journal. Returns whether there are any, or observers.
bool RunEngine::pass_on_logs() {
  if (!at_step_end_.empty()) run_deferred(at_step_end_, "::at_step_end");
  if (!checking_entries_.empty()) announce_entries(loop_.logs);
  const bool has_news = !loop_.logs.empty() || !journal_.is_empty();
  if (has_news) journal_.end_step(elapsed_, loop_.logs);
  if (!after_step_.empty()) run_deferred(after_step_, "::after_step");
  return has_news;
}

void RunEngine::end_step() {
  const bool has_news = pass_on_logs();
  elapsed_.count(elapsed_.step_samples);
  if (elapsed_.steps >= clock_.next()) {
    clock_.end_step(elapsed_, std::min({stop_.time, aim_.time, agenda_.next().time}));
  }
  if (queue_.end_step()) launch();
  if (has_news) drain(false);
  plan_idle_steps();
}

Elapsed RunEngine::completed() const {
  Elapsed elapsed = elapsed_;
  if (between_steps_) return elapsed;
  elapsed.count(elapsed.step_samples);
  elapsed.date = arbiter_->date();
  return elapsed;
}

void RunEngine::persist(Archive& archive) {
  Elapsed elapsed = completed();
  std::int64_t batches = first_batch_ + elapsed.steps - first_step_;
  archive("elapsed", elapsed)("batches", batches);
  set_tokens_per_sample(elapsed, options_.tokens_per_sample);
  if (archive.is_reading()) {
    if (elapsed.steps < 0 || elapsed.samples < 0 || batches < 0) {
      throw_error(ErrorCode::corrupt_data,
                  "the saved run has {} steps, {} samples and {} batches, expected none below 0", elapsed.steps,
                  elapsed.samples, batches);
    }
    elapsed_ = elapsed;
    clock_.start(elapsed_);
    archive.shift_dates(elapsed_.date - elapsed.date);
    first_step_ = elapsed.steps;
    first_batch_ = batches;
    stop_ = Deadline::at(options_.stop, elapsed_);
    agenda_.restart();
  }
  dataset_.persist(archive);
  state_.persist(archive);
  archive.within("history", [&] { results.history.persist(archive); });
  archive("first_record", loop_.first_record_)("stopped", loop_.stop_iteration);
  // A damaged history may lack some records.
  loop_.first_record_ = std::min(loop_.first_record_, results.history.size());
  // Each is stored under its name, so that it does not matter if other tasks are added: "a", "a #2", "b", "a #3".
  std::map<std::string, int> counts;
  const auto unique = [&](const std::string& name) {
    const int count = ++counts[name];
    return count == 1 ? name : fmt::format("{} #{}", name, count);
  };
  archive.within("schedules", [&] {
    for (Agenda::Task& task : agenda_.tasks()) {
      if (task.traits.persists) archive(unique(to_string(task.schedule)), task.schedule);
    }
  });
  counts.clear();
  archive.within("callbacks", [&] {
    for (Agenda::Task& task : agenda_.tasks()) {
      for (AnyCallback& callback : task.callbacks) {
        if (callback->traits.remembers) archive(unique(callback->name()), *callback.get());
      }
    }
  });
}

bool RunEngine::next() {
  if (!has_begun_) {
    set_aim({});
    has_begun_ = true;
    if (is_at_stop() || !dataset_.begin(first_batch_)) return false;
  } else {
    const bool ends = reason_to_end() != StopReason::reached;
    end_step();
    if (ends || !dataset_.advance(loop_.batch_)) return false;
    dataset_.release();
  }
  begin_step();
  clock_.read(elapsed_);
  return true;
}

}  // namespace giro::detail
