#pragma once

#include <optional>

#include <giro/loop/log/logs.h>
#include <giro/loop/time/elapsed.h>

namespace giro {

// A callback that logs the metrics steps_per_second and samples_per_second since its previous call; the first call logs
// nothing. It is a barrier, because otherwise it would count steps that the device has yet to run: use every(1'000)
// rather than every(1).
class Timer {
 public:
  std::optional<Logs> operator()(const Elapsed& elapsed);
  void persist(Archive& archive);

 private:
  std::optional<Elapsed> before_;
};
inline Timer timer() { return {}; }

}  // namespace giro
