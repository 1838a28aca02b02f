#include "loop/run/journal.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include <giro/kernels/nn/functional.h>

#include "tests/kernels/op_test.h"

namespace giro {
namespace {

using Values = std::vector<double>;

struct Recorder final : detail::CallbackModel {
  Recorder() : CallbackModel({}) {}
  std::unique_ptr<CallbackModel> clone() const override { return std::make_unique<Recorder>(*this); }
  std::string name() const override { return "recorder"; }
  std::vector<std::pair<std::int64_t, double>> records;  // step, loss
  std::int64_t throw_at = -1;
  void observe(const Elapsed& elapsed, const Logs& logs) override {
    if (elapsed.steps == throw_at) throw std::runtime_error("full");
    records.emplace_back(elapsed.steps, logs.empty() ? -1 : logs.entry_value("loss"));
  }
};

class JournalTest : public test::OpTest {
 protected:
  void SetUp() override {
    OpTest::SetUp();
    if (IsSkipped()) return;
    loss_ = tensor({});
    call_ = tensor({}, DType::i64);
    from_host(call_, std::vector<std::int64_t>{0}, stream());
    ring_ = LogRing::create(logged(), call_, stream());
  }
  Logs logged() const { return logs().add_metric("loss", nn::Var(loss_, stream())); }
  // The device's work for a step.
  void run(float loss) const {
    from_host(loss_, std::vector{loss}, stream());
    ring_->publish(logged());
    stream().synchronize();
  }
  static constexpr auto now = [] { return 7.0; };

  History history_;
  Outputs outputs_;
  detail::Current running_;

