#include <giro/loop/step/device_queue.h>

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/kernels/op_test.h"
#include "tests/support/tensor_ops.h"

namespace giro {
namespace {

using detail::StepCall;
using detail::StepRecording;

// Recordings "A", "B", ... that change the only number x of a state, so that x shows their order.
class DeviceQueueTest : public test::OpTest {
 protected:
  void SetUp() override {
    OpTest::SetUp();
    if (IsSkipped()) return;
    state_ = std::make_unique<State>(device());
    state_->add("x", {{"", DType::f64, {}}});
    state_->add("one", {{"", DType::f64, {}}});
    fill(state_->at("one"), 1, state_->stream());
    for (int i = 0; i < 3; ++i) {
      recordings_.push_back(std::make_shared<StepRecording>(
          call(),
          [this, i](const Batch&, const Broadcasts&) {
            const Tensor x = state_->at("x");
            scale(x, x, 1 + 0.5 * i, state_->stream());
            add(x, x, state_->at("one"), state_->stream());
            return Logs();
          },
          StepRecording::Mode::recorded, std::source_location()));
    }
  }
  StepCall call() const {
    return {*state_,
            batch_,
            broadcasts_,
            {nullptr, [](const void*, const void*) { return true; },
             [](const void*) { return std::shared_ptr<const void>(); }}};
  }
  // x after these calls, however they are launched.
  double run(detail::DeviceQueue& queue, const std::string& calls, char step_ends_after) {
    fill(state_->at("x"), 0, state_->stream());
    for (const char c : calls) {
      const auto& recording = recordings_[static_cast<std::size_t>(c - 'A')];
      recording->logs()->release(recording->logs()->expect());
      queue.push(recording, call());
      if (c == step_ends_after && queue.end_step()) queue.launch();
    }
    queue.launch();
    return to_host<double>(state_->at("x"), state_->stream()).front();
  }
  static double expected(const std::string& calls) {
    double x = 0;
    for (const char c : calls) x = x * (1 + 0.5 * (c - 'A')) + 1;
    return x;
  }
  static std::string repeated(const std::string& calls, int times) {
    std::string all;
    for (int i = 0; i < times; ++i) all += calls;
    return all;
  }

  std::unique_ptr<State> state_;
  const Batch batch_;
  const Broadcasts broadcasts_;
  std::vector<std::shared_ptr<StepRecording>> recordings_;
};
INSTANTIATE_TEST_SUITE_P(Devices, DeviceQueueTest, test::kDevices, test::device_name);

TEST_P(DeviceQueueTest, CallsRunInOrder) {
  for (const std::string calls : {"", "A", "AB", "AAB", "ABC", "BACCAB"}) {
    for (const int times : {1, 2, 3, 7}) {
      const std::string all = repeated(calls, times);
      for (const std::string more : {"", "A", "B", "AB"}) {
        detail::DeviceQueue queue(100);
        EXPECT_EQ(run(queue, all + more, '-'), expected(all + more)) << all + more;
        EXPECT_TRUE(queue.is_empty());
      }
    }
  }
}

TEST_P(DeviceQueueTest, RepeatedSequenceIsOneLaunch) {
  const auto launches = [&](const std::string& calls) {
    detail::DeviceQueue queue(100);
    (void)run(queue, calls, '-');
    return queue.num_launches();
  };
  EXPECT_EQ(launches("AAAAAAA"), 1);
  EXPECT_EQ(launches("ABABABAB"), 1);
  EXPECT_EQ(launches("AABAABAAB"), 1);
  EXPECT_EQ(launches("ABABA"), 2);  // the repetitions, and the start of another
  EXPECT_EQ(launches("AAB"), 2);    // one launch per run of a recording, as nothing repeats
  EXPECT_EQ(launches(""), 0);
}

TEST_P(DeviceQueueTest, EnoughStepsAreLaunched) {
  detail::DeviceQueue queue(4);
  (void)run(queue, repeated("AB", 10), 'B');
  EXPECT_EQ(queue.num_launches(), 3);  // of 4, 4 and 2 steps
}

// The queue holds back only as many calls as the rings have room for.
TEST_P(DeviceQueueTest, FullRingIsLaunched) {
  detail::DeviceQueue queue(1'000'000);
  const auto calls = static_cast<std::size_t>(recordings_[0]->max_held());
  EXPECT_EQ(run(queue, std::string(3 * calls, 'A'), '-'), static_cast<double>(3 * calls));
  EXPECT_EQ(queue.num_launches(), 3);
}

}  // namespace
}  // namespace giro
