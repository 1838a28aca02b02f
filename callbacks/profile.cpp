#include <giro/callbacks/profile.h>

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include <giro/runtime/files/trace.h>

#include "runtime/throw_error.h"

namespace giro {

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

}  // namespace giro
