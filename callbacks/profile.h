#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <giro/callbacks/periodic_action.h>
#include <giro/loop/log/logs.h>
#include <giro/loop/time/elapsed.h>
#include <giro/runtime/file_system.h>
#include <giro/runtime/profiler.h>

namespace giro {

struct ProfileOptions {
  std::int64_t num_profile_steps = 5;  // a profile takes so many steps,
  double profile_duration_ms = 3000;   // and so many milliseconds: both. 0 of one: the other decides
  // A step at which one begins, whatever the interval: after so many. 0: where a loop begins.
  std::int64_t first_profile = 10;
  // As in ActionInterval.
  std::optional<std::int64_t> every_steps = {};
  std::optional<double> every_secs = 3600;
  std::vector<std::int64_t> on_steps = {};
  // Where each profile leaves a trace (trace.h) of its steps, trace_<the step at which it has begun>.json; empty:
  // nowhere. The directory is made.
  std::string logdir = {};
  // What begins and ends a profile.
  std::function<void()> start = start_profiler;
  std::function<void()> stop = stop_profiler;
  std::shared_ptr<FileSystem> files = posix_file_system();
};

// Takes a profile of some steps now and then, as CLU's Profile: by hand (update), or as an observer in a loop, where it
// is a task of every(1), and refuses to pass over a step. A profile begins when one is due, and ends when both its
// steps and its time are over, or the loop is; what is due meanwhile is let go. An observer sees the steps when their
// logs arrive, when the device is some steps further on. Copies share what they remember.
//
//   {giro::every(1), giro::profile({.num_profile_steps = 20, .logdir = "logdir/1/profile"})}
class Profile {
 public:
  static constexpr bool kPrimaryOnly = true;

  // Errors: invalid_argument as of PeriodicAction, and for a profile of no steps and no time.
  explicit Profile(const ProfileOptions& options);

  // After `step` steps, at time `t` in seconds. Whether a profile has begun. Errors: those of PeriodicAction, what
  // start and stop throw, and with a logdir: invalid_argument where a trace is running in this process; device; io.
  bool update(std::int64_t step, double t = Elapsed::now());
  bool is_running() const noexcept;

  void on_start(const Elapsed& elapsed);
  void operator()(const Elapsed& elapsed, const Logs& logs);
  void on_end();
  void persist(Archive& archive);

 private:
  struct Memory;
  std::shared_ptr<Memory> memory_;
};
inline Profile profile(const ProfileOptions& options = {}) { return Profile(options); }

}  // namespace giro
