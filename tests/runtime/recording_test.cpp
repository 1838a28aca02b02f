// A call that cannot be recorded throws an error itself.

#include <functional>
#include <future>
#include <optional>
#include <string>

#include <giro/runtime/device_context.h>
#include <giro/runtime/error.h>
#include <giro/runtime/program/graph.h>
#include <giro/runtime/state.h>

#include "tests/runtime/device_test.h"
#include "tests/support/expect_error.h"
#include "tests/support/tensor_ops.h"

namespace giro {
namespace {

using test::expect_error;

class RecordingTest : public test::DeviceTest {
 protected:
  void prepare() override {
    a_.emplace(device());
    b_.emplace(device());
    x_ = scalar(1, *a_);
    y_ = scalar(2, *a_);
  }
  // Expects `call` to fail in a recording on a_, and both streams to work normally afterwards.
  void expect_rejected(std::initializer_list<std::string> words, const std::function<void()>& call) {
    expect_error(ErrorCode::invalid_argument, words, [&] { Graph::record(*a_, call); });
    for (const Stream& stream : {*a_, *b_}) {
      EXPECT_FALSE(stream.is_recording());
      copy(y_, x_, stream);
      EXPECT_EQ(read(y_, stream), 1);
    }
  }

  std::optional<Stream> a_, b_;
  Tensor x_, y_;
};

TEST_P(RecordingTest, WorkOnAnotherStreamIsAnErrorThatNamesTheCall) {
  const std::string other = "another stream";
  const Graph graph = Graph::record(*b_, [&] { copy(y_, x_, *b_); });
  Event event(*b_);
  Buffer temporary;
  expect_rejected({"copy", other}, [&] { copy(y_, x_, *b_); });
  expect_rejected({"fill", other}, [&] { b_->fill(y_.raw(), 0, y_.bytes()); });
  expect_rejected({"allocate", other}, [&] { temporary = b_->allocate(8); });
  expect_rejected({"replay", other}, [&] { graph.replay(*b_); });
  expect_rejected({"record an event", other}, [&] { event.record(*b_); });
  expect_rejected({"wait", other}, [&] { b_->wait(event); });
  expect_rejected({"synchronize", other}, [&] { b_->synchronize(); });
  expect_rejected({"to_host", other}, [&] { read(x_, *b_); });
  expect_rejected({"from_host", other}, [&] { from_host<std::int64_t>(y_, {3}, *b_); });
  expect_rejected({other}, [&] { increment(y_, 1, *b_); });
  expect_rejected({"recording"}, [&] { Graph::record(*b_, [] {}); });
}

TEST_P(RecordingTest, NothingOfARejectedRecordingRuns) {
  expect_error(ErrorCode::invalid_argument, {"fill"}, [&] {
    Graph::record(*a_, [&] {
      increment(x_, 1, *a_);
      b_->fill(y_.raw(), 0, y_.bytes());
    });
  });
  EXPECT_EQ(read(x_, *a_), 1);
  EXPECT_EQ(read(y_, *b_), 2);
}

TEST_P(RecordingTest, HostCannotAccessRecordedValues) {
  expect_rejected({"to_host", "is recording"}, [&] { read(x_, *a_); });
  expect_rejected({"from_host", "is recording"}, [&] { from_host<std::int64_t>(x_, {3}, *a_); });
  expect_rejected({"synchronize", "is recording"}, [&] { a_->synchronize(); });
  Event event(*a_);
  expect_rejected({"synchronize", "recording"}, [&] {
    event.record(*a_);
    event.synchronize();
  });
  expect_rejected({"query", "recording"}, [&] {
    event.record(*a_);
    (void)event.query();
  });
  expect_error(ErrorCode::invalid_argument, {"query", "recording"}, [&] { (void)event.query(); });
  event.record(*a_);
  event.synchronize();
}

TEST_P(RecordingTest, CannotWaitForOutsideWork) {
  Event outside(*b_);
  expect_rejected({"wait", "outside"}, [&] {
    a_->wait(Event(*b_));  // never recorded
    outside.record(*a_);
    a_->wait(outside);
    throw Error(ErrorCode::invalid_argument, "so far it was right: wait outside");
  });
  outside.record(*b_);
  expect_rejected({"wait", "from outside"}, [&] { a_->wait(outside); });
}

TEST_P(RecordingTest, OutsideWorkCannotWaitForIt) {
  Event inside(*a_);
  const Graph graph = Graph::record(*a_, [&] {
    increment(x_, 1, *a_);
    inside.record(*a_);
  });
  expect_error(ErrorCode::invalid_argument, {"wait", "recording"}, [&] { b_->wait(inside); });
}

TEST_P(RecordingTest, WaitingStreamJoinsTheRecording) {
  const Graph graph = Graph::record(*a_, [&] {
    Event forked(*a_), joined(*a_);
    increment(x_, 1, *a_);
    forked.record(*a_);
    b_->wait(forked);
    EXPECT_TRUE(b_->is_recording());
    copy(y_, x_, *b_);
    expect_error(ErrorCode::unsupported, {"allocate", "joined"}, [&] { b_->allocate(8); });
    expect_error(ErrorCode::invalid_argument, {"to_host"}, [&] { read(y_, *b_); });
    joined.record(*b_);
    a_->wait(joined);
    increment(x_, 1, *a_);
  });
  EXPECT_FALSE(b_->is_recording());
  EXPECT_EQ(graph.num_nodes(), 3u);
  EXPECT_EQ(read(y_, *b_), 2) << "nothing has run";
  graph.replay(*a_, 3);
  EXPECT_EQ(read(x_, *a_), 7);
  EXPECT_EQ(read(y_, *a_), 6);
  from_host<std::int64_t>(x_, {1}, *a_);
  expect_rejected({"copy", "another stream"}, [&] { copy(y_, x_, *b_); });  // b_ takes no part in this new recording
}

TEST_P(RecordingTest, ThreadsRecordSeparately) {
  const Graph graph = Graph::record(*a_, [&] {
    increment(x_, 1, *a_);
    std::async(std::launch::async, [&] {
      EXPECT_FALSE(b_->is_recording());
      increment(y_, 1, *b_);
      b_->synchronize();
      expect_error(ErrorCode::invalid_argument, {"being recorded by another thread"}, [&] { copy(y_, x_, *a_); });
      expect_error(ErrorCode::invalid_argument, {"being recorded by another thread"}, [&] { a_->synchronize(); });
      expect_error(ErrorCode::invalid_argument, {"being recorded by another thread"},
                   [&] { Graph::record(*a_, [] {}); });
    }).get();
  });
  EXPECT_EQ(graph.num_nodes(), 1u);
  EXPECT_EQ(read(y_, *b_), 3);
  graph.replay(*a_);
  EXPECT_EQ(read(x_, *a_), 2);
}

TEST_P(RecordingTest, SecondStateIsRecordedIfItSharesTheContext) {
  State first(device()), second(first.context()), third(device());
  for (State* state : {&first, &second, &third}) state->add("n", {{"", DType::i64, {}}});
  const auto step = [](const State& state) { increment(state.at("n"), 1, state.stream()); };
  const Graph graph = Graph::record(first.stream(), [&] {
    step(first);
    step(second);
  });
  graph.replay(first.stream(), 2);
  EXPECT_EQ(read(first.at("n"), first.stream()), 2);
  EXPECT_EQ(read(second.at("n"), second.stream()), 2);
  expect_error(ErrorCode::invalid_argument, {"another stream", "only one device context"}, [&] {
    Graph::record(first.stream(), [&] {
      step(first);
      step(third);
    });
  });
  expect_error(ErrorCode::invalid_argument, {"another stream"},
               [&] { Graph::record(first.stream(), [&] { first.assign(third); }); });
  EXPECT_EQ(read(third.at("n"), third.stream()), 0);
}

TEST_P(RecordingTest, PreparationRunsOutsideTheRecording) {
  const Graph graph = Graph::record(*a_, [&] {
    {
      const OutsideRecording outside;
      from_host<std::int64_t>(y_, {5}, *b_);
      EXPECT_EQ(read(y_, *b_), 5);
      expect_error(ErrorCode::invalid_argument, {"copy", "being recorded"}, [&] { copy(x_, y_, *a_); });
      expect_error(ErrorCode::invalid_argument, {"being recorded"}, [&] { increment(x_, 1, *a_); });
    }
    copy(x_, y_, *a_);
    expect_error(ErrorCode::invalid_argument, {"another stream"}, [&] { copy(x_, y_, *b_); });
  });
  EXPECT_EQ(graph.num_nodes(), 1u);
  from_host<std::int64_t>(y_, {6}, *b_);
  graph.replay(*a_);
  EXPECT_EQ(read(x_, *a_), 6);
}

INSTANTIATE_TEST_SUITE_P(Devices, RecordingTest, test::kEachDevice, test::name_of_device);

}  // namespace
}  // namespace giro
