#include "loop/run/run_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <giro/runtime/error.h>
#include <giro/runtime/files/archive.h>

namespace giro::detail {
namespace {

// Sets the value of LoopOptions::tokens_per_sample, unless it is 0. Error(invalid_argument) if it is negative, or
// differs from the value in the steps so far, which would change their token count.
void set_tokens_per_sample(Elapsed& elapsed, std::int64_t given) {
  if (given == 0) return;
  if (given < 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("LoopOptions::tokens_per_sample is {}, expected at least 0", given));
  }
  if (elapsed.steps > 0 && elapsed.tokens_per_sample > 0 && elapsed.tokens_per_sample != given) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("LoopOptions::tokens_per_sample is {}, expected {}, as in the {} previous steps", given,
                            elapsed.tokens_per_sample, elapsed.steps));
  }
  elapsed.tokens_per_sample = given;
}

EngineOptions with_tokens(EngineOptions&& options) {
  set_tokens_per_sample(options.elapsed, options.tokens_per_sample);
  return std::move(options);
}

std::vector<Schedule> schedules_of(std::vector<EngineTask>& tasks) {
  std::vector<Schedule> schedules;
  for (EngineTask& task : tasks) schedules.push_back(std::move(task.schedule));
  return schedules;
}

// Makes names unique: "a", "a #2", "b", "a #3".
class UniqueNames {
 public:
  std::string operator()(const std::string& name) {
    const auto before = std::count(names_.begin(), names_.end(), name);
    names_.push_back(name);
    return before == 0 ? name : fmt::format("{} #{}", name, before + 1);
  }

 private:
  std::vector<std::string> names_;
};

}  // namespace

std::unique_ptr<Engine> Engine::create(EngineOptions options, std::vector<EngineTask> tasks, Cursor& dataset,
                                       StateAccess& state, AnyLoopState& loop) {
  return std::make_unique<RunEngine>(std::move(options), std::move(tasks), dataset, state, loop);
}

RunEngine::RunEngine(EngineOptions options, std::vector<EngineTask> tasks, Cursor& dataset, StateAccess& state,
                     AnyLoopState& loop)
    : dataset_(dataset),
      state_(state),
      device_state_(state.device_state()),
      loop_(loop),
      options_(with_tokens(std::move(options))),
      partitioner_(state.partitioner()),
      is_primary_(!partitioner_ || partitioner_->rank() == 0),
      has_own_arbiter_(options_.arbiter != nullptr),
      group_(has_own_arbiter_ ? nullptr : GroupArbiter::create(partitioner_)),
      asks_arbiter_(has_own_arbiter_ || group_),
      arbiter_(has_own_arbiter_ ? options_.arbiter
               : group_         ? group_
                                : std::make_shared<Arbiter>()),
      clock_(*arbiter_, options_.elapsed),
      elapsed_(clock_.started()),
      journal_(std::move(options_.history), std::move(options_.outputs)),
      agenda_(schedules_of(tasks)),
      stop_(Deadline::at(options_.stop, elapsed_)),
      first_batch_(dataset.first_batch()),
      heeds_signals_(!is_in_saving_loop()) {
  for (EngineTask& task : tasks) tasks_.push_back({std::move(task.callbacks)});
  if (agenda_.reads_clock() || stop_.has_time()) clock_.watch();
  if (group_) group_->set_launch([this] { launch(); });
}

StopReason RunEngine::advance(const Period& until) {
  if (has_ended_) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("advance: the run has already ended at step {}", elapsed_.steps));
  }
  const InterruptScope signals(options_.catch_signals, saves());
  try {
    StopReason why = advance_to(until);
    settle();
    between_steps_ = true;
    // A signal may have come while the run waited for the device.
    if (why != StopReason::reached) {
      if (signal_ == 0 && heeds_signals_ && !asks_arbiter_) signal_ = arbiter_->interrupt();
    } else if (is_interrupted()) {
      why = StopReason::interrupted;
      is_saved_ = saves();
      loop_.batch_ = nullptr;
      run_last_after_all();
    }
    if (why != StopReason::reached) end(why);
    return why;
  } catch (...) {
    fail(std::current_exception());
  }
}

