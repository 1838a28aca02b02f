#include <giro/loop/data/dataset.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <ranges>
#include <set>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <giro/runtime/graph.h>

#include "tests/expect_error.h"

namespace giro {
namespace {

using test::expect_error;
using Ids = std::vector<std::int32_t>;

static_assert(std::ranges::input_range<Dataset>);
static_assert(std::ranges::input_range<const Dataset>);
static_assert(!std::is_copy_constructible_v<Dataset::Iterator>);

// Rows that know who they are: "id" i32 (N,), and "image" u8 (N, 2, 3), each byte 7 * id + its index.
Dataset numbered(std::int64_t size) {
  struct Rows {
    Ids ids;
    std::vector<std::uint8_t> images;
  };
  auto rows = std::make_shared<Rows>();
  rows->ids.resize(static_cast<std::size_t>(size));
  std::iota(rows->ids.begin(), rows->ids.end(), 0);
  for (const std::int32_t id : rows->ids) {
    for (int i = 0; i < 6; ++i) rows->images.push_back(static_cast<std::uint8_t>(7 * id + i));
  }
  const Tensor images(rows->images.data(), DType::u8, {size, 2, 3}, Device::cpu());
  const Tensor ids(rows->ids.data(), DType::i32, {size}, Device::cpu());
  return Dataset({{"image", images}, {"id", ids}}, rows);
}

// The ids of a batch in host memory, whose images must be theirs.
Ids ids_of(const Batch& batch) {
  const Tensor id = batch["id"], image = batch["image"];
  EXPECT_EQ(id.shape(), Shape({batch.size()}));
  EXPECT_EQ(image.shape(), Shape({batch.size(), 2, 3}));
  const std::int32_t* const ids = id.data<std::int32_t>();
  const std::uint8_t* const bytes = image.data<std::uint8_t>();
  for (std::int64_t r = 0; r < batch.size(); ++r) {
    for (int i = 0; i < 6; ++i) EXPECT_EQ(bytes[6 * r + i], static_cast<std::uint8_t>(7 * ids[r] + i));
  }
  return Ids(ids, ids + batch.size());
}

std::vector<Ids> first_batches(const Dataset& dataset, std::size_t count) {
  std::vector<Ids> result;
  for (const Batch& batch : dataset) {
    if (result.size() == count) break;
    result.push_back(ids_of(batch));
  }
  return result;
}

std::vector<Ids> all_batches(const Dataset& dataset) { return first_batches(dataset, ~std::size_t{0}); }

Ids joined(const std::vector<Ids>& batches) {
  Ids result;
  for (const Ids& batch : batches) result.insert(result.end(), batch.begin(), batch.end());
  return result;
}

Ids iota(std::int32_t size) {
  Ids ids(static_cast<std::size_t>(size));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

TEST(RowOrder, EachEpochIsAPermutationOfItsOwn) {
  for (const std::int64_t size : {1, 2, 3, 7, 8, 9, 31, 32, 33, 101, 60'000}) {
    const RowOrder order{size, 5, true};
    std::set<std::vector<std::int64_t>> epochs;
    for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<std::int64_t> rows;
      for (std::int64_t i = 0; i < size; ++i) rows.push_back(order(epoch * size + i));
      epochs.insert(rows);
      std::sort(rows.begin(), rows.end());
      for (std::int64_t i = 0; i < size; ++i) ASSERT_EQ(rows[static_cast<std::size_t>(i)], i);
    }
    EXPECT_TRUE(size <= 3 || epochs.size() == 3) << size;
  }
}

TEST(Dataset, InOrderTheLastBatchHoldsTheRest) {
  const Dataset dataset = numbered(10).batch(4);
  EXPECT_EQ(all_batches(dataset), (std::vector<Ids>{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9}}));
  EXPECT_EQ(dataset.num_batches(), 3);
  EXPECT_EQ(dataset.num_rows(), 10);
  EXPECT_EQ(all_batches(dataset), all_batches(dataset)) << "every begin starts over";
}

TEST(Dataset, TheRemainderCanBeDropped) {
  const Dataset dataset = numbered(10).batch(4, /*drop_remainder=*/true);
  EXPECT_EQ(all_batches(dataset), (std::vector<Ids>{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(dataset.num_batches(), 2);
  EXPECT_EQ(all_batches(numbered(8).batch(4)), all_batches(dataset)) << "nothing is left over";
}

TEST(Dataset, RepeatedBatchesStraddleEpochs) {
  EXPECT_EQ(all_batches(numbered(5).repeat(2).batch(4)), (std::vector<Ids>{{0, 1, 2, 3}, {4, 0, 1, 2}, {3, 4}}));
  EXPECT_EQ(all_batches(numbered(5).repeat(2).batch(4, true)), (std::vector<Ids>{{0, 1, 2, 3}, {4, 0, 1, 2}}));
  EXPECT_EQ(numbered(5).repeat(2).batch(4).num_batches(), 3);
  const Dataset forever = numbered(5).repeat().batch(3);
  EXPECT_EQ(forever.num_batches(), Dataset::kForever);
  EXPECT_EQ(first_batches(forever, 4), (std::vector<Ids>{{0, 1, 2}, {3, 4, 0}, {1, 2, 3}, {4, 0, 1}}));
}

TEST(Dataset, AShuffledEpochHoldsEveryRowOnce) {
  for (const std::int32_t size : {1, 2, 3, 10, 97, 256}) {
    Ids ids = joined(all_batches(numbered(size).shuffle(3).batch(std::min<std::int64_t>(size, 4))));
    std::sort(ids.begin(), ids.end());
    EXPECT_EQ(ids, iota(size));
  }
}

TEST(Dataset, OrderIsAFunctionOfSeedAndEpoch) {
  const auto epochs = [](std::uint64_t seed) { return all_batches(numbered(50).shuffle(seed).repeat(2).batch(50)); };
  const auto first = epochs(1);
  EXPECT_EQ(epochs(1), first);
  EXPECT_NE(epochs(2)[0], first[0]);
  EXPECT_NE(first[0], first[1]);
  EXPECT_NE(first[0], iota(50));
}

TEST(Dataset, SkippingIsIteratingPast) {
  for (const Dataset& dataset : {numbered(10).shuffle(4).repeat(3).batch(4), numbered(10).shuffle(4).repeat().batch(4),
                                 numbered(10).repeat(3).batch(4, true)}) {
    const auto all = first_batches(dataset, 20);
    for (std::size_t skipped = 0; skipped <= std::min<std::size_t>(all.size(), 12); ++skipped) {
      const Dataset rest = dataset.skip(static_cast<std::int64_t>(skipped));
      EXPECT_EQ(first_batches(rest, all.size() - skipped),
                (std::vector<Ids>(all.begin() + static_cast<std::ptrdiff_t>(skipped), all.end())));
    }
  }
}

TEST(Dataset, SkipsAddUpAndGoFarAtOnce) {
  const Dataset dataset = numbered(10).shuffle(4).repeat().batch(4);
  EXPECT_EQ(first_batches(dataset.skip(2).skip(3), 3), first_batches(dataset.skip(5), 3));
  EXPECT_EQ(first_batches(dataset.skip(1'000'000'000'000'000), 2).size(), 2u);
  EXPECT_TRUE(all_batches(numbered(10).batch(4).skip(4)).empty());
  EXPECT_EQ(numbered(10).batch(4).skip(1).num_batches(), 2);
  EXPECT_EQ(numbered(10).batch(4).skip(9).num_batches(), 0);
}

TEST(Dataset, UnbatchedRowsComeOneByOne) {
  EXPECT_EQ(all_batches(numbered(3)), (std::vector<Ids>{{0}, {1}, {2}}));
  EXPECT_EQ(numbered(3).num_batches(), 3);
}

TEST(Dataset, SpecIsThatOfAFullBatch) {
  const BatchSpec spec = numbered(10).batch(4).skip(2).spec();
  ASSERT_EQ(spec.size(), 2u);
  EXPECT_EQ(spec[0].name, "image");
  EXPECT_EQ(spec[0].dtype, DType::u8);
  EXPECT_EQ(spec[0].shape, Shape({4, 2, 3}));
  EXPECT_EQ(spec[1].name, "id");
  EXPECT_EQ(spec[1].shape, Shape({4}));
  EXPECT_EQ(numbered(10).spec()[1].shape, Shape({1}));
}

TEST(Dataset, BatchesKeepTheirRowsWhenTheIteratorMovesOn) {
  std::vector<Batch> batches;
  {
    const Dataset dataset = numbered(100).batch(3);
    for (const Batch& batch : dataset) batches.push_back(batch);
  }
  ASSERT_EQ(batches.size(), 34u);
  Ids ids;
  for (const Batch& batch : batches) {
    const Ids some = ids_of(batch);
    ids.insert(ids.end(), some.begin(), some.end());
  }
  EXPECT_EQ(ids, iota(100));
}

TEST(Dataset, MemoryOfBatchesThatAreGoneIsUsedAgain) {
  std::set<const void*> addresses;
  for (const Batch& batch : numbered(1000).batch(1)) addresses.insert(batch["image"].raw());
  EXPECT_EQ(addresses.size(), 1u);
}

// Doubles the ids in place of the copy it is given; leaves the images as views of its argument.
Batch doubled(const Batch& batch) {
  auto ids = std::make_shared<Ids>(ids_of(batch));
  for (std::int32_t& id : *ids) id *= 2;
  return Batch({{"image", batch["image"]}, {"twice", Tensor(ids->data(), DType::i32, {batch.size()}, Device::cpu())}},
               ids);
}

TEST(Dataset, MapSeesEveryBatchInOrder) {
  const Dataset dataset = numbered(5).batch(2).map(doubled);
  EXPECT_EQ(dataset.spec()[1].name, "twice");
  Ids twice;
  std::vector<Batch> kept;
  for (const Batch& batch : dataset) kept.push_back(batch);
  for (const Batch& batch : kept) {
    for (std::int64_t r = 0; r < batch.size(); ++r) {
      twice.push_back(batch["twice"].data<std::int32_t>()[r]);
      EXPECT_EQ(batch["image"].data<std::uint8_t>()[6 * r], static_cast<std::uint8_t>(7 * twice.back() / 2))
          << "a view of the map's argument lives as long as its result";
    }
  }
  EXPECT_EQ(twice, (Ids{0, 2, 4, 6, 8}));
}

TEST(Dataset, MapsCompose) {
  const Dataset dataset = numbered(4).batch(2).map(doubled).map([](const Batch& batch) {
    return Batch({{"id", batch["twice"]}});
  });
  std::vector<Batch> batches;
  for (const Batch& batch : dataset) batches.push_back(batch);
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_EQ(batches[1]["id"].data<std::int32_t>()[1], 6);
  expect_error(ErrorCode::not_found, {"image", "id"}, [&] { batches[0]["image"]; });
}

TEST(Prefetch, ChangesNothingOfWhatIsSeen) {
  const Dataset dataset = numbered(97).shuffle(1).repeat(3).batch(5);
  const auto expected = all_batches(dataset);
  for (const std::size_t depth : {0, 1, 2, 7, 1000}) {
    EXPECT_EQ(all_batches(dataset.prefetch(depth)), expected) << depth;
    EXPECT_EQ(first_batches(dataset.prefetch(depth).skip(3), 1)[0], expected[3]);
  }
  EXPECT_EQ(first_batches(numbered(7).shuffle(2).repeat().batch(3).prefetch(2), 50),
            first_batches(numbered(7).shuffle(2).repeat().batch(3), 50));
}

TEST(Prefetch, BatchesOutliveTheIterator) {
  std::vector<Batch> batches;
  for (const Batch& batch : numbered(64).batch(4).prefetch(3)) batches.push_back(batch);
  for (std::size_t i = 0; i < batches.size(); ++i) EXPECT_EQ(ids_of(batches[i])[0], 4 * static_cast<int>(i));
}

TEST(Prefetch, RunsAheadByItsDepthAndNoFurther) {
  std::atomic<int> made = 0;
  const Dataset dataset = numbered(100).batch(1).prefetch(4).map([&](const Batch& batch) {
    ++made;
    return batch;
  });
  const auto it = dataset.begin();
  for (int i = 0; i < 1000 && made < 5; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(made, 5) << "the current one and four ahead";
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(made, 5);
}

TEST(Prefetch, AnIteratorCanGoEarly) {
  const Dataset endless = numbered(10).repeat().batch(2).prefetch(3);
  for (int i = 0; i < 200; ++i) {
    auto it = endless.begin();
    for (int step = 0; step < i % 5; ++step) ++it;
  }
  auto it = endless.begin();
  it = endless.skip(1).begin();
  EXPECT_EQ(ids_of(*it), (Ids{2, 3}));
  const auto moved = std::move(it);
  EXPECT_EQ(ids_of(*moved), (Ids{2, 3}));
}

TEST(Dataset, WhatMapThrowsComesAtItsBatch) {
  for (const std::size_t depth : {0, 1, 3}) {
    const Dataset dataset = numbered(10).batch(2).prefetch(depth).map([](const Batch& batch) -> Batch {
      if (ids_of(batch)[0] == 4) throw std::runtime_error("batch 2");
      return batch;
    });
    auto it = dataset.begin();
    EXPECT_EQ(ids_of(*it), (Ids{0, 1}));
    EXPECT_EQ(ids_of(*++it), (Ids{2, 3}));
    EXPECT_THROW(++it, std::runtime_error);
    EXPECT_TRUE(it == dataset.end());
    ++it;
    EXPECT_TRUE(it == dataset.end());
    EXPECT_THROW(dataset.skip(2).begin(), std::runtime_error);
    EXPECT_EQ(ids_of(*dataset.skip(3).begin()), (Ids{6, 7}));
  }
}

TEST(Dataset, RefusesWhatDoesNotFit) {
  const Dataset dataset = numbered(10);
  const ErrorCode invalid = ErrorCode::invalid_argument;
  expect_error(invalid, {"0", "10 rows"}, [&] { dataset.batch(0); });
  expect_error(invalid, {"-1", "10 rows"}, [&] { dataset.batch(-1); });
  expect_error(invalid, {"11", "10 rows"}, [&] { dataset.batch(11); });
  expect_error(invalid, {"batches of 2"}, [&] { dataset.batch(2).batch(2); });
  expect_error(invalid, {"shuffle", "before batch"}, [&] { dataset.batch(2).shuffle(0); });
  expect_error(invalid, {"repeat", "before batch"}, [&] { dataset.batch(2).repeat(); });
  expect_error(invalid, {"repeated already"}, [&] { dataset.repeat().repeat(2); });
  expect_error(invalid, {"0 epochs"}, [&] { dataset.repeat(0); });
  expect_error(invalid, {"epochs of 10 rows"}, [&] { dataset.repeat(std::int64_t{1} << 61); });
  expect_error(invalid, {"map", "after batch"}, [&] { dataset.map(doubled); });
  expect_error(invalid, {"map", "empty"}, [&] { dataset.batch(2).map(nullptr); });
  expect_error(invalid, {"prefetch", "after batch"}, [&] { dataset.prefetch(2); });
  expect_error(invalid, {"skip", "after batch"}, [&] { dataset.skip(2); });
  expect_error(invalid, {"skip", "-1"}, [&] { dataset.batch(2).skip(-1); });
  expect_error(invalid, {"skip"}, [&] { dataset.batch(2).skip(std::int64_t{1} << 62); });
  expect_error(invalid, {"to", "after batch"}, [&] { dataset.to(Device::cpu()); });
  expect_error(invalid, {"map", "cpu"}, [&] { dataset.batch(2).map(doubled).to(Device::cpu()); });
  expect_error(invalid, {"map", "cpu"}, [&] { dataset.batch(2).to(Device::cpu()).map(doubled); });
}

TEST(Dataset, RefusesRowsThatDoNotBelongTogether) {
  std::vector<float> values(12);
  const auto tensor = [&](const Shape& shape, Device device = Device::cpu()) {
    return Tensor(values.data(), DType::f32, shape, device);
  };
  expect_error(ErrorCode::invalid_argument, {"none"}, [] { Dataset{Batch::Features()}; });
  expect_error(ErrorCode::invalid_argument, {"''"}, [&] { Dataset({{"", tensor({3})}}); });
  expect_error(ErrorCode::invalid_argument, {"'x'"}, [&] { Dataset({{"x", tensor({3})}, {"x", tensor({3})}}); });
  expect_error(ErrorCode::shape_mismatch, {"'y' has 4", "'x' has 3"}, [&] {
    Dataset({{"x", tensor({3, 4})}, {"y", tensor({4, 3})}});
  });
  expect_error(ErrorCode::shape_mismatch, {"()"}, [&] { Dataset({{"x", tensor({})}}); });
  expect_error(ErrorCode::shape_mismatch, {"(0, 3)"}, [&] { Dataset({{"x", tensor({0, 3})}}); });
  expect_error(ErrorCode::device_mismatch, {"cuda:0"}, [&] { Dataset({{"x", tensor({3}, Device::cuda())}}); });
}

TEST(Dataset, RowsMayHoldNothing) {
  const Dataset dataset({{"x", Tensor(nullptr, DType::f32, {3, 0}, Device::cpu())}});
  std::int64_t rows = 0;
  for (const Batch& batch : dataset.batch(2)) rows += batch.size();
  EXPECT_EQ(rows, 3);
}

TEST(Batch, SizeIsTheLargestFirstAxis) {
  float value = 0;
  const auto tensor = [&](const Shape& shape) { return Tensor(&value, DType::f32, shape, Device::cpu()); };
  EXPECT_EQ(Batch().size(), 1);
  EXPECT_EQ(Batch({{"scalar", tensor({})}}).size(), 1);
  EXPECT_EQ(Batch({{"scalar", tensor({})}, {"x", tensor({8, 2})}, {"y", tensor({3})}}).size(), 8);
  EXPECT_EQ(Batch({{"none", tensor({0, 2})}}).size(), 0);
}

TEST(Batch, AMissingFeatureNamesTheNearest) {
  const Dataset dataset = numbered(4).batch(2);
  expect_error(ErrorCode::not_found, {"'imgae'", "did you mean 'image'"}, [&] { (*dataset.begin())["imgae"]; });
  expect_error(ErrorCode::not_found, {"'x'"}, [] { Batch()["x"]; });
}

// What steps read of a dataset that lies on a device, batch by batch.
std::vector<Ids> gathered(const Dataset& dataset, std::size_t count) {
  const Stream stream(Device::cpu());
  std::vector<Ids> result;
  for (const Batch& batch : dataset) {
    if (result.size() == count) break;
    std::vector<Buffer> storage;
    batch.residence()->seek(batch.position(), batch.size(), stream);
    result.push_back(ids_of(batch.residence()->gather(batch.size(), stream, storage)));
  }
  return result;
}

TEST(Residence, GathersWhatTheHostWouldHave) {
  for (const Dataset& dataset : {numbered(97).batch(10), numbered(97).shuffle(6).batch(10),
                                 numbered(97).shuffle(6).repeat().batch(10), numbered(5).repeat(3).batch(4, true)}) {
    const Dataset resident = dataset.to(Device::cpu());
    EXPECT_EQ(resident.num_batches(), dataset.num_batches());
    EXPECT_EQ(gathered(resident, 30), first_batches(dataset, 30));
    EXPECT_EQ(gathered(resident, 30), first_batches(dataset, 30)) << "and again from the start";
    EXPECT_EQ(gathered(resident.skip(2).prefetch(2), 30), first_batches(dataset.skip(2), 30));
  }
}

TEST(Residence, BatchesOnlySayWhereTheirRowsStand) {
  const Dataset resident = numbered(10).batch(4).to(Device::cpu());
  EXPECT_EQ(resident.spec()[0].shape, Shape({4, 2, 3}));
  const Batch last = *resident.skip(2).begin();
  EXPECT_EQ(last.position(), 8);
  EXPECT_EQ(last.size(), 2);
  EXPECT_TRUE(last.features().empty());
  EXPECT_EQ(last.spec()[1].shape, Shape({2}));
  EXPECT_EQ(last.residence(), (*resident.begin()).residence()) << "one copy of the rows";
  expect_error(ErrorCode::unsupported, {"image", "cpu"}, [&] { last["image"]; });
  expect_error(ErrorCode::not_found, {"imag", "did you mean 'image'"}, [&] { last["imag"]; });
}

TEST(Residence, ARecordedGatherMovesOnByItself) {
  const Dataset dataset = numbered(10).shuffle(8).repeat().batch(4);
  const auto expected = first_batches(dataset, 12);
  const auto residence = (*dataset.to(Device::cpu()).begin()).residence();
  const Stream stream(Device::cpu());
  std::vector<Buffer> storage;
  Batch batch;
  residence->seek(0, 4, stream);
  const Graph graph = Graph::record(stream, [&] { batch = residence->gather(4, stream, storage); });
  graph.replay(stream);
  EXPECT_EQ(ids_of(batch), expected[0]);
  for (const std::size_t step : {1, 2, 3, 9, 10, 5, 6, 6, 0, 1}) {
    residence->seek(static_cast<std::int64_t>(4 * step), 4, stream);
    graph.replay(stream);
    EXPECT_EQ(ids_of(batch), expected[step]);
  }
}

TEST(Residence, FollowsTheCallersStreams) {
  const Dataset dataset = numbered(20).shuffle(8).batch(4);
  const auto expected = all_batches(dataset);
  const auto residence = (*dataset.to(Device::cpu()).begin()).residence();
  const Stream streams[] = {Stream(Device::cpu()), Stream(Device::cpu())};
  std::vector<Buffer> storage;
  for (std::size_t step = 0; step < 5; ++step) {
    const Stream& stream = streams[step % 2];
    residence->seek(static_cast<std::int64_t>(4 * step), 4, stream);
    EXPECT_EQ(ids_of(residence->gather(4, stream, storage)), expected[step]);
  }
}

TEST(Residence, RefusesRowsThatAreNotAsManyAsItsOrder) {
  std::vector<float> values(3);
  const Tensor rows(values.data(), DType::f32, {3}, Device::cpu());
  expect_error(ErrorCode::shape_mismatch, {"'x'", "4 rows"}, [&] {
    Residence({{"x", rows}}, RowOrder{4}, Device::cpu());
  });
}

}  // namespace
}  // namespace giro
