#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <giro/loop/log/logs.h>
#include <giro/loop/time/elapsed.h>

namespace giro {

namespace detail {
class Progress;
}

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

// An observer that draws a progress bar like tqdm's:
//   train:  45%|####5     | 450/1000 [00:12<00:15, 36.10step/s, loss=0.123]
// The rate is the mean since the bar began. Everything else is as with KerasBar. Errors: invalid_argument for a
// negative total, a negative width or a null `out`. Output errors are ignored.
class TqdmBar {
 public:
  static constexpr bool kPrimaryOnly = true;

  explicit TqdmBar(const TqdmBarOptions& options);
  void operator()(const Elapsed& elapsed, const Logs& logs);
  void on_end(const Elapsed& elapsed = {});
  void persist(Archive& archive);

 private:
  std::shared_ptr<detail::Progress> progress_;
};
inline TqdmBar tqdm_bar(const TqdmBarOptions& options = {}) { return TqdmBar(options); }

}  // namespace giro
