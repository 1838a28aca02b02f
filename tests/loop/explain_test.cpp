#include <giro/loop/explain.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <giro/kernels/optim/train_state.h>
#include <giro/loop/data/batch.h>

namespace giro {
namespace {

using Tasks = std::vector<Task<TrainState, Batch>>;

struct Bar {
  void operator()(const Elapsed&, const Logs&) {}
};
struct Save {
  void operator()(const TrainState&, const Elapsed&) {}
};

const auto step = jit([](TrainState&, const Batch&) { return Logs(); });

TEST(Explain, DescribesEachTaskAndWhenItNeedsTheHost) {
  EXPECT_EQ(explain(Tasks{{every(1), step}, {every(1'000) | last(), Save()}, {every(1), Bar()}}),
            "1. every(1): a step: device step, queued and never waited for\n"
            "2. (every(1000) | last()): giro::Save: barrier, the device catches up to that step first\n"
            "   needs the host at steps 0, 1000, 2000, 3000, ...\n"
            "   and may need it at the end\n"
            "3. every(1): giro::Bar: observer, sees the logs a little behind the device\n"
            "The device may run up to 1000 steps alone.\n");
}

std::string alone(const Tasks& tasks, std::int64_t batch_size = 1, std::int64_t tokens_per_sample = 1) {
  const std::string text = explain(tasks, batch_size, tokens_per_sample);
  return text.substr(text.rfind('\n', text.size() - 2) + 1);
}

TEST(Explain, HowManyStepsTheDeviceMayRunAlone) {
  EXPECT_EQ(alone({{every(1), step}}), "The device may run all of its steps alone.\n");
  EXPECT_EQ(alone({{every(1), step}, {every(1), Bar()}}), "The device may run all of its steps alone.\n");
  EXPECT_EQ(alone({{every(1), step}, {every(1), Save()}}), "The device may run up to 1 step alone.\n");
  EXPECT_EQ(alone({{every(1), step}, {every({.samples = 320}), Save()}}, 32),
            "The device may run up to 10 steps alone.\n");
  EXPECT_EQ(alone({{every(1), step}, {every({.tokens = 32'000}), Save()}}, 32, 100),
            "The device may run up to 10 steps alone.\n");
  EXPECT_EQ(alone({{every(1), Save()}}), "No task is a device step: the host runs every step.\n");
  EXPECT_EQ(alone({{every(1), step}, {[](const Elapsed&) { return false; }, Save()}}),
            "The device may run up to 1 step alone.\n");
  const auto timed = jit([](TrainState&, const Batch&, const Broadcasts&) { return Logs(); });
  EXPECT_EQ(alone({{every(1), timed}}), "The device may run up to 1 step alone.\n");
}

TEST(Explain, MentionsSchedulesByTime) {
  const std::string text = explain(Tasks{{every(1), step}, {every({.time = 60}), Save()}});
  EXPECT_NE(text.find("also needs the host by the clock"), std::string::npos) << text;
  EXPECT_EQ(text.find("all of its steps"), std::string::npos) << text;
}

}  // namespace
}  // namespace giro
