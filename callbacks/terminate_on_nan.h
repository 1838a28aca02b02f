#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <giro/kernels/nn/partitioner.h>
#include <giro/loop/callback.h>
#include <giro/loop/log/logs.h>
#include <giro/loop/time/elapsed.h>

namespace giro {

// A callback that stops the loop when the latest value of an entry, a name or "collection.name", is NaN or infinite; by
// default of any loss or metric. It reads what was logged since the loop began, by callbacks before it or in earlier
// steps. It can stop the loop, so it is a barrier: the device runs up to it and waits. NaN usually persists, so
// every(100) finds it as reliably as every(1). In a loop that saves, run it in each step that is saved: the state of
// the step in which it stops the loop replaces no good checkpoint, even if it is still finite
// (CheckpointOptions::not_finite), but one saved before this callback ran may have diverged. With several ranks, a
// value of any of them stops all. Error(not_found), naming the nearest entry, when it is called and an entry was never
// logged.
class TerminateOnNan : public GenericCallback {
 public:
  explicit TerminateOnNan(std::vector<std::string> keys) : keys_(std::move(keys)) {}

  // For loops written by hand: whether to stop.
  bool operator()(const Elapsed& elapsed, const Logs& logs);
  template <class S, class B>
  void operator()(LoopState<S, B>& loop) {
    if (!is_found_on_any(loop.elapsed, loop.accumulated_logs(), loop.partitioner())) return;
    loop.stop_iteration = true;
    loop.diverged = first_;
  }

  // Why this or a copy of it has stopped a loop, as in "metrics.loss is nan at step 120", or, if the values of this
  // rank are finite, "an entry of rank 1 is not finite at step 120"; empty if none has.
  const std::string& report() const noexcept { return *report_; }

 private:
  bool is_found_on_any(const Elapsed& elapsed, const Logs& logs, const Partitioner* ranks);

  std::vector<std::string> keys_;
  std::shared_ptr<std::string> report_ = std::make_shared<std::string>();
  std::string first_;  // the first entry that report() names
};

// terminate_on_nan(), or terminate_on_nan("loss", "grad_norm").
template <class... Keys>
TerminateOnNan terminate_on_nan(const Keys&... keys) {
  return TerminateOnNan({std::string(keys)...});
}

}  // namespace giro
