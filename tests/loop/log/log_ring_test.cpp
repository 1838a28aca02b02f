#include <giro/loop/log/log_ring.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include <giro/runtime/program/graph.h>

#include "tests/kernels/op_test.h"

namespace giro {
namespace {

class LogRingTest : public test::OpTest {
 protected:
  void SetUp() override {
    OpTest::SetUp();
    if (IsSkipped()) return;
    a_ = tensor({});
    b_ = tensor({}, DType::i64);
    call_ = tensor({}, DType::i64);
  }
  // A ring for logs_of_both().
  std::shared_ptr<LogRing> make_ring(std::int64_t first = 0) const {
    from_host(call_, std::vector{first}, stream());
    return LogRing::create(logs_of_both(), call_, stream(), first);
  }
  Logs logs_of_both() const {
    return logs().add_metric("a", nn::Var(a_, stream())).add_loss("host", 0.5).add_loss("b", nn::Var(b_, stream()));
  }
  // Queues values so that row `i` holds {i / 4, -i}.
  void set(std::int64_t i) const {
    from_host(a_, std::vector{static_cast<float>(i) / 4}, stream());
    from_host(b_, std::vector{-i}, stream());
  }
  static void expect_row(const Logs& row, std::int64_t i) {
    EXPECT_EQ(row.entry_value("a"), static_cast<double>(i) / 4) << "row " << i;
    EXPECT_EQ(row.entry_value("b"), static_cast<double>(-i)) << "row " << i;
    EXPECT_EQ(row.entry_value("host"), 0.5);
  }

