#pragma once

#include <cstdint>

namespace giro::cpu {

// Whether the largest logit of a row (the first of equal ones) is at the label and no logit is NaN.
template <class Label>
bool is_correct(const float* row, std::int64_t classes, Label label) {
  std::int64_t best = 0;
  bool comparable = row[0] == row[0];
  for (std::int64_t c = 1; c < classes; ++c) {
    comparable = comparable && row[c] == row[c];
    if (row[c] > row[best]) best = c;
  }
  return comparable && best == static_cast<std::int64_t>(label);
}

}  // namespace giro::cpu
