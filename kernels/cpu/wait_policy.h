#pragma once

#include <cstdint>

namespace giro::cpu {

// Whether others want the CPUs that this process works on: told by how often one of its threads, though it could go on,
// loses its CPU.
class Contention {
 public:
  // Whether it is time, in seconds of any clock that starts at 0 or later, for the next update.
  bool due(double seconds) const { return seconds >= next_; }

  // The process's involuntary context switches have come to `switches`.
  bool update(double seconds, std::int64_t switches);

 private:
  static constexpr double kWindow = 0.1;     // seconds between updates, at least
  static constexpr double kContended = 25;   // switches a second; on idle CPUs there are a few
  static constexpr double kCalmSeconds = 2;  // before it counts as over
  double before_ = 0, next_ = 0, contended_at_ = 0;
  std::int64_t switches_before_ = 0;
  bool started_ = false, contended_ = false;
};

// Called before parallel work. While threads of OpenMP wait for each other they spin, which is fastest where the CPUs
// are idle otherwise; where they are not, those that spin keep the CPU from the one that they wait for, and a step
// takes several times as long as on one thread. So under contention they sleep soon, until it is over. The number of
// threads, on which results may depend, stays as it is. Nothing is changed where OMP_WAIT_POLICY or GOMP_SPINCOUNT is
// set.
void adapt_wait_policy();

}  // namespace giro::cpu