  Tensor a_, b_, call_;
};

TEST_P(LogRingTest, RowsArriveInOrder) {
  const auto ring = make_ring();
  for (std::int64_t i = 0; i < 10; ++i) {
    set(i);
    const auto row = ring->expect_logs();
    ring->publish(logs_of_both());
    expect_row(row, i);
    EXPECT_TRUE(row.ready());
  }
}

TEST_P(LogRingTest, RowIsReadyOnceWritten) {
  const auto ring = make_ring();
  const auto row = ring->expect_logs();
  EXPECT_FALSE(row.ready());
  test::expect_error(ErrorCode::device, {"row 0", "never written"}, [&] { row.entry_value("a"); });
  set(5);
  ring->publish(logs_of_both());
  stream().synchronize();
  EXPECT_TRUE(row.ready());
  expect_row(row, 5);
}

TEST_P(LogRingTest, RecordedRows) {
  const auto ring = make_ring();
  const Graph graph = Graph::record(stream(), [&] { ring->publish(logs_of_both()); });
  std::vector<Logs> rows;
  for (std::int64_t i = 0; i < 10; ++i) {
    set(i);
    rows.push_back(ring->expect_logs());
    graph.replay(stream());
  }
  for (std::size_t i = 0; i < rows.size(); ++i) expect_row(rows[i], static_cast<std::int64_t>(i));
}

TEST_P(LogRingTest, RowsOutliveTheirSlotInTheRing) {
  const auto ring = make_ring();
  const std::int64_t count = 2 * LogRing::kCapacity + 100;
  std::vector<Logs> rows;
  for (std::int64_t i = 0; i < count; ++i) {
    set(i);
    rows.push_back(ring->expect_logs());
    ring->publish(logs_of_both());
  }
  for (std::int64_t i = 0; i < count; ++i) expect_row(rows[static_cast<std::size_t>(i)], i);
}

TEST_P(LogRingTest, ReleasedRowsDoNotAffectOthers) {
  const auto ring = make_ring();
  std::vector<std::pair<std::int64_t, Logs>> kept;
  for (std::int64_t i = 0; i < 3 * LogRing::kCapacity; ++i) {
    set(i);
    auto row = ring->expect_logs();
    ring->publish(logs_of_both());
    if (i % 97 == 0) kept.emplace_back(i, std::move(row));
  }
  for (const auto& [i, row] : kept) expect_row(row, i);
}

TEST_P(LogRingTest, HostStaysWithinOneRoundOfTheDevice) {
  const auto ring = make_ring();
  set(0);
  Event event(stream());
  for (std::int64_t i = 0; i < 2 * LogRing::kCapacity; ++i) {
    ring->expect_logs();
    ring->publish(logs_of_both());
    if (i == 10) event.record(stream());
  }
  EXPECT_TRUE(event.query());
}

TEST_P(LogRingTest, RowsKeepTheRing) {
  Logs row;
  {
    const auto ring = make_ring();
    set(3);
    row = ring->expect_logs();
    ring->publish(logs_of_both());
  }
  expect_row(row, 3);
}

// The other way to use a ring: rows are read in order into reused memory, and released.
TEST_P(LogRingTest, RowsReadInOrder) {
  const auto ring = make_ring(5);
  Logs found;
  for (std::int64_t i = 0; i < 2 * LogRing::kCapacity; ++i) {
    ASSERT_TRUE(ring->has_room());
    set(i);
    const std::int64_t row = ring->expect();
    EXPECT_EQ(row, i + 5);
    EXPECT_FALSE(ring->ready(row));
    ring->publish(logs_of_both());
    stream().synchronize();
    ASSERT_TRUE(ring->ready(row));
    ring->read(row, found);
    expect_row(found, i);
    ring->release(row);
  }
  EXPECT_EQ(ring->published(), 5 + 2 * LogRing::kCapacity);
}

TEST_P(LogRingTest, HasNoRoomUntilRowsAreReleased) {
  const auto ring = make_ring();
  for (std::int64_t i = 0; i < ring->capacity(); ++i) {
    EXPECT_TRUE(ring->has_room());
    ring->expect();
  }
  EXPECT_FALSE(ring->has_room());
  ring->release(0);
  EXPECT_TRUE(ring->has_room());
}

TEST_P(LogRingTest, ArraysAmongTheOutputs) {
  const Tensor wide = tensor({3, 5}, DType::i32), none = tensor({0, 5});
  const auto made = [&] {
    return logs()
        .add_output("wide", nn::Var(wide, stream()))
        .add_metric("a", nn::Var(a_, stream()))
        .add_output("none", nn::Var(none, stream()))
        .add_output("b", nn::Var(b_, stream()));
  };
  from_host(call_, std::vector<std::int64_t>{0}, stream());
  const auto ring = LogRing::create(made(), call_, stream());
  EXPECT_TRUE(ring->takes(made()));
  EXPECT_FALSE(ring->takes(logs_of_both()));
  const std::int64_t count = ring->capacity() + 10;
  std::vector<Logs> rows;
  const auto values = [](std::int64_t i) { return std::vector(15, static_cast<std::int32_t>(i)); };
  for (std::int64_t i = 0; i < count; ++i) {
    set(i);
    from_host(wide, values(i), stream());
    rows.push_back(ring->expect_logs());
    ring->publish(made());
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const Logs& row = rows[static_cast<std::size_t>(i)];
    EXPECT_EQ(row.entry_value("b"), static_cast<double>(-i));
    const HostArray array = *row.values()[0].array();
    EXPECT_EQ(array.shape(), (Shape{3, 5}));
    EXPECT_EQ(to_host<std::int32_t>(array.tensor(), Stream(Device::cpu())), values(i));
    EXPECT_EQ(row.values()[2].array()->tensor().count(), 0);
  }
}

TEST_P(LogRingTest, LargeArraysLeaveFewRows) {
  const Tensor large = tensor({LogRing::kArrayBytes / 4 / 3}, DType::f32);
  const auto ring = LogRing::create(logs().add_output("large", nn::Var(large, stream())), call_, stream());
  EXPECT_EQ(ring->capacity(), 2);
}

INSTANTIATE_TEST_SUITE_P(Devices, LogRingTest, test::kDevices, test::device_name);

}  // namespace
}  // namespace giro
