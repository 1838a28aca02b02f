#include <giro/loop/log/log_ring.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include <giro/runtime/graph.h>

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
  }
  // Queues what makes row `i` hold {i / 4, -i}.
  void set(std::int64_t i) const {
    from_host(a_, std::vector{static_cast<float>(i) / 4}, stream());
    from_host(b_, std::vector{-i}, stream());
  }
  static void expect_row(const LogRow& row, std::int64_t i) {
    EXPECT_EQ(row.value(0), static_cast<double>(i) / 4) << "row " << i;
    EXPECT_EQ(row.value(1), static_cast<double>(-i)) << "row " << i;
  }

  Tensor a_, b_;
};

TEST_P(LogRingTest, RowsArriveInOrder) {
  const auto ring = LogRing::create(2, stream());
  for (std::int64_t i = 0; i < 10; ++i) {
    set(i);
    const auto row = ring->expect();
    ring->publish({a_, b_});
    expect_row(*row, i);
    EXPECT_TRUE(row->ready());
  }
}

TEST_P(LogRingTest, ARowIsReadyOnceItIsWritten) {
  const auto ring = LogRing::create(2, stream());
  const auto row = ring->expect();
  EXPECT_FALSE(row->ready());
  test::expect_error(ErrorCode::device, {"row 0", "never written"}, [&] { row->value(0); });
  set(5);
  ring->publish({a_, b_});
  stream().synchronize();
  EXPECT_TRUE(row->ready());
  expect_row(*row, 5);
}

TEST_P(LogRingTest, RecordedRows) {
  const auto ring = LogRing::create(2, stream());
  const Graph graph = Graph::record(stream(), [&] { ring->publish({a_, b_}); });
  std::vector<std::shared_ptr<const LogRow>> rows;
  for (std::int64_t i = 0; i < 10; ++i) {
    set(i);
    rows.push_back(ring->expect());
    graph.replay(stream());
  }
  for (std::size_t i = 0; i < rows.size(); ++i) expect_row(*rows[i], static_cast<std::int64_t>(i));
}

TEST_P(LogRingTest, RowsOutliveTheirPlaceInTheRing) {
  const auto ring = LogRing::create(2, stream());
  const std::int64_t count = 2 * LogRing::kCapacity + 100;
  std::vector<std::shared_ptr<const LogRow>> rows;
  for (std::int64_t i = 0; i < count; ++i) {
    set(i);
    rows.push_back(ring->expect());
    ring->publish({a_, b_});
  }
  for (std::int64_t i = 0; i < count; ++i) expect_row(*rows[static_cast<std::size_t>(i)], i);
}

TEST_P(LogRingTest, RowsLetGoOfLeaveTheOthersAlone) {
  const auto ring = LogRing::create(2, stream());
  std::vector<std::pair<std::int64_t, std::shared_ptr<const LogRow>>> kept;
  for (std::int64_t i = 0; i < 3 * LogRing::kCapacity; ++i) {
    set(i);
    auto row = ring->expect();
    ring->publish({a_, b_});
    if (i % 97 == 0) kept.emplace_back(i, std::move(row));
  }
  for (const auto& [i, row] : kept) expect_row(*row, i);
}

TEST_P(LogRingTest, TheHostStaysWithinARoundOfTheDevice) {
  const auto ring = LogRing::create(2, stream());
  set(0);
  Event event(stream());
  for (std::int64_t i = 0; i < 2 * LogRing::kCapacity; ++i) {
    ring->expect();
    ring->publish({a_, b_});
    if (i == 10) event.record(stream());
  }
  EXPECT_TRUE(event.query());
}

TEST_P(LogRingTest, RowsKeepTheRing) {
  std::shared_ptr<const LogRow> row;
  {
    const auto ring = LogRing::create(2, stream());
    set(3);
    row = ring->expect();
    ring->publish({a_, b_});
  }
  expect_row(*row, 3);
}

TEST_P(LogRingTest, TooManyColumns) {
  expect_error(ErrorCode::invalid_argument, {"33", "32"}, [&] { LogRing::create(33, stream()); });
}

INSTANTIATE_TEST_SUITE_P(Devices, LogRingTest, test::kDevices, test::device_name);

}  // namespace
}  // namespace giro
