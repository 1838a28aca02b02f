#pragma once

#include <cstdio>

#include <giro/callbacks/flip/checkpoint.h>

namespace giro::flip {

// Shows each summary, and gives it back:
//   Step      7: Ran 1 train steps in 15.91 seconds
//   Step      7: train seconds_per_step | 15.90994287
//   Step      7: eval              lnpp | 5.54795837
// and an empty line. Of several ranks rank 0 shows. Output that fails is lost.
class SummaryLogger {
 public:
  explicit SummaryLogger(std::FILE* out = stdout) : out_(out) {}  // outlives this
  Summary operator()(Summary summary) const;

 private:
  std::FILE* out_;
};

}  // namespace giro::flip
