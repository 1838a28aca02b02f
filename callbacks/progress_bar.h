#pragma once

#include <memory>
#include <utility>

#include <giro/loop/log/logs.h>
#include <giro/loop/time/elapsed.h>
#include <giro/runtime/handle.h>

namespace giro {

namespace detail {
class Progress;
}

// Base of keras_bar and tqdm_bar: an observer that draws a progress bar. Copies draw the same one.
//
// Entries of "metrics", "losses" and "stateful_metrics" are shown as what the steps so far are together (CombinedLogs):
// means, weighted by counts or samples, and the latest value of stateful metrics, of rates and of an evaluation's
// results. A name in several of these collections is shown once. On a terminal the line is redrawn in place and cut to
// the terminal's width, except for the last line; elsewhere whole lines are written. The last line is written when the
// total is reached, or else when the loop ends or the bar and its copies are destroyed. Steps past the total are not
// shown. A step that does not come after the previous one restarts the bar. Output errors are ignored.
class ProgressBar {
 public:
  static constexpr bool kPrimaryOnly = true;

  void operator()(const Elapsed& elapsed, const Logs& logs);
  void on_end(const Elapsed& elapsed = {});
  void persist(Archive& archive);

 protected:
  explicit ProgressBar(std::shared_ptr<detail::Progress> progress) : progress_(std::move(progress)) {}

 private:
  detail::Handle<detail::Progress> progress_;
};

}  // namespace giro
