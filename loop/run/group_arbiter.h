#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include <giro/kernels/nn/partitioner.h>
#include <giro/loop/arbiter.h>
#include <giro/loop/time/elapsed.h>
#include <giro/runtime/not_copied.h>

namespace giro::detail {

// Makes the decisions of a run together with the other ranks that work on its state, so that all ranks stop, save and
// read the clock in the same step. Signals are exchanged only about every 50 ms, because the hosts of all ranks wait
// for each other to do so.
class GroupArbiter final : public Arbiter, NotCopied {
 public:
  explicit GroupArbiter(std::shared_ptr<const Partitioner> partitioner);
  ~GroupArbiter() override;

  // Sets a function that launches the steps the host has held back. It is called before the ranks wait for each other.
  // The number of held-back steps depends on each rank's pace, and a rank that waits here must not keep the others
  // waiting for its part in one of them.
  void set_launch(std::function<void()> launch) { launch_ = std::move(launch); }

  // The latest of the ranks' clocks. Errors of now, interrupt, stop and leave: communication.
  double now() override {
    decide(Decision::date);
    return latest_;
  }
  // The signal that any rank has received, or 0.
  int interrupt() override;
  bool save() override;
  // Whether any rank asks to stop.
  bool stop(bool asked, const Elapsed&) override { return decide(Decision::stop, {asked ? 1.0 : 0.0})[0] > 0; }
  // Asks to stop on this rank alone. The other ranks learn of it with the next exchange of signals.
  void request_stop() noexcept { stop_requested_ = true; }
  bool is_stop_agreed() const noexcept { return stop_agreed_; }
  double date() override { return std::max(latest_, Elapsed::now()); }
  // The latest date that the ranks have agreed on, in any exchange.
  double agreed_date() const noexcept { return latest_; }
  void set_failed() noexcept override { partitioner_->set_failed(); }

  // Waits until all ranks are at the end of the run, so that a signal sent to all of them does not reach one outside
  // the run while another still saves. Returns the signal to end that any rank has received by then, or 0.
  int leave();

 private:
  // What the ranks decide together.
  enum class Decision { date, signals, stop, leave };
  // The maximum of each value over the ranks. Also agrees on the latest date. Error(communication) if not all ranks ask
  // the same decision.
  using Values = std::array<double, 4>;
  Values decide(Decision decision, const Values& values = {});

  std::function<void()> launch_;
  std::shared_ptr<const Partitioner> partitioner_;
  double latest_ = 0;
  int signal_ = 0;
  bool stop_requested_ = false, stop_agreed_ = false;
  // Counts of signals that asked to save: received on this rank, the most on any rank, and acted on. mpirun sends a
  // signal to all ranks, but they do not receive it at the same time. A signal that reaches another rank soon after a
  // save belongs to that save.
  std::int64_t saves_requested_ = 0, max_saves_requested_ = 0, saves_done_ = 0;
  double saved_at_ = Elapsed::now();
  std::int64_t steps_ = 0, next_ = 1;  // calls of interrupt, and the call that exchanges signals next
  std::int64_t exchange_step_ = 0;     // value of steps_ at the last exchange; exchange_time_ is its time
  double exchange_time_ = Elapsed::now();
};

}  // namespace giro::detail
