#include <giro/callbacks/periodic_action.h>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include <giro/callbacks/periodic_callback.h>
#include <giro/callbacks/profile.h>
#include <giro/callbacks/report_progress.h>
#include <giro/runtime/files/archive.h>
#include <giro/runtime/files/trace.h>

#include "callbacks/worker.h"
#include "runtime/throw_error.h"

namespace giro {
namespace {

// 37'020 s are "10h17m".
std::string format_seconds(double seconds) {
  constexpr double kMinute = 60, kHour = 60 * kMinute, kDay = 24 * kHour, kMax = 1e6 * kDay;
  const auto whole = static_cast<std::int64_t>(seconds > 0 ? std::min(seconds, kMax) / kMinute : 0);
  const std::int64_t days = whole / 1440, hours = whole / 60 % 24;
  return fmt::format("{}{}{}m", days > 0 ? fmt::format("{}d", days) : "", hours > 0 ? fmt::format("{}h", hours) : "",
                     whole % 60);
}

ActionInterval interval_of(const ReportProgressOptions& options) {
  ActionInterval interval{options.every_steps, options.every_secs, options.on_steps};
  if (options.num_train_steps > 0) interval.on_steps.push_back(options.num_train_steps);
  return interval;
}

}  // namespace

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

void PeriodicAction::persist(Archive& archive) {
  archive("is_seeded", is_seeded_)("last_step", last_step_)("previous_step", previous_step_);
  archive.date("previous_time", previous_time_);
}

struct PeriodicCallback::Memory {
  // Returns whether the step is one in which it is due.
  bool pass(std::int64_t step, double t, const Logs& logs);

  Function call;
  PeriodicAction action;
  bool execute_async;
  detail::Worker worker;  // last, so that its calls end before the members they use are destroyed
};

PeriodicCallback::PeriodicCallback(Function f, const PeriodicCallbackOptions& options, int)
    : memory_(std::shared_ptr<Memory>(
          new Memory{.call = std::move(f),
                     .action = {"periodic_callback", {options.every_steps, options.every_secs, options.on_steps}},
                     .execute_async = options.execute_async,
                     .worker = {}})) {}

bool PeriodicCallback::Memory::pass(std::int64_t step, double t, const Logs& logs) {
  action.see(step, t);
  if (!action.is_due(t)) return false;
  action.ran(step, t);
  if (!execute_async) {
    call(step, t, logs);
    return true;
  }
  Logs fetched = logs;  // in this thread, because no other may use the device's stream
  fetched.fetch();
  worker.submit([this, step, t, fetched = std::move(fetched)] { call(step, t, fetched); });
  return true;
}

bool PeriodicCallback::update(std::int64_t step, double t, const Logs& logs) {
  memory_->action.expect_next(step);
  return memory_->pass(step, t, logs);
}

void PeriodicCallback::join() { memory_->worker.join(); }
void PeriodicCallback::on_start(const Elapsed& elapsed) { memory_->action.begin(elapsed); }
void PeriodicCallback::operator()(const Elapsed& elapsed, const Logs& logs) {
  memory_->pass(elapsed.steps + 1, elapsed.date, logs);
}
void PeriodicCallback::on_end() { join(); }
void PeriodicCallback::persist(Archive& archive) { memory_->action.persist(archive); }

struct Profile::Memory {
  // Returns whether a profile has begun.
  bool pass(std::int64_t step, double t) {
    action.see(step, t);
    if (is_running) {
      const bool is_over = step >= action.previous_step() + options.num_profile_steps &&
                           (t - action.previous_time()) * 1e3 >= options.profile_duration_ms;
      if (is_over) stop();
      return false;
    }
    if (!action.reaches(options.first_profile) && !action.is_due(t)) return false;
    start(step);
    action.ran(step, t);
    return true;
  }
  void start(std::int64_t step) {
    std::shared_ptr<Trace> begun;
    if (!options.logdir.empty()) {
      options.files->create_directories(options.logdir);
      path = std::filesystem::path(options.logdir) / fmt::format("trace_{}.json", step);
      begun = std::make_shared<Trace>();
    }
    options.start();
    trace = std::move(begun);
    is_running = true;
  }
  void stop() {
    if (!std::exchange(is_running, false)) return;
    const std::shared_ptr<Trace> ended = std::exchange(trace, nullptr);
    options.stop();
    if (ended) ended->write(path, *options.files);
  }

