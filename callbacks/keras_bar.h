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
  std::FILE* out = stdout;     // outlives the bar and its copies
};

// A progress bar as Keras draws it:
//   4650/10000 [============>.................] - ETA: 8s - accuracy: 0.9779 - loss: 0.0718
// Entries of "metrics" and "losses" are shown as their mean over the steps so far, those of "stateful_metrics" as their
// latest value, and a name that several of them have is shown once. On a terminal the line is drawn over itself and, but
// for the last, cut to its width; elsewhere whole lines are written. The last line comes when the total is reached, or
// else when the bar and its copies go; steps beyond the total are not shown. A step that is not behind the one before
// starts the bar anew. Errors: invalid_argument for options that make no bar. Output that fails is lost.
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
