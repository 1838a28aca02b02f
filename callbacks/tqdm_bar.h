#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include <giro/callbacks/progress_bar.h>
#include <giro/loop/time/elapsed.h>

namespace giro {

struct TqdmBarOptions {
  PeriodOrSteps total = {};                        // as KerasBarOptions::total
  std::string desc = {};                           // in front of the bar
  std::string unit = "step";                       // as in "36.10step/s"
  int width = 0;                                   // of the bar, in columns; 0: fills a terminal, 10 elsewhere
  double interval = 0.1;                           // seconds between redraws on a terminal
  double file_interval = 5.0;                      // seconds between lines elsewhere
  std::vector<std::string> stateful_metrics = {};  // shown as their latest value, not as a mean
  bool always_stateful = false;                    // all are shown as their latest value
  std::FILE* out = stderr;                         // must outlive the bar and its copies
};

// A ProgressBar like tqdm's:
//   train:  45%|####5     | 450/1000 [00:12<00:15, 36.10step/s, loss=0.123]
// The rate is the mean since the bar began. Errors: invalid_argument for a negative total, a negative width or a null
// `out`.
class TqdmBar : public ProgressBar {
 public:
  explicit TqdmBar(const TqdmBarOptions& options);
};
inline TqdmBar tqdm_bar(const TqdmBarOptions& options = {}) { return TqdmBar(options); }

}  // namespace giro
