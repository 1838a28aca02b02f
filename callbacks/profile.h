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
#include <giro/runtime/files/file_system.h>
#include <giro/runtime/handle.h>
#include <giro/runtime/profiler.h>

namespace giro {

struct ProfileOptions {
  std::int64_t num_profile_steps = 5;  // a profile lasts at least this many steps,
  double profile_duration_ms = 3000;   // and at least this many milliseconds; 0: only the other one counts
  // A profile also begins after this many steps, regardless of the interval. 0: when a loop begins.
  std::int64_t first_profile = 10;
  // As in ActionInterval.
  std::optional<std::int64_t> every_steps = {};
  std::optional<double> every_secs = 3600;
  std::vector<std::int64_t> on_steps = {};
  // The directory for traces (files/trace.h), one per profile, trace_<the step at which it began>.json. Empty: no
  // traces. Created if needed.
  std::string logdir = {};
  // Called to begin and end a profile.
  std::function<void()> start = start_profiler;
  std::function<void()> stop = stop_profiler;
  std::shared_ptr<FileSystem> files = posix_file_system();
};

// Profiles some steps periodically, like CLU's Profile: by hand (update), or as an observer in a loop, as a task of
// every(1). A profile begins when one is due, and ends when both its steps and its time are over, or the loop ends. In
// a task with gaps it begins and ends in the first step of the task that comes then, so it may be longer. One that is
// due while another runs is dropped. As an observer it sees steps when their logs arrive, and the device is some steps
// ahead by then. Copies share their memory.
//
//   {giro::every(1), giro::profile({.num_profile_steps = 20, .logdir = "logdir/1/profile"})}
class Profile {
 public:
  static constexpr bool kPrimaryOnly = true;

  // Errors: invalid_argument, as PeriodicAction, for a negative num_profile_steps or profile_duration_ms, or if both
  // are 0.
  explicit Profile(const ProfileOptions& options);

  // Call it after `step` steps, at time `t` in seconds. Returns whether a profile has begun. Errors: those of
  // PeriodicAction, start and stop; with a logdir also invalid_argument if a trace is running in this process, device,
  // and io.
  bool update(std::int64_t step, double t = Elapsed::now());
  bool is_running() const noexcept;

  void on_start(const Elapsed& elapsed);
  void operator()(const Elapsed& elapsed, const Logs& logs);
  void on_end();
  void persist(Archive& archive);

 private:
  struct Memory;
  detail::Handle<Memory> memory_;
};
inline Profile profile(const ProfileOptions& options = {}) { return Profile(options); }

}  // namespace giro
