#pragma once

#include <cstdint>

namespace giro::cpu {

// Whether the largest logit of a row (the first, if tied) is at the label and no logit is NaN.
template <class T, class Label>
bool is_correct(const T* row, std::int64_t classes, Label label) {
  std::int64_t best = 0;
  auto largest = static_cast<float>(row[0]);
  bool comparable = largest == largest;
  for (std::int64_t c = 1; c < classes; ++c) {
    const auto logit = static_cast<float>(row[c]);
    comparable = comparable && logit == logit;
    if (logit > largest) largest = logit, best = c;
  }
  return comparable && best == static_cast<std::int64_t>(label);
}

}  // namespace giro::cpu
