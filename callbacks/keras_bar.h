#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>

#include <giro/loop/elapsed.h>
#include <giro/loop/logs.h>

namespace giro {

struct KerasBarOptions {
  std::int64_t total = 0;      // steps; 0: unknown
  int width = 30;              // of the bar, in characters
  double interval = 0.05;      // seconds between two drawings on a terminal
  double file_interval = 5.0;  // seconds between two lines on anything else
  std::FILE* out = stdout;
};

// A progress bar as Keras draws it:
//   4650/10000 [============>.................] - ETA: 8s - accuracy: 0.9779 - loss: 0.0718
// Metrics are shown as their mean over the steps so far, entries of "stateful_metrics" as their latest value. On a
// terminal the line is drawn over itself and cut to its width; elsewhere whole lines are written.
class KerasBar {
 public:
  explicit KerasBar(const KerasBarOptions& options);
  void operator()(const Elapsed& elapsed, const Logs& logs);

 private:
  struct Drawing;
  std::shared_ptr<Drawing> drawing_;
};
inline KerasBar keras_bar(const KerasBarOptions& options = {}) { return KerasBar(options); }

}  // namespace giro
