#include <giro/loop/data/any_dataset.h>

#include <gtest/gtest.h>

#include <initializer_list>
#include <ranges>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/expect_error.h"

namespace giro {
namespace {

TEST(AnyDataset, MakesEachBatchOnceAndKeepsTheLast) {
  int made = 0;
  const AnyDataset<int> dataset(std::views::iota(0, 3) | std::views::transform([&](int i) {
                                  ++made;
                                  return 10 * i;
                                }));
  for (int pass = 1; pass <= 2; ++pass) {
    std::vector<int> seen;
    auto it = dataset.begin();
    for (; it != dataset.end(); ++it) {
      seen.push_back(*it);
      EXPECT_EQ(*it, seen.back());
    }
    EXPECT_EQ(seen, (std::vector{0, 10, 20}));
    EXPECT_EQ(*it, 20) << "at the end";
    EXPECT_EQ(made, 3 * pass);
  }
}

// A pass calls the function once: its range also serves what is read from the dataset before the pass.
TEST(AnyDataset, CallsAFunctionOncePerPass) {
  int calls = 0;
  const AnyDataset<int> dataset([&] {
    ++calls;
    return std::vector<int>{7, 8, 9};
  });
  for (int pass = 1; pass <= 3; ++pass) {
    if (pass == 2) {
      EXPECT_EQ(dataset.first_batch(), 0);
    }
    std::vector<int> seen;
    for (const int value : dataset.skip(1)) seen.push_back(value);
    EXPECT_EQ(seen, (std::vector{8, 9}));
    EXPECT_EQ(calls, pass);
  }
  EXPECT_EQ(*dataset.begin_at(2), 9);
  EXPECT_EQ(calls, 4);
}

TEST(AnyDataset, FailedBatchIsRetried) {
  int made = 0;
  const AnyDataset<std::string> dataset(std::views::iota(0, 2) | std::views::transform([&](int i) {
                                          if (++made == 2) throw std::runtime_error("the cable is out");
                                          return std::to_string(i);
                                        }));
  auto it = dataset.begin();
  EXPECT_EQ(*it, "0");
  ++it;
  EXPECT_THROW((void)*it, std::runtime_error);
  EXPECT_EQ(*it, "1");
}

// A range that can be traversed only once would have no batches, or other ones, in the second pass.
TEST(AnyDataset, RejectsRangesThatAreUsedUp) {
  static_assert(!can_begin_again<std::ranges::istream_view<int>>);
  static_assert(can_begin_again<std::vector<int>> && can_begin_again<AnyDataset<int>>);
  std::istringstream text("7 8 9");
  const AnyDataset<int> numbers([&] { return std::views::istream<int>(text); });
  std::vector<int> seen;
  for (const int value : numbers) seen.push_back(value);
  EXPECT_EQ(seen, (std::vector{7, 8, 9}));
  test::expect_invalid({"had batches in an earlier pass and has none now"}, [&] { (void)numbers.begin(); });
}

TEST(AnyDataset, RejectsEmptyDataset) {
  const AnyDataset<int> none;
  const std::initializer_list<std::string> empty{"AnyDataset: it is empty"};
  test::expect_error(ErrorCode::invalid_argument, empty, [&] { (void)none.begin(); });
  test::expect_error(ErrorCode::invalid_argument, empty, [&] { (void)none.skip(1).first_batch(); });
  test::expect_error(ErrorCode::invalid_argument, empty, [&] { (void)none.num_batches(); });
  const AnyDataset<int> three(std::vector<int>{7, 8, 9});
  EXPECT_EQ(*three.begin_at(1), 8);
  test::expect_invalid({"batch -1", "begins at batch 0"}, [&] { (void)three.begin_at(-1); });
}

}  // namespace
}  // namespace giro
