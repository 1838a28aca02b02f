#pragma once

#include <cstdio>

#include <giro/callbacks/flip/checkpoint.h>

namespace giro::flip {

// Prints each summary and returns it:
//   Step      7: Ran 1 train steps in 15.91 seconds
//   Step      7: train seconds_per_step | 15.90994287
//   Step      7: eval              lnpp | 5.54795837
// and an empty line. Only rank 0 prints. Output errors are ignored.
class SummaryLogger {
 public:
  explicit SummaryLogger(std::FILE* out = stdout) : out_(out) {}  // `out` must outlive this
  Summary operator()(Summary summary) const;

 private:
  std::FILE* out_;
};

}  // namespace giro::flip
