#include "loop/run/group_arbiter.h"

#include <fmt/format.h>

#include <atomic>
#include <iterator>

#include <giro/loop/interrupt.h>
#include <giro/runtime/error.h>

#include "runtime/throw_error.h"

namespace giro::detail {
namespace {

constexpr double kExchangeInterval = 0.05;  // seconds
constexpr double kSameSignal = 0.5;         // seconds
constexpr double kMaxGrowth = 2;  // limits the growth of the interval, since held-back steps seem to take no time

std::atomic<int> arbiters = 0;  // live instances

}  // namespace

GroupArbiter::GroupArbiter(std::shared_ptr<const Partitioner> partitioner) : partitioner_(std::move(partitioner)) {
  if (arbiters++ == 0) agreed_signal = 0;
}

GroupArbiter::~GroupArbiter() {
  if (--arbiters == 0) agreed_signal = -1;
}

GroupArbiter::Values GroupArbiter::decide(Decision decision, const Values& values) {
  constexpr const char* kNames[] = {"what time it is", "whether a signal has arrived", "whether to stop",
                                    "to leave the loop"};
  constexpr int kDecisions = std::size(kNames);
  // One number for the decision and the step count. With its negative, the maxima give the ranks' largest and smallest.
  const auto asked_now = static_cast<double>(steps_ * kDecisions + static_cast<int>(decision));
  std::array<double, 3 + std::tuple_size_v<Values>> asked{asked_now, -asked_now, std::max(latest_, Elapsed::now())};
  std::ranges::copy(values, asked.begin() + 3);
  if (launch_) launch_();
  partitioner_->all_reduce_max(asked);
  if (asked[0] != asked_now || asked[1] != -asked_now) {
    const auto describe = [&](double number) {
      const auto whole = static_cast<std::int64_t>(number);
      return fmt::format("{} after {} steps", kNames[whole % kDecisions], whole / kDecisions);
    };
    throw_error(ErrorCode::communication, "the ranks are not at the same point: rank {} of {} asks {}, another {}",
                partitioner_->rank(), partitioner_->size(), describe(asked_now),
                describe(asked[0] != asked_now ? asked[0] : -asked[1]));
  }
  latest_ = asked[2];
  Values agreed;
  std::copy(asked.begin() + 3, asked.end(), agreed.begin());
  return agreed;
}

int GroupArbiter::interrupt() {
  if (++steps_ < next_) return signal_;
  const double now = Elapsed::now();
  const double since = now - exchange_time_;
  const double pace = static_cast<double>(steps_ - exchange_step_) * std::min(kExchangeInterval / since, kMaxGrowth);
  if (now - saved_at_ > kSameSignal) saves_requested_ = std::max(saves_requested_, max_saves_requested_);
  if (take_save_signal()) ++saves_requested_;
  // decide() takes maxima. The interval is sent as a negative, so that the shortest one wins.
  const auto asked =
      decide(Decision::signals, {static_cast<double>(interrupt_signal()), static_cast<double>(saves_requested_),
                                 -std::max(pace, 1.0), stop_requested_ ? 1.0 : 0.0});
  agreed_signal = signal_ = static_cast<int>(asked[0]);
  max_saves_requested_ = static_cast<std::int64_t>(asked[1]);
  next_ = steps_ + static_cast<std::int64_t>(-asked[2]);
  stop_agreed_ = asked[3] > 0;
  exchange_step_ = steps_;
  exchange_time_ = Elapsed::now();
  return signal_;
}

bool GroupArbiter::save() {
  if (saves_done_ == max_saves_requested_) return false;
  saves_done_ = max_saves_requested_;
  saved_at_ = Elapsed::now();
  return true;
}

int GroupArbiter::leave() {
  return static_cast<int>(decide(Decision::leave, {static_cast<double>(interrupt_signal())})[0]);
}

}  // namespace giro::detail
