#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>

#include <giro/loop/elapsed.h>

namespace giro {

// When a callback is due: a value, asked once a step. Copies carry their own memory of what they have seen.
class Schedule {
 public:
  // Any callable of const Elapsed& that returns bool.
  template <class F>
    requires(!std::same_as<std::remove_cvref_t<F>, Schedule> && std::predicate<F&, const Elapsed&>)
  Schedule(F due) : due_(std::move(due)) {}

  bool operator()(const Elapsed& elapsed) { return due_(elapsed); }

 private:
  std::function<bool(const Elapsed&)> due_;
};

// every(n): at the steps 0, n, 2n, ... Error(invalid_argument) for n < 1.
Schedule every(std::int64_t steps);
// Any of the fields given: `steps` as above; `samples` and `time` (seconds since the loop's start) whenever another
// whole multiple was passed since the schedule was last asked. Error(invalid_argument) for none, or one that is not
// positive; dates do not recur.
Schedule every(const Period& period);

}  // namespace giro