void RunEngine::extend(const Period& stop, History history, Outputs outputs) {
  if (!after_stop_ || is_finished_) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("extend: expected a run that has stopped at LoopOptions::stop, found one that {}, at step {}",
                    is_finished_ ? "is finished" : "has not", elapsed_.steps));
  }
  has_ended_ = false;
  ended_ = StopReason::reached;
  elapsed_.last = false;
  options_.stop = stop;
  stop_ = Deadline::at(stop, elapsed_);
  if (stop_.has_time()) clock_.watch();
  journal_.history() = std::move(history);
  journal_.outputs() = std::move(outputs);
  loop_.first_record_ = journal_.history().size();
}

StopReason RunEngine::advance_to(const Period& until) {
  if (!has_begun_) {
    resume();
    queue_ = DeviceQueue(options_.steps_per_execution);
  }
  set_aim(until);
  if (!has_begun_) {
    if (is_at_stop()) return StopReason::stopped;
    activity_ = Activity::dataset;
    dataset_.begin(first_batch_);
    has_begun_ = true;
    if (dataset_.at_end()) {
      if (first_batch_ == dataset_.first_batch() &&
          (options_.stop.steps || options_.stop.samples || options_.stop.tokens)) {
        throw Error(ErrorCode::invalid_argument,
                    "the dataset is empty, expected batches until " + to_string(options_.stop));
      }
      return StopReason::dataset_ended;
    }
    if (start()) return StopReason::stopped;
  }
  if (after_stop_) {
    if (is_at_stop()) return StopReason::stopped;
    after_stop_ = false;
    loop_.batch_ = nullptr;
    activity_ = Activity::dataset;
    if (!dataset_.advance(loop_.batch_)) return StopReason::dataset_ended;
  }
  activity_ = Activity::loop;
  between_steps_ = false;
  while (!aim_.reached(elapsed_)) {
    const bool is_skipped = skip_idle_steps();
    if (!is_skipped && aim_.reached(elapsed_)) break;
    if (const StopReason why = step(is_skipped); why != StopReason::reached) return why;
  }
  return StopReason::reached;
}

void RunEngine::set_aim(const Period& until) {
  aim_ = Deadline::at(until, elapsed_);
  if (aim_.has_time()) clock_.watch();
  plan_idle_steps();
}

// Returns whether the last of the skipped steps is the dataset's last. It is not counted yet.
bool RunEngine::skip_idle_steps() {
  if (elapsed_.steps >= idle_.until_steps) return false;
  const std::int64_t before = elapsed_.steps;
  const bool is_last = dataset_.skip(idle_, elapsed_, activity_, loop_.batch_);
  activity_ = Activity::loop;
  if (elapsed_.steps != before) clock_.forget();
  return is_last;
}

// Runs one step. `is_skipped`: only its end, since it was idle and has turned out to be the dataset's last. Returns why
// the run ends with it, or `reached`.
StopReason RunEngine::step(bool is_skipped) {
  StopReason why = StopReason::dataset_ended;
  if (!is_skipped) {
    begin_step();
    why = reason_to_end();
    if (why == StopReason::reached) {
      activity_ = Activity::next_batch;
      if (!dataset_.advance(loop_.batch_)) why = StopReason::dataset_ended;
    }
  }
  activity_ = Activity::loop;
  if (why == StopReason::interrupted && saves()) {
    // The step is saved as if the run continued, so the callbacks of last() run after the save.
    end_step();
    is_saved_ = true;
    run_last_after_all();
  } else {
    if (why != StopReason::reached) run_last();
    end_step();
  }
  if (why != StopReason::dataset_ended) dataset_.release();
  return why;
}

void RunEngine::begin_step() {
  activity_ = Activity::dataset;
  const void* const batch = dataset_.batch();
  activity_ = Activity::batch_size;
  const std::int64_t samples = dataset_.samples(batch);
  activity_ = Activity::loop;
  elapsed_.step_samples = samples;
  elapsed_.last = elapsed_.steps + 1 >= stop_.steps || elapsed_.samples + samples >= stop_.samples;
  loop_.batch_ = batch;
  if (!agenda_.is_idle(elapsed_)) run_due();
}

// Why the run ends with this step, as far as callbacks, signals and the time decide it; else `reached`.
StopReason RunEngine::reason_to_end() {
  const bool knows_time = clock_.check(elapsed_);
  if (has_own_arbiter_) arbitrate_stop();
  if (elapsed_.last || loop_.stop_iteration) return StopReason::stopped;
  if (is_interrupted()) return StopReason::interrupted;
  if (group_ && group_->is_stop_agreed()) {
    loop_.stop_iteration = true;
    return StopReason::stopped;
  }
  return knows_time && clock_.time_after_step(elapsed_) >= stop_.time ? StopReason::stopped : StopReason::reached;
}

