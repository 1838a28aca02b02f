#pragma once

#include <cstdint>
#include <optional>

#include <giro/runtime/stream.h>

namespace giro::detail {

// How many steps the device is handed at once. It grows from 1 while they take less than a millisecond together, so
// that launches cost little and the host still hears of each step soon; and it holds the host at most two such launches
// ahead of the device. What the steps compute does not depend on it.
class Pace {
 public:
  static constexpr std::int64_t kMaxSteps = 128;

  // Always `fixed` steps at once if that is not 0. Error(invalid_argument) if it is negative.
  explicit Pace(std::int64_t fixed);

  bool is_full(std::int64_t steps) const { return steps >= size_; }
  // After a launch of `steps` on the stream.
  void launched(std::int64_t steps, const Stream& stream);
  // Waits for the older of the launches that are on their way. False if none is.
  bool wait();

 private:
  bool fixed_;
  std::int64_t size_;
  std::int64_t since_mark_ = 0;
  std::int64_t marked_;  // nanoseconds of a steady clock
  std::optional<Event> newer_, older_;
  bool newer_is_on_its_way_ = false, older_is_on_its_way_ = false;
};

}  // namespace giro::detail
