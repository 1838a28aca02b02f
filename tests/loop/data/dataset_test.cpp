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
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <giro/runtime/files/archive.h>
#include <giro/runtime/program/graph.h>

#include "loop/data/resident_rows.h"
#include "tests/support/expect_error.h"

namespace giro {
namespace {

using test::expect_error;
using test::expect_invalid;
using Ids = std::vector<std::int32_t>;

static_assert(std::ranges::input_range<Dataset>);
static_assert(std::ranges::input_range<const Dataset>);
static_assert(!std::is_copy_constructible_v<Dataset::Iterator>);

// Rows that identify themselves: "id" i32 (N,), and "image" u8 (N, 2, 3), each byte 7 * id + its index.
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

// The ids of a batch in host memory. Checks that the images belong to them.
Ids ids_of(const Batch& batch) {
  const nn::Var id = batch["id"], image = batch["image"];
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

TEST(RowOrder, EachEpochHasItsOwnPermutation) {
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

TEST(Dataset, LastBatchHoldsTheRemainder) {
  const Dataset dataset = numbered(10).batch(4);
  EXPECT_EQ(all_batches(dataset), (std::vector<Ids>{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9}}));
  EXPECT_EQ(dataset.num_batches(), 3);
  EXPECT_EQ(dataset.num_rows(), 10);
  EXPECT_EQ(all_batches(dataset), all_batches(dataset)) << "every begin starts over";
}

TEST(Dataset, RemainderCanBeDropped) {
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

TEST(Dataset, ShuffledEpochHoldsEveryRowOnce) {
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

TEST(Dataset, SkippingEqualsIterating) {
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

TEST(Dataset, SkipsAddUpInConstantTime) {
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

TEST(Dataset, SpecDescribesAFullBatch) {
  const BatchSpec spec = numbered(10).batch(4).skip(2).spec();
  ASSERT_EQ(spec.size(), 2u);
  EXPECT_EQ(spec[0].name, "image");
  EXPECT_EQ(spec[0].dtype, DType::u8);
  EXPECT_EQ(spec[0].shape, Shape({4, 2, 3}));
  EXPECT_EQ(spec[1].name, "id");
  EXPECT_EQ(spec[1].shape, Shape({4}));
  EXPECT_EQ(numbered(10).spec()[1].shape, Shape({1}));
}

TEST(Dataset, BatchesKeepTheirRowsWhenTheIteratorAdvances) {
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

TEST(Dataset, MemoryOfReleasedBatchesIsReused) {
  std::set<const void*> addresses;
  for (const Batch& batch : numbered(1000).batch(1)) addresses.insert(batch["image"].value().raw());
  EXPECT_EQ(addresses.size(), 2u) << "the current one's and the next one's";
}

// Doubles a copy of the ids; the images stay views of the argument.
Batch doubled(const Batch& batch) {
  auto ids = std::make_shared<Ids>(ids_of(batch));
  for (std::int32_t& id : *ids) id *= 2;
  return Batch(
      {{"image", batch["image"].value()}, {"twice", Tensor(ids->data(), DType::i32, {batch.size()}, Device::cpu())}},
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
    return Batch({{"id", batch["twice"].value()}});
  });
  std::vector<Batch> batches;
  for (const Batch& batch : dataset) batches.push_back(batch);
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_EQ(batches[1]["id"].data<std::int32_t>()[1], 6);
  expect_error(ErrorCode::not_found, {"image", "id"}, [&] { batches[0]["image"]; });
}

TEST(Prefetch, DoesNotChangeTheBatches) {
  const Dataset dataset = numbered(97).shuffle(1).repeat(3).batch(5);
  const auto expected = all_batches(dataset);
  for (const std::size_t depth : {0U, 1U, 2U, 7U, 1000U}) {
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

TEST(Prefetch, RunsAheadByAtMostItsDepth) {
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

TEST(Prefetch, IteratorCanBeDestroyedEarly) {
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

// Batches of two, of which the third cannot be made.
Dataset failing(std::size_t prefetched) {
  return numbered(10).batch(2).prefetch(prefetched).map([](const Batch& batch) -> Batch {
    if (ids_of(batch)[0] == 4) throw std::runtime_error("batch 2");
    return batch;
  });
}

TEST(Dataset, MapErrorIsThrownAtItsBatch) {
  for (const std::size_t depth : {0U, 1U, 3U}) {
    const Dataset dataset = failing(depth);
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

// ++ looks for another batch. If there is none, the last one stays readable.
TEST(Dataset, LastBatchStaysReadableAtTheEnd) {
  for (const Dataset& dataset :
       {numbered(10).batch(4), numbered(10).batch(4).prefetch(1), numbered(10).batch(4).prefetch(7)}) {
    auto it = dataset.begin();
    const Batch* last = &*it;
    while (it != dataset.end()) {
      last = &*it;
      ++it;
    }
    EXPECT_EQ(ids_of(*last), (Ids{8, 9}));
    EXPECT_EQ(ids_of(*it), (Ids{8, 9}));
    ++it;
    EXPECT_EQ(ids_of(*it), (Ids{8, 9}));
  }
}

TEST(Dataset, BatchStaysReadableWhenTheNextFails) {
  for (const std::size_t depth : {0U, 1U, 3U}) {
    const Dataset dataset = failing(depth);
    auto it = dataset.begin();
    ++it;
    EXPECT_THROW(++it, std::runtime_error);
    EXPECT_TRUE(it == dataset.end());
    EXPECT_EQ(ids_of(*it), (Ids{2, 3}));
  }
}

TEST(Dataset, OfVectors) {
  std::vector<float> xs{0, 1, 2, 3, 4, 5};
  std::vector<std::int32_t> ys{7, 8, 9};
  const Dataset dataset = Dataset({{"x", {xs, {3, 2}}}, {"y", ys}}).shuffle(3).batch(3);
  xs.assign(6, -1);  // the dataset has its own copy
  ys.assign(3, -1);
  const BatchSpec spec = dataset.spec();
  ASSERT_EQ(spec.size(), 2u);
  EXPECT_EQ(spec[0].name, "x");
  EXPECT_EQ(spec[0].dtype, DType::f32);
  EXPECT_EQ(spec[0].shape, Shape({3, 2}));
  EXPECT_EQ(spec[1].dtype, DType::i32);
  for (const Batch& batch : dataset) {
    for (std::int64_t r = 0; r < 3; ++r) {
      const std::int32_t id = batch["y"].data<std::int32_t>()[r] - 7;
      EXPECT_EQ(batch["x"].data<float>()[2 * r + 1], static_cast<float>(2 * id + 1));
    }
  }
  EXPECT_EQ(Dataset({{"x", ys}}).num_rows(), 3);
  EXPECT_EQ(Dataset({{"x", std::vector<float>{1, 2}}, {"y", std::vector<bool>{true, false}}}).spec()[1].dtype,
            DType::boolean);
}

TEST(Dataset, RejectsVectorsOfDifferentLengths) {
  const std::vector<float> six(6), four(4);
  expect_error(ErrorCode::shape_mismatch, {"HostArray", "6 values", "expected 8", "(4, 2)"}, [&] {
    Dataset({{"x", {six, {4, 2}}}, {"y", four}});
  });
  expect_error(ErrorCode::shape_mismatch, {"Dataset", "'y' has 4", "'x' has 6"}, [&] {
    Dataset({{"x", six}, {"y", four}});
  });
  expect_error(ErrorCode::shape_mismatch, {"Dataset", "(0,)"}, [] { Dataset({{"x", std::vector<float>()}}); });
  expect_invalid({"Dataset", "'x'"}, [&] { Dataset({{"x", six}, {"x", six}}); });
  expect_invalid({"Dataset", "none"}, [] { Dataset(Dataset::Arrays{}); });
}

TEST(Dataset, RowsAreReadableOnTheHost) {
  const Dataset dataset = numbered(5).shuffle(2).batch(2);
  for (const Dataset& one : {dataset, dataset.to(Device::cpu())}) {
    const Batch::Features& rows = one.rows();
    ASSERT_EQ(rows.size(), 2u);
    EXPECT_EQ(rows[1].first, "id");
    EXPECT_EQ(rows[1].second.shape(), Shape{5});
    for (std::int32_t id = 0; id < 5; ++id) EXPECT_EQ(rows[1].second.data<std::int32_t>()[id], id);
  }
}

Ids as_ids(const std::vector<std::int64_t>& indices) { return Ids(indices.begin(), indices.end()); }

// indices() gives the numbers of a batch's rows: here each row's id is its number.
TEST(Dataset, IndicesOfABatchsRows) {
  for (const Dataset& dataset :
       {numbered(97).batch(10), numbered(97).shuffle(6).batch(10), numbered(97).shuffle(6).repeat().batch(10),
        numbered(5).repeat(3).batch(4, true), numbered(97).shuffle(6).repeat().batch(10).skip(7), numbered(3)}) {
    const std::vector<Ids> batches = first_batches(dataset, 30);
    for (std::size_t k = 0; k < batches.size(); ++k) {
      EXPECT_EQ(as_ids(dataset.indices(static_cast<std::int64_t>(k))), batches[k]);
    }
  }
}

TEST(Dataset, IndicesRejectBatchOutOfRange) {
  const Dataset dataset = numbered(10).batch(4);
  EXPECT_EQ(dataset.indices(2), (std::vector<std::int64_t>{8, 9}));
  expect_invalid({"indices", "batch 3", "[0, 3)"}, [&] { dataset.indices(3); });
  expect_invalid({"indices", "batch -1"}, [&] { dataset.indices(-1); });
  expect_invalid({"indices", "batch 2", "[0, 2)"}, [&] { dataset.skip(1).indices(2); });
  const Dataset endless = numbered(10).repeat().batch(4);
  EXPECT_EQ(endless.indices(1'000'000'000'000).size(), 4u);
  expect_invalid({"indices"}, [&] { endless.indices(std::int64_t{1} << 62); });
}

TEST(Dataset, RejectsInvalidArguments) {
  const Dataset dataset = numbered(10);
  const ErrorCode invalid = ErrorCode::invalid_argument;
  expect_error(invalid, {"0", "10 rows"}, [&] { dataset.batch(0); });
  expect_error(invalid, {"-1", "10 rows"}, [&] { dataset.batch(-1); });
  expect_error(invalid, {"11", "10 rows"}, [&] { dataset.batch(11); });
  expect_error(invalid, {"batches of 2"}, [&] { dataset.batch(2).batch(2); });
  expect_error(invalid, {"shuffle", "before batch"}, [&] { dataset.batch(2).shuffle(0); });
  expect_error(invalid, {"repeat", "before batch"}, [&] { dataset.batch(2).repeat(); });
  expect_error(invalid, {"already repeated"}, [&] { dataset.repeat().repeat(2); });
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

TEST(Dataset, RejectsRowsOfDifferentCounts) {
  std::vector<float> values(12);
  const auto tensor = [&](const Shape& shape, Device device = Device::cpu()) {
    return Tensor(values.data(), DType::f32, shape, device);
  };
  expect_invalid({"none"}, [] { Dataset{Batch::Features()}; });
  expect_invalid({"''"}, [&] { Dataset({{"", tensor({3})}}); });
  expect_invalid({"'x'"}, [&] { Dataset({{"x", tensor({3})}, {"x", tensor({3})}}); });
  expect_error(ErrorCode::shape_mismatch, {"'y' has 4", "'x' has 3"}, [&] {
    Dataset({{"x", tensor({3, 4})}, {"y", tensor({4, 3})}});
  });
  expect_error(ErrorCode::shape_mismatch, {"()"}, [&] { Dataset({{"x", tensor({})}}); });
  expect_error(ErrorCode::shape_mismatch, {"(0, 3)"}, [&] { Dataset({{"x", tensor({0, 3})}}); });
  expect_error(ErrorCode::device_mismatch, {"Dataset", "cuda:0", "host memory"}, [&] {
    Dataset({{"x", tensor({3}, Device::cuda())}});
  });
}

TEST(Dataset, RowsMayBeEmpty) {
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

TEST(Batch, MissingFeatureNamesTheNearest) {
  const Dataset dataset = numbered(4).batch(2);
  expect_error(ErrorCode::not_found, {"'imgae'", "did you mean 'image'"}, [&] { (*dataset.begin())["imgae"]; });
  expect_error(ErrorCode::not_found, {"'x'"}, [] { Batch()["x"]; });
}

// The position at which a gather on the CPU begins, in a ring of one slot.
struct Position {
  std::int64_t call = 0;
  alignas(64) std::int64_t slot[8] = {};
  ByteRing ring{Tensor(slot, DType::u8, {1, 64}, Device::cpu()), Tensor(&call, DType::i64, {}, Device::cpu())};

  void set(std::int64_t position) { slot[0] = position; }
};

// The ids that steps read from a dataset on a device, batch by batch.
std::vector<Ids> gathered(const Dataset& dataset, std::size_t count) {
  const Stream stream(Device::cpu());
  std::vector<Ids> result;
  for (const Batch& batch : dataset) {
    if (result.size() == count) break;
    Position position;
    position.set(batch.position());
    result.push_back(ids_of(batch.resident_rows()->gather(batch.size(), position.ring, stream)));
  }
  return result;
}

TEST(ResidentRows, GathersTheSameRowsAsTheHost) {
  for (const Dataset& dataset : {numbered(97).batch(10), numbered(97).shuffle(6).batch(10),
                                 numbered(97).shuffle(6).repeat().batch(10), numbered(5).repeat(3).batch(4, true)}) {
    const Dataset resident = dataset.to(Device::cpu());
    EXPECT_EQ(resident.num_batches(), dataset.num_batches());
    EXPECT_EQ(gathered(resident, 30), first_batches(dataset, 30));
    EXPECT_EQ(gathered(resident, 30), first_batches(dataset, 30)) << "and again from the start";
    EXPECT_EQ(gathered(resident.skip(2).prefetch(2), 30), first_batches(dataset.skip(2), 30));
  }
}

TEST(ResidentRows, GathersTheRowsOfTheDataset) {
  const Dataset resident = numbered(97).shuffle(6).repeat().batch(10).skip(3).to(Device::cpu());
  const std::vector<Ids> batches = gathered(resident, 20);
  for (std::size_t k = 0; k < batches.size(); ++k) {
    EXPECT_EQ(as_ids(resident.indices(static_cast<std::int64_t>(k))), batches[k]);
  }
}

TEST(ResidentRows, MissingDeviceIsNamed) {
  expect_error(ErrorCode::device, {"to: the rows cannot be copied to cuda:99"},
               [] { numbered(4).batch(2).to(Device::cuda(99)); });
}

TEST(ResidentRows, BatchesHoldOnlyPositions) {
  const Dataset resident = numbered(10).batch(4).to(Device::cpu());
  EXPECT_EQ(resident.spec()[0].shape, Shape({4, 2, 3}));
  const Batch last = *resident.skip(2).begin();
  EXPECT_EQ(last.position(), 8);
  EXPECT_EQ(last.size(), 2);
  EXPECT_TRUE(last.features().empty());
  EXPECT_EQ(last.spec()[1].shape, Shape({2}));
  EXPECT_EQ(last.resident_rows(), (*resident.begin()).resident_rows()) << "one copy of the rows";
  expect_error(ErrorCode::unsupported, {"image", "cpu"}, [&] { last["image"]; });
  expect_error(ErrorCode::not_found, {"imag", "did you mean 'image'"}, [&] { last["imag"]; });
}

TEST(ResidentRows, RecordedGatherUsesCurrentPositions) {
  const Dataset dataset = numbered(10).shuffle(8).repeat().batch(4);
  const auto expected = first_batches(dataset, 12);
  const auto resident_rows = (*dataset.to(Device::cpu()).begin()).resident_rows();
  const Stream stream(Device::cpu());
  Batch batch;
  Position position;
  const Graph graph = Graph::record(stream, [&] { batch = resident_rows->gather(4, position.ring, stream); });
  for (const std::size_t step : {0, 1, 2, 3, 9, 10, 5, 6, 6, 0, 1}) {
    position.set(static_cast<std::int64_t>(4 * step));
    graph.replay(stream);
    EXPECT_EQ(ids_of(batch), expected[step]);
  }
}

TEST(ResidentRows, ServesAnyNumberOfStreams) {
  const Dataset dataset = numbered(20).shuffle(8).batch(4);
  const auto expected = all_batches(dataset);
  const auto resident_rows = (*dataset.to(Device::cpu()).begin()).resident_rows();
  const Stream streams[] = {Stream(Device::cpu()), Stream(Device::cpu())};
  Position positions[2];
  for (std::size_t step = 0; step < 5; ++step) {
    positions[step % 2].set(static_cast<std::int64_t>(4 * step));
    EXPECT_EQ(ids_of(resident_rows->gather(4, positions[step % 2].ring, streams[step % 2])), expected[step]);
  }
}

TEST(Dataset, DistinguishesDatasetsOfEqualSize) {
  const auto saved = [](const Dataset& dataset) {
    Archive archive;
    dataset.persist(archive);
    return archive.text();
  };
  const auto read = [](const Dataset& dataset, const std::string& text) {
    Archive archive = Archive::read(text);
    dataset.persist(archive);
  };
  std::vector<float> values(1000, 1);
  const Dataset dataset = Dataset({{"x", values}, {"y", std::vector<float>(1000)}}).batch(10);
  const std::string text = saved(dataset);
  read(dataset.skip(3), text);
  values[0] = 2;
  expect_invalid({"the dataset differs from that of the saved run: checksums: found x: ", ", y: ", ", expected x: "},
                 [&] {
                   read(Dataset({{"x", values}, {"y", std::vector<float>(1000)}}).batch(10), text);
                 });
  values[0] = 1;
  expect_invalid({"checksums: found z: "}, [&] {
    read(Dataset({{"z", values}, {"y", std::vector<float>(1000)}}).batch(10), text);
  });
  // A run saved before checksums existed.
  std::string before = text.substr(0, text.find("\"checksums\""));
  before.erase(before.find_last_of(','));
  values[0] = 2;
  read(Dataset({{"x", values}, {"y", std::vector<float>(1000)}}).batch(10), before + "}");
}

}  // namespace
}  // namespace giro