// If a stop is refused, runs the callbacks that it had skipped.
void RunEngine::arbitrate_stop() {
  for (bool asked = true; asked;) {
    asked = loop_.stop_iteration;
    loop_.stop_iteration = arbiter_->stop(asked, elapsed_);
    if (!asked || loop_.stop_iteration) return;
    run_skipped();
  }
}

void RunEngine::check_signals() {
  if (!heeds_signals_) return;
  const int signal = arbiter_->interrupt();
  const bool ends = signal != 0 && signal_ == 0;
  if (signal != 0) signal_ = signal;
  if (saves() && (arbiter_->save() || ends)) run_on_save();
}

// Passes the step's logs on to the journal. Returns whether there are any, or observers.
bool RunEngine::pass_on_logs() {
  if (!at_step_end_.empty()) run_deferred(at_step_end_, "::at_step_end");
  const bool has_news = !loop_.logs.empty() || !journal_.is_empty();
  if (has_news) journal_.end_step(elapsed_, loop_.logs);
  if (!after_step_.empty()) run_deferred(after_step_, "::after_step");
  return has_news;
}

void RunEngine::end_step() {
  const bool has_news = pass_on_logs();
  elapsed_.count(elapsed_.step_samples);
  if (clock_.end_step(elapsed_)) {
    clock_.plan(elapsed_, std::min({stop_.time, aim_.time, agenda_.next().time}));
  }
  if (queue_.end_step()) launch();
  if (has_news) drain(false);
  plan_idle_steps();
}

void RunEngine::plan_idle_steps() {
  const Deadline& next = agenda_.next();
  // The usual case: something is due in each step.
  idle_.until_steps = 0;
  if (next.steps <= elapsed_.steps || asks_arbiter_ || elapsed_.time() >= next.time) return;
  // A step that may be the run's last is not idle.
  idle_.until_steps = std::min({next.steps, stop_.steps - 1, aim_.steps, clock_.next() - 1});
  idle_.until_samples = std::min({next.samples, stop_.samples, aim_.samples});
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
  std::int64_t batches = first_batch_ + elapsed.steps - options_.elapsed.steps;
  archive("elapsed", elapsed)("batches", batches);
  set_tokens_per_sample(elapsed, options_.tokens_per_sample);
  if (archive.is_reading()) restore(elapsed, batches, archive);
  dataset_.persist(archive);
  state_.persist(archive);
  archive.within("history", [&] { journal_.history().persist(archive); });
  archive("first_record", loop_.first_record_)("stopped", loop_.stop_iteration);
  // A damaged history may lack some records.
  loop_.first_record_ = std::min(loop_.first_record_, journal_.history().size());
  // Each is stored under its name, so that it does not matter if other tasks are added.
  UniqueNames schedules, callbacks;
  archive.within("schedules", [&] {
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      Schedule& schedule = agenda_.schedule(i);
      if (schedule.traits().persists) archive(schedules(to_string(schedule)), schedule);
    }
  });
  archive.within("callbacks", [&] {
    for (Task& task : tasks_) {
      for (AnyCallback& callback : task.callbacks) {
        if (callback.remembers()) archive(callbacks(callback.name()), callback);
      }
    }
  });
}

// Continues where a saved run was.
void RunEngine::restore(const Elapsed& elapsed, std::int64_t batches, Archive& archive) {
  if (elapsed.steps < 0 || elapsed.samples < 0 || batches < 0) {
    throw Error(ErrorCode::corrupt_data,
                fmt::format("the saved run has {} steps, {} samples and {} batches, expected none below 0",
                            elapsed.steps, elapsed.samples, batches));
  }
  clock_.start(elapsed);
  elapsed_ = options_.elapsed = clock_.started();
  archive.shift_dates(elapsed_.date - elapsed.date);
  first_batch_ = batches;
  stop_ = Deadline::at(options_.stop, elapsed_);
  agenda_.restart();
}

bool RunEngine::begin() {
  set_aim({});
  if (is_at_stop()) return false;
  dataset_.begin(first_batch_);
  if (dataset_.at_end()) return false;
  begin_step();
  clock_.read(elapsed_);
  return true;
}

bool RunEngine::next() {
  const bool ends = reason_to_end() != StopReason::reached;
  end_step();
  if (ends || !dataset_.advance(loop_.batch_)) return false;
  dataset_.release();
  begin_step();
  clock_.read(elapsed_);
  return true;
}

}  // namespace giro::detail
