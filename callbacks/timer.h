#pragma once

#include <optional>

#include <giro/loop/log/logs.h>
#include <giro/loop/time/elapsed.h>

namespace giro {

// A callback that logs the metrics steps_per_second and samples_per_second of the interval since its call before, and
// nothing at its first. It is a barrier, or it would count steps that the device has yet to do: every(1'000) rather
// than every(1).
class Timer {
 public:
  std::optional<Logs> operator()(const Elapsed& elapsed);
  void persist(Archive& archive);

 private:
  std::optional<Elapsed> before_;
};
inline Timer timer() { return {}; }

}  // namespace giro