  const ProfileOptions options;
  PeriodicAction action;
  bool is_running = false;
  std::shared_ptr<Trace> trace = {};  // of the running profile
  std::string path = {};              // of its file
};

Profile::Profile(const ProfileOptions& options)
    : memory_(std::shared_ptr<Memory>(new Memory{
          .options = options, .action = {"profile", {options.every_steps, options.every_secs, options.on_steps}}})) {
  const auto reject = [](const char* what, auto found) {
    throw_invalid("profile: {} is {}, expected 0 or more", what, found);
  };
  if (options.num_profile_steps < 0) reject("num_profile_steps", options.num_profile_steps);
  if (!(options.profile_duration_ms >= 0)) reject("profile_duration_ms", options.profile_duration_ms);
  if (options.num_profile_steps == 0 && options.profile_duration_ms == 0) {
    throw_invalid("profile: num_profile_steps and profile_duration_ms are 0, expected at least one above 0");
  }
}

bool Profile::update(std::int64_t step, double t) {
  memory_->action.expect_next(step);
  return memory_->pass(step, t);
}

bool Profile::is_running() const noexcept { return memory_->is_running; }
void Profile::on_start(const Elapsed& elapsed) {
  memory_->action.begin(elapsed);
  if (memory_->options.first_profile != 0 || memory_->is_running) return;
  memory_->action.see(elapsed.steps, elapsed.date);
  memory_->start(elapsed.steps);
  memory_->action.ran(elapsed.steps, elapsed.date);
}
void Profile::operator()(const Elapsed& elapsed, const Logs&) { memory_->pass(elapsed.steps + 1, elapsed.date); }
void Profile::on_end() { memory_->stop(); }
void Profile::persist(Archive& archive) { memory_->action.persist(archive); }

struct ReportProgress::Memory {
  explicit Memory(const ReportProgressOptions& o)
      : options(o), action("report_progress", interval_of(o)), begin(o.clock()) {}

  // Returns whether it has reported.
  bool pass(std::int64_t step, double t);
  void report(std::int64_t step, double t);

  const ReportProgressOptions options;
  PeriodicAction action;
  double begin;
  std::map<std::string, double> seconds_of_parts;
  std::string text;
};

void ReportProgress::Memory::report(std::int64_t step, double t) {
  const double speed = static_cast<double>(step - action.previous_step()) / (t - action.previous_time());
  const double uptime = options.clock() - begin;
  text = fmt::format("{:.1f} steps/s", speed);
  if (const std::int64_t total = options.num_train_steps; total > 0) {
    text += fmt::format(", {:.1f}% ({}/{}), ETA: {}", 100.0 * static_cast<double>(step) / static_cast<double>(total),
                        step, total, format_seconds(static_cast<double>(total - step) / speed));
  }
  if (!seconds_of_parts.empty()) {
    std::string parts;
    for (const auto& [name, seconds] : seconds_of_parts) {
      parts += fmt::format("{}{:.1f}% {}", parts.empty() ? "" : ", ", 100 * seconds / uptime, name);
    }
    text += fmt::format(" ({} : {})", format_seconds(uptime), parts);
  }
  if (options.out != nullptr) {
    std::fputs((text + '\n').c_str(), options.out);
    std::fflush(options.out);
  }
  if (options.writer) options.writer->write_scalars(step, {{"steps_per_sec", speed}, {"uptime", uptime}});
}

ReportProgress::ReportProgress(const ReportProgressOptions& options) : memory_(std::make_shared<Memory>(options)) {}

bool ReportProgress::Memory::pass(std::int64_t step, double t) {
  action.see(step, t);
  if (step == action.previous_step() || !action.is_due(t)) return false;
  report(step, t);
  action.ran(step, t);
  return true;
}

bool ReportProgress::update(std::int64_t step, std::optional<double> t) {
  memory_->action.expect_next(step);
  return memory_->pass(step, t ? *t : memory_->options.clock());
}

const std::string& ReportProgress::text() const noexcept { return memory_->text; }

ReportProgress::Timed ReportProgress::timed(std::string name) { return {memory_, std::move(name), {}}; }
ReportProgress::Timed ReportProgress::timed(std::string name, const Stream& stream) {
  return {memory_, std::move(name), stream};
}

void ReportProgress::on_start(const Elapsed& elapsed) { memory_->action.begin(elapsed); }
void ReportProgress::operator()(const Elapsed& elapsed, const Logs&) { memory_->pass(elapsed.steps + 1, elapsed.date); }
void ReportProgress::persist(Archive& archive) { memory_->action.persist(archive); }

ReportProgress::Timed::Timed(std::shared_ptr<Memory> memory, std::string name, std::optional<Stream> stream)
    : memory_(std::move(memory)), name_(std::move(name)), stream_(std::move(stream)) {
  if (stream_) stream_->synchronize();
  start_ = memory_->options.clock();
}

ReportProgress::Timed::~Timed() {
  try {
    if (stream_) stream_->synchronize();
    memory_->seconds_of_parts[name_] += memory_->options.clock() - start_;
  } catch (...) {
  }
}

}  // namespace giro
