#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include <giro/runtime/stream.h>

namespace giro::detail {

// How many steps are handed to the device at once. The number grows from 1 while these steps together take less than a
// millisecond, so that launches cost little and the host still learns of each step soon. The host gets at most two such
// launches ahead of the device. Results do not depend on the number.
class LaunchPacer {
 public:
  static constexpr std::int64_t kMaxSteps = 128;

  // Always `fixed` steps at once if that is not 0. Error(invalid_argument) if it is negative.
  explicit LaunchPacer(std::int64_t fixed);

  bool is_full(std::int64_t steps) const { return steps >= size_; }
  // Call this after a launch of `steps` steps on the stream.
  void launched(std::int64_t steps, const Stream& stream);
  // Waits for the oldest launch in flight. False if there is none.
  bool wait();

 private:
  bool fixed_;
  std::int64_t size_;
  std::int64_t steps_since_mark_ = 0;
  std::int64_t marked_;                       // nanoseconds of a steady clock
  std::array<std::optional<Event>, 2> ends_;  // of the latest launches, in turns
  std::int64_t ended_ = 0, awaited_ = 0;      // launches whose end was recorded, and waited for
};

}  // namespace giro::detail
