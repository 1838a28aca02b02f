#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <giro/loop/log/logs.h>
#include <giro/loop/time/elapsed.h>

namespace giro {

namespace detail {
class Progress;
}

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

// An observer that draws a progress bar like Keras's:
//   4650/10000 [============>.................] - ETA: 8s - accuracy: 0.9779 - loss: 0.0718
// Entries of "metrics" and "losses" are shown as their mean over the steps so far, weighted by the counts of metrics
// that have them (Logs::add_metric). Entries of "stateful_metrics" are shown as their latest value. A name in several
// of these collections is shown once. On a terminal the line is redrawn in place and cut to the terminal's width,
// except for the last line; elsewhere whole lines are written. The last line is written when the total is reached, or
// else when the loop ends or the bar and its copies are destroyed. Steps past the total are not shown. A step that does
// not come after the previous one restarts the bar. Errors: invalid_argument for a negative total, width < 1 or a null
// `out`. Output errors are ignored.
class KerasBar {
 public:
  static constexpr bool kPrimaryOnly = true;

  explicit KerasBar(const KerasBarOptions& options);
  void operator()(const Elapsed& elapsed, const Logs& logs);
  void on_end(const Elapsed& elapsed = {});
  void persist(Archive& archive);

 private:
  std::shared_ptr<detail::Progress> progress_;
};
inline KerasBar keras_bar(const KerasBarOptions& options = {}) { return KerasBar(options); }

}  // namespace giro
