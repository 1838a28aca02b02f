#include <giro/loop/group_arbiter.h>

#include <algorithm>
#include <array>
#include <utility>

#include <giro/loop/interrupt.h>

namespace giro::detail {
namespace {

constexpr std::chrono::duration<double> kBetweenLooks{0.05};
constexpr std::chrono::milliseconds kSameSignal{500};
constexpr double kMostGrowth = 2;  // of the steps between two looks: those that are held back seem to take no time

}  // namespace

GroupArbiter::GroupArbiter(std::shared_ptr<const Partitioner> partitioner) : partitioner_(std::move(partitioner)) {}

template <std::size_t kSize>
std::array<double, kSize> GroupArbiter::agree(const std::array<double, kSize>& values) {
  std::array<double, kSize + 1> asked{std::max(latest_, Elapsed::now())};
  std::ranges::copy(values, asked.begin() + 1);
  if (launch_) launch_();
  partitioner_->agree(asked);
  latest_ = asked[0];
  std::array<double, kSize> agreed;
  std::copy(asked.begin() + 1, asked.end(), agreed.begin());
  return agreed;
}

double GroupArbiter::now() {
  agree<0>({});
  return latest_;
}

double GroupArbiter::date() { return std::max(latest_, Elapsed::now()); }

int GroupArbiter::interrupt() {
  if (++steps_ < next_) return signal_;
  const std::chrono::duration<double> since = Clock::now() - looked_at_;
  const double pace = static_cast<double>(steps_ - looked_) * std::min(kBetweenLooks / since, kMostGrowth);
  if (Clock::now() - saved_at_ > kSameSignal) saves_asked_ = std::max(saves_asked_, most_saves_asked_);
  if (take_save_signal()) ++saves_asked_;
  // The largest of each: the fewest steps until the next time is the largest of their negatives.
  const auto asked =
      agree<3>({static_cast<double>(interrupt_signal()), static_cast<double>(saves_asked_), -std::max(pace, 1.0)});
  signal_ = static_cast<int>(asked[0]);
  most_saves_asked_ = static_cast<std::int64_t>(asked[1]);
  next_ = steps_ + static_cast<std::int64_t>(-asked[2]);
  looked_ = steps_;
  looked_at_ = Clock::now();
  return signal_;
}

bool GroupArbiter::save() {
  if (saves_done_ == most_saves_asked_) return false;
  saves_done_ = most_saves_asked_;
  saved_at_ = Clock::now();
  return true;
}

bool GroupArbiter::stop(bool asked, const Elapsed&) { return agree<1>({asked ? 1.0 : 0.0})[0] > 0; }

int GroupArbiter::leave() { return static_cast<int>(agree<1>({static_cast<double>(interrupt_signal())})[0]); }

void GroupArbiter::set_failed() noexcept { partitioner_->set_failed(); }

}  // namespace giro::detail
