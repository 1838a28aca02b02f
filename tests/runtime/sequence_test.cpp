// Several graphs in a row, combined into one.

#include <optional>

#include <giro/runtime/program/graph.h>

#include "tests/runtime/device_test.h"
#include "tests/support/expect_error.h"
#include "tests/support/tensor_ops.h"

namespace giro {
namespace {

using test::expect_error;

class SequenceTest : public test::DeviceTest {
 protected:
  void prepare() override {
    stream_.emplace(device());
    x_ = scalar(1, *stream_);
    y_ = scalar(0, *stream_);
  }
  // x + 1, computed in a temporary that starts as the old x.
  Graph plus_one() const {
    return Graph::record(*stream_, [&] {
      const Buffer storage = stream_->allocate(x_.bytes());
      const Tensor temporary(storage.place(), DType::i64, {}, device());
      copy(temporary, x_, *stream_);
      increment(temporary, 1, *stream_);
      copy(x_, temporary, *stream_);
    });
  }
  // Shows the order: y is the last x that it saw.
  Graph seen() const {
    return Graph::record(*stream_, [&] { copy(y_, x_, *stream_); });
  }
  std::int64_t x() const { return read(x_, *stream_); }
  std::int64_t y() const { return read(y_, *stream_); }

  std::optional<Stream> stream_;
  Tensor x_, y_;
};

TEST_P(SequenceTest, RunsItsPartsInOrderAnyNumberOfTimes) {
  const Graph a = plus_one(), b = seen();
  const Graph aba = Graph::sequence({&a, &b, &a});
  EXPECT_EQ(aba.num_nodes(), 2 * a.num_nodes() + b.num_nodes());
  EXPECT_EQ(aba.device(), device());
  EXPECT_EQ(x(), 1) << "nothing has run";
  aba.replay(*stream_);
  EXPECT_EQ(x(), 3);
  EXPECT_EQ(y(), 2);
  std::int64_t expected = 3;
  for (const std::int64_t times : {0, 2, 3, 127, 128, 300}) {
    aba.replay(*stream_, times);
    expected += 2 * times;
    EXPECT_EQ(x(), expected);
    EXPECT_EQ(y(), times == 0 ? 2 : expected - 1);
  }
}

TEST_P(SequenceTest, OutlivesItsParts) {
  std::optional<Graph> sequence;
  {
    const Graph a = plus_one(), b = seen();
    const Graph ab = Graph::sequence({&a, &b});
    sequence = Graph::sequence({&ab, &ab, &a});
    EXPECT_EQ(sequence->arena_bytes(), a.arena_bytes()) << "one arena, counted once";
  }
  for (int i = 0; i < 3; ++i) {
    const Buffer other = Buffer::allocate(device(), 1 << 20);
    stream_->fill(other.data(), 0xff, other.size());
    sequence->replay(*stream_, 3);
  }
  EXPECT_EQ(x(), 1 + 3 * 9);
  EXPECT_EQ(y(), 3 * 9);
}

TEST_P(SequenceTest, KeepsTheStreamThatItsPartsWereRecordedOn) {
  std::optional<Graph> sequence;
  {
    const Graph a = plus_one();
    sequence = Graph::sequence({&a});
  }
  stream_.emplace(device());
  sequence->replay(*stream_);
  EXPECT_EQ(x(), 2);
}

TEST_P(SequenceTest, CanBeReplayedWithinARecordingThatKeepsIt) {
  std::optional<Graph> outer;
  {
    const Graph a = plus_one();
    const Graph aa = Graph::sequence({&a, &a});
    outer = Graph::record(*stream_, [&] { aa.replay(*stream_, 3); });
  }
  const Buffer other = Buffer::allocate(device(), 1 << 20);
  stream_->fill(other.data(), 0xff, other.size());
  outer->replay(*stream_, 2);
  EXPECT_EQ(x(), 13);
}

TEST_P(SequenceTest, PreparingChangesNothing) {
  const Graph a = plus_one();
  for (const std::int64_t times : {0, 1, 5, 1'000}) a.prepare(times);
  EXPECT_EQ(x(), 1);
  a.replay(*stream_, 5);
  EXPECT_EQ(x(), 6);
}

TEST_P(SequenceTest, RejectsInvalidParts) {
  const auto invalid = ErrorCode::invalid_argument;
  Graph a = plus_one();
  expect_error(invalid, {"at least one"}, [&] { Graph::sequence({}); });
  expect_error(invalid, {"null"}, [&] { Graph::sequence({&a, nullptr}); });
  expect_error(invalid, {"-1 times"}, [&] { a.replay(*stream_, -1); });
  const Graph moved = std::move(a);
  expect_error(invalid, {"moved from"}, [&] { a.replay(*stream_); });
  expect_error(invalid, {"moved from"}, [&] { Graph::sequence({&moved, &a}); });
  EXPECT_EQ(x(), 1);
}

INSTANTIATE_TEST_SUITE_P(Devices, SequenceTest, test::kEachDevice, test::name_of_device);

TEST(SequenceCudaTest, PartsOfTwoDevicesAreRejected) {
  const Discovery discovery = discover_devices();
  if (discovery.best().is_cpu()) GTEST_SKIP() << "no CUDA device: " << discovery.no_cuda_reason;
  const Stream host(Device::cpu()), gpu(discovery.best());
  const Graph a = Graph::record(host, [] {}), b = Graph::record(gpu, [] {});
  for (const auto& parts : {std::vector{&a, &b}, std::vector{&b, &b, &a}}) {
    expect_error(ErrorCode::device_mismatch, {"cpu", "cuda:0"}, [&] { Graph::sequence(parts); });
  }
  expect_error(ErrorCode::device_mismatch, {"cpu", "cuda:0"}, [&] { a.replay(gpu); });
  expect_error(ErrorCode::device_mismatch, {"cpu", "cuda:0"}, [&] { b.replay(host); });
}

}  // namespace
}  // namespace giro