  Tensor loss_, call_;
  std::shared_ptr<LogRing> ring_;
};
INSTANTIATE_TEST_SUITE_P(Devices, JournalTest, test::kDevices, test::device_name);

TEST_P(JournalTest, CommitsStepsInOrderOnceTheirLogsArrive) {
  detail::Journal journal(history_, outputs_, running_);
  Recorder seen;
  Elapsed elapsed;
  for (int step = 0; step < 3; ++step) {
    Logs host;
    journal.add(ring_);
    journal.add(&seen);
    if (step == 1) host.add_metric("loss", 100).add_metric("early", 1);  // the step's own entry comes later and wins
    journal.end_step(elapsed, host);
    EXPECT_TRUE(host.empty());
    elapsed.count(1);
  }
  // A step without device logs also waits for its turn.
  Logs host = logs().add_metric("loss", 9);
  journal.end_step(elapsed, host);
  journal.drain(false, now);
  EXPECT_EQ(history_.size(), 0u);
  run(0.5f);
  journal.drain(false, now);
  EXPECT_EQ(history_.size(), 1u);
  run(1.5f);
  run(2.5f);
  journal.drain(false, now);
  EXPECT_FALSE(journal.has_pending());
  EXPECT_EQ(history_.collect("steps", "loss")[1], (Values{0.5, 1.5, 2.5, 9}));
  EXPECT_EQ(history_.collect("steps", "early")[0], Values{1});
  EXPECT_EQ(history_.collect("date")[0], Values(4, 7.0));
  EXPECT_EQ(seen.records, (std::vector<std::pair<std::int64_t, double>>{{0, 0.5}, {1, 1.5}, {2, 2.5}}));
}

// More steps are pending each time.
TEST_P(JournalTest, StepsKeepTheirOrderWithManyInFlight) {
  detail::Journal journal(history_, outputs_, running_);
  Recorder seen;
  Elapsed elapsed;
  std::vector<std::pair<std::int64_t, double>> expected;
  for (const int steps : {5, 7, 20, 50}) {
    for (int i = 0; i < steps; ++i) {
      Logs none;
      journal.add(ring_);
      journal.add(&seen);
      journal.end_step(elapsed, none);
      expected.emplace_back(elapsed.steps, static_cast<double>(elapsed.steps) + 0.5);
      elapsed.count(1);
    }
    for (int i = steps; i > 0; --i) run(static_cast<float>(elapsed.steps - i) + 0.5f);
    journal.drain(false, now);
  }
  EXPECT_FALSE(journal.has_pending());
  EXPECT_EQ(seen.records, expected);
}

// Each new recording of a step has a new ring.
TEST_P(JournalTest, ReleasesRingsOnceTheDeviceIsSynchronized) {
  detail::Journal journal(history_, outputs_, running_);
  std::weak_ptr<LogRing> first = ring_;
  Elapsed elapsed;
  for (const float loss : {1.0f, 2.0f}) {
    Logs none;
    journal.add(ring_);
    journal.end_step(elapsed, none);
    elapsed.count(1);
    run(loss);
    // The calls so far are done.
    ring_ = LogRing::create(logged(), call_, stream(), elapsed.steps);
    EXPECT_FALSE(first.expired()) << "its rows are still to be read";
  }
  Logs at_hand;
  journal.drain(true, now);
  journal.arrive(at_hand);
  EXPECT_TRUE(first.expired());
  EXPECT_EQ(history_.collect("loss")[0], (Values{1, 2}));
}

TEST_P(JournalTest, CurrentStepIsReadableOnceTheDeviceIsSynchronized) {
  detail::Journal journal(history_, outputs_, running_);
  journal.add(ring_);
  run(4);
  Logs step = logs().add_metric("before", 1);
  journal.arrive(step);
  EXPECT_EQ(step.entry_value("loss"), 4);
  EXPECT_EQ(step.entry_value("before"), 1);
  EXPECT_TRUE(journal.is_empty());
  EXPECT_TRUE(ring_->has_room());
}

TEST_P(JournalTest, UnreadRowsBlockNothing) {
  {
    detail::Journal journal(history_, outputs_, running_);
    for (std::int64_t i = 0; i < ring_->capacity(); ++i) {
      Logs none;
      journal.add(ring_);
      journal.end_step({}, none);
    }
    EXPECT_FALSE(ring_->has_room());
  }
  EXPECT_TRUE(ring_->has_room());
  detail::Journal journal(history_, outputs_, running_);
  journal.add(ring_);
  journal.drop_step();
  EXPECT_TRUE(journal.is_empty());
}

TEST_P(JournalTest, RowThatWasNeverWritten) {
  detail::Journal journal(history_, outputs_, running_);
  Recorder seen;
  Logs none;
  journal.add(ring_);
  journal.add(&seen);
  journal.end_step({}, none);
  test::expect_error(ErrorCode::device, {"row 0", "never written"}, [&] { journal.drain(true, now); });
  journal.set_failing();
  journal.drain(true, now);
  EXPECT_FALSE(journal.has_pending());
  EXPECT_TRUE(seen.records.empty());
}

// Regression: observers received logs that the history had rejected.
TEST_P(JournalTest, RejectedRecordsAreNotObserved) {
  detail::Journal journal(history_, outputs_, running_);
  Recorder seen;
  Elapsed elapsed;
  for (int step = 0; step < 2; ++step) {
    Logs host = logs().add_metric("loss", step);
    if (step == 0) host.add_entry("elapsed", "steps", 3);
    journal.add(&seen);
    journal.end_step(elapsed, host);
    elapsed.count(1);
  }
  EXPECT_THROW(journal.drain(false, now), Error);
  EXPECT_EQ(running_.callback, nullptr);
  EXPECT_EQ(running_.step, 0);
  journal.drain(false, now);
  EXPECT_EQ(seen.records, (std::vector<std::pair<std::int64_t, double>>{{1, 1}}));
}

TEST_P(JournalTest, FailingObserverIsNamedAndNotCalledAgain) {
  detail::Journal journal(history_, outputs_, running_);
  Recorder first, second;
  first.throw_at = 1;
  Elapsed elapsed;
  for (int step = 0; step < 4; ++step) {
    Logs host = logs().add_metric("loss", step);
    journal.add(&first);
    journal.add(&second);
    journal.end_step(elapsed, host);
    elapsed.count(1);
  }
  EXPECT_THROW(journal.drain(true, now), std::runtime_error);
  EXPECT_EQ(running_.callback, &first);
  EXPECT_EQ(running_.step, 1);
  EXPECT_TRUE(first.failed);
  journal.drain(true, now);
  EXPECT_EQ(first.records.size(), 1u);
  EXPECT_EQ(second.records.size(), 4u);
}

}  // namespace
}  // namespace giro
