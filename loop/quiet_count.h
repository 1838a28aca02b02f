#pragma once

#include <cstdint>

#include <giro/loop/interrupt.h>

namespace giro::detail {

// Counts quiet steps, up to the next step that may need more than counting.
struct QuietCount {
  std::int64_t steps, samples;
  std::int64_t previous_samples;  // as in Elapsed
  std::int64_t until_steps, until_samples;

  bool goes_on() const { return steps < until_steps && !has_pending_signals(); }
  bool fits(std::int64_t size) const { return samples + size < until_samples; }
  void add(std::int64_t size) {
    previous_samples = samples;
    samples += size;
    ++steps;
  }
};

}  // namespace giro::detail
