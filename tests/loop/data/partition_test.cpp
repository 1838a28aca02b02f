#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include <giro/loop/data/batch_size.h>
#include <giro/loop/data/dataset.h>

#include "tests/support/expect_error.h"
#include "tests/support/fake_partitioner.h"

namespace giro {
namespace {

using test::FakePartitioner;
using Ids = std::vector<std::int32_t>;

Dataset dataset_of_ids(std::int64_t size) {
  Ids ids(static_cast<std::size_t>(size));
  std::iota(ids.begin(), ids.end(), 0);
  return Dataset({{"id", ids}});
}

Ids ids_in(const Batch& batch) {
  const nn::Var id = batch["id"];
  return Ids(id.data<std::int32_t>(), id.data<std::int32_t>() + batch.size());
}

Dataset part(const Dataset& dataset, int rank, int ranks) {
  return dataset.partition(std::make_shared<FakePartitioner>(rank, ranks));
}

TEST(Partition, PartsFormTheBatch) {
  std::mt19937 random(0);
  for (int round = 0; round < 200; ++round) {
    const int ranks = 1 << random() % 4;
    const std::int64_t size = ranks * (1 + random() % 5), rows = size + random() % 40;
    const Dataset ordered = random() % 2 == 0 ? dataset_of_ids(rows) : dataset_of_ids(rows).shuffle(round);
    const Dataset whole =
        ordered.repeat(1 + random() % 3).batch(size, random() % 2 == 0).skip(random() % 3).prefetch(random() % 3);
    std::vector<Dataset> parts;
    for (int rank = 0; rank < ranks; ++rank) parts.push_back(part(whole, rank, ranks));
    std::vector<Dataset::Iterator> at;
    for (const Dataset& one : parts) at.push_back(one.begin());
    std::int64_t number = 0;
    for (const Batch& batch : whole) {
      Ids together;
      double weight = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        ASSERT_FALSE(at[rank] == parts[rank].end());
        const Batch& mine = *at[rank];
        EXPECT_EQ(batch_size(mine), batch.size());
        const std::int64_t counting = ranks == 1 ? mine.size() : mine.part()->rows;
        EXPECT_EQ(mine.size(), std::max<std::int64_t>(1, counting));
        weight += ranks == 1 ? 1 : mine.part()->weight();
        const Ids ids = ids_in(mine);
        together.insert(together.end(), ids.begin(), ids.begin() + counting);
        const std::vector<std::int64_t> indices = parts[rank].indices(number);
        EXPECT_EQ(Ids(indices.begin(), indices.end()), Ids(ids.begin(), ids.begin() + counting));
        ++at[rank];
      }
      EXPECT_EQ(together, ids_in(batch));
      EXPECT_NEAR(weight, ranks, 1e-12);
      ++number;
    }
    for (int rank = 0; rank < ranks; ++rank) EXPECT_TRUE(at[rank] == parts[rank].end());
  }
}

TEST(Partition, KnowsItsPartAfterMap) {
  const Dataset data =
      part(dataset_of_ids(10).batch(4).map([](const Batch& batch) { return Batch(batch.features()); }), 1, 2);
  std::vector<std::int64_t> rows;
  for (const Batch& batch : data) rows.push_back(batch.part()->rows);
  EXPECT_EQ(rows, (std::vector<std::int64_t>{2, 2, 0}));  // the last batch has 2 rows, both on rank 0
}

TEST(Partition, NumbersOfJaxloop) {
  const std::vector<float> values(4096 * 128);
  const Dataset data = part(Dataset({{"x", HostArray(values, {4096, 128})}}).batch(4096), 3, 8);
  EXPECT_EQ(data.spec().front().shape, Shape({512, 128}));
  EXPECT_EQ(data.indices(0).front(), 3 * 512);
}

TEST(Partition, ReportsErrors) {
  using test::expect_error;
  using test::expect_invalid;
  const Dataset data = dataset_of_ids(100).batch(10);
  expect_invalid({"batch of 10", "4 ranks", "'id'", "(10,)"}, [&] { part(data, 0, 4); });
  expect_invalid({"partition", "after batch"}, [] { part(dataset_of_ids(8), 0, 2); });
  expect_invalid({"already partitioned"}, [&] { part(part(data, 0, 2), 0, 2); });
  EXPECT_EQ(data.partition(nullptr).spec().front().shape, Shape({10}));
}

TEST(BatchSlice, HoldsAPartOfTheRows) {
  const Ids ids{1, 2, 3, 4, 5, 6};
  const Dataset data({{"id", ids}});
  const Dataset batches = data.batch(6);
  const Batch batch = *batches.begin();
  EXPECT_EQ(ids_in(batch.slice(0, 1)), ids);
  EXPECT_EQ(ids_in(batch.slice(1, 3)), (Ids{3, 4}));
  using test::expect_error;
  using test::expect_invalid;
  expect_invalid({"part 0 of 4", "batch of 6"}, [&] { batch.slice(0, 4); });
  expect_invalid({"part 3 of 3"}, [&] { batch.slice(3, 3); });
  expect_invalid({"part 0 of 0"}, [&] { batch.slice(0, 0); });
  const Dataset resident = batches.to(Device::cpu());
  expect_error(ErrorCode::unsupported, {"cpu", "not gathered"}, [&] { (*resident.begin()).slice(0, 2); });
}

// CLU's deterministic_data: "9 over 2 -> 4/4 or 5/4". Both ranks have the same number of batches, and the row that
// fills the last one does not count.
TEST(Partition, NineRowsOverTwoRanksAreFiveAndFourOrFourEach) {
  for (const bool drop_remainder : {false, true}) {
    const Dataset whole = dataset_of_ids(9).batch(2, drop_remainder);
    std::vector<std::int64_t> batches, counting;
    for (const int rank : {0, 1}) {
      batches.push_back(0);
      counting.push_back(0);
      for (const Batch& batch : part(whole, rank, 2)) {
        EXPECT_EQ(batch.size(), 1);
        ++batches.back();
        counting.back() += batch.part()->rows;
      }
    }
    EXPECT_EQ(batches, (std::vector<std::int64_t>(2, drop_remainder ? 4 : 5)));
    EXPECT_EQ(counting, (drop_remainder ? std::vector<std::int64_t>{4, 4} : std::vector<std::int64_t>{5, 4}));
  }
}

}  // namespace
}  // namespace giro
