#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include <giro/callbacks/progress_bar.h>
#include <giro/loop/time/elapsed.h>

namespace giro {

struct KerasBarOptions {
  // When the bar is complete, as in a loop's stop. With several fields it shows the one that is furthest along. Default
  // or 0: unknown.
  PeriodOrSteps total = {};
  // Counts from 0, as in ciclo and Keras: for 0 the line above the bar is "Epoch 1/10".
  std::optional<std::int64_t> epoch = {};
  std::optional<std::int64_t> num_epochs = {};
  int width = 30;                                  // of the bar, in columns
  double interval = 0.05;                          // seconds between redraws on a terminal
  double file_interval = 5.0;                      // seconds between lines elsewhere
  std::vector<std::string> stateful_metrics = {};  // shown as their latest value, not as a mean
  bool always_stateful = false;                    // all are shown as their latest value
  std::string unit_name = "step";                  // as in "12ms/step"
  std::FILE* out = stdout;                         // must outlive the bar and its copies
};

// A ProgressBar like Keras's:
//   4650/10000 [============>.................] - ETA: 8s - accuracy: 0.9779 - loss: 0.0718
// Errors: invalid_argument for a negative total, width < 1 or a null `out`.
class KerasBar : public ProgressBar {
 public:
  explicit KerasBar(const KerasBarOptions& options);
};
inline KerasBar keras_bar(const KerasBarOptions& options = {}) { return KerasBar(options); }

}  // namespace giro
