#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include <giro/kernels/nn/partitioner.h>
#include <giro/loop/arbiter.h>
#include <giro/loop/time/elapsed.h>

namespace giro::detail {

// Makes the decisions of a run together with the other ranks that work on its state, so that all stop, save and look at
// the clock in the same step. Signals are asked for after steps that lie about 50 ms apart, since the hosts of all
// ranks wait for each other there.
class GroupArbiter final : public Arbiter {
 public:
  // Null where a state has no partitioner, or that of one rank.
  static std::shared_ptr<GroupArbiter> create(std::shared_ptr<const Partitioner> partitioner);
  explicit GroupArbiter(std::shared_ptr<const Partitioner> partitioner);
  ~GroupArbiter() override;
  GroupArbiter(const GroupArbiter&) = delete;
  GroupArbiter& operator=(const GroupArbiter&) = delete;

  // To be called before the ranks wait for each other: launches the steps that the host has held back. How many those
  // are depends on each rank's own pace, and a rank that waits here must not owe the others its part in one of them.
  void set_launch(std::function<void()> launch) { launch_ = std::move(launch); }

  // The latest of the ranks' clocks. Errors of these: communication.
  double now() override;
  // That of a signal that has come to any rank.
  int interrupt() override;
  bool save() override;
  // Whether any rank has asked so.
  bool stop(bool asked, const Elapsed& elapsed) override;
  // A stop that this rank alone asks for is told to the others with the next signals.
  void request_stop() noexcept { stop_requested_ = true; }
  bool is_stop_agreed() const noexcept { return stop_agreed_; }
  double date() override;
  // The latest that now() was, of any question.
  double agreed_date() const noexcept { return latest_; }
  void set_failed() noexcept override;

  // Waits until all ranks are at the end of the run, so that a signal to all of them finds none outside of it while
  // another still saves. The signal that asks to end and has come to any rank by then, or 0.
  int leave();

 private:
  // What the ranks are asked together.
  enum class Question { date, signals, stop, leave };
  // The largest of each of the ranks' values; and of the date. Error(communication) where not all ask the same.
  using Values = std::array<double, 4>;
  Values agree(Question question, const Values& values = {});

  std::function<void()> launch_;
  std::shared_ptr<const Partitioner> partitioner_;
  double latest_ = 0;
  int signal_ = 0;
  bool stop_requested_ = false, stop_agreed_ = false;
  // Signals that have asked to save: of this rank, the most of any, and those that have been followed. mpirun sends one
  // to all ranks, which do not get it at once: what comes to another rank soon after a save was the signal of that
  // save.
  std::int64_t saves_asked_ = 0, most_saves_asked_ = 0, saves_done_ = 0;
  double saved_at_ = Elapsed::now();
  std::int64_t steps_ = 0, next_ = 1;  // that have asked for signals, and the one in which the ranks do it together
  std::int64_t looked_ = 0;            // the step of the last time, and when that was
  double looked_at_ = Elapsed::now();
};

}  // namespace giro::detail
