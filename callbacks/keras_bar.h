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
  // When the bar is complete, as a loop's stop: of several fields it shows the one that is furthest on. Default or 0:
  // unknown.
  PeriodOrSteps total = {};
  // Counts from 0, as the epochs of ciclo and Keras do: the line in front of the bar says "Epoch 1/10" for 0.
  std::optional<std::int64_t> epoch = {};
  std::optional<std::int64_t> num_epochs = {};
  int width = 30;                                  // of the bar, in columns
  double interval = 0.05;                          // seconds between two drawings on a terminal
  double file_interval = 5.0;                      // seconds between two lines on anything else
  std::vector<std::string> stateful_metrics = {};  // names that are shown as their latest value, not as a mean
  bool always_stateful = false;                    // as if all were
  std::string unit_name = "step";                  // as in "12ms/step"
  std::FILE* out = stdout;                         // outlives the bar and its copies
};

// An observer that draws a progress bar as Keras does:
//   4650/10000 [============>.................] - ETA: 8s - accuracy: 0.9779 - loss: 0.0718
// Entries of "metrics" and "losses" are shown as their mean over the steps so far, metrics with counts
// (Logs::add_metric) weighed by these, those of "stateful_metrics" as their latest value, and a name that several of
// them have is shown once. On a terminal the line is drawn over itself and, but for the last, cut to its width;
// elsewhere whole lines are written. The last line comes when the total is reached, or else when the loop ends, or the
// bar and its copies go; what is beyond the total is not shown. A step that is not after the one before starts the bar
// anew. Errors: invalid_argument for options that make no bar. Output that fails is lost.
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
