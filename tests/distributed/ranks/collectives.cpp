#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <giro/distributed/communicator.h>
#include <giro/runtime/program/graph.h>

#include "distributed/mpi/communicator.h"
#include "tests/distributed/ranks/naive.h"
#include "tests/distributed/ranks/ranks.h"
#include "tests/support/expect_error.h"

namespace giro::test {
namespace {

constexpr DType kDTypes[] = {DType::f32, DType::f64, DType::bf16, DType::f16,
                             DType::i32, DType::i64, DType::u8,   DType::boolean};

std::vector<double> part(const std::vector<double>& values, int index, std::size_t size) {
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(index) * size);
  return {begin, begin + static_cast<std::ptrdiff_t>(size)};
}

// One call with arguments drawn from `seed`, the same on all ranks. It is queued directly, or recorded and replayed
// with other elements.
void try_one(const Communicator& communicator, const Stream& stream, unsigned seed) {
  std::mt19937 random(seed);
  const auto draw = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
  const int size = communicator.size(), rank = communicator.rank();
  const DType dtype = kDTypes[draw(8)];
  std::vector<Reduction> reductions{Reduction::max, Reduction::min};
  if (dtype != DType::boolean) reductions.push_back(Reduction::sum);
  if (is_floating(dtype)) reductions.push_back(Reduction::mean);
  const Reduction reduction = reductions[static_cast<std::size_t>(draw(static_cast<int>(reductions.size())))];
  std::vector<std::int64_t> sizes;
  for (int axis = draw(4); axis > 0; --axis) sizes.push_back(draw(8) == 0 ? draw(200) : 1 + draw(6));
  const Shape shape{std::span<const std::int64_t>(sizes)};
  const std::int64_t count = shape.count();
  const Shape all_shape = sizes.empty() ? Shape{size} : shape.drop_front().with_front(shape[0] * size);
  const int what = draw(4), root = draw(size);
  const bool in_place = draw(2) == 0, is_recorded = draw(2) == 0;

  const Elements all(dtype, all_shape, stream), own(dtype, shape, stream);
  const Tensor own_part(static_cast<char*>(all.tensor().raw()) + static_cast<std::size_t>(rank) * own.tensor().bytes(),
                        dtype, shape, stream.device());
  const Tensor own_tensor = in_place ? own_part : own.tensor();
  const auto call = [&] {
    if (what == 0) communicator.all_reduce(own.tensor(), reduction, stream);
    if (what == 1) communicator.broadcast(own.tensor(), root, stream);
    if (what == 2) communicator.all_gather(all.tensor(), own_tensor, stream);
    if (what == 3) communicator.reduce_scatter(own_tensor, all.tensor(), reduction, stream);
  };
  const auto prepare = [&](unsigned values) {
    const std::vector<double> mine = input(dtype, count, rank, values);
    own.set(mine);
    all.set(input(dtype, count * size, rank, values));
    if (what == 2 && in_place) {
      std::vector<double> parts(static_cast<std::size_t>(count * size), 0);
      std::copy(mine.begin(), mine.end(), parts.begin() + static_cast<std::ptrdiff_t>(rank * count));
      all.set(parts);
    }
  };
  const auto check = [&](unsigned values) {
    const std::string text = "seed " + std::to_string(seed) + ", call " + std::to_string(what) + ", reduction " +
                             std::to_string(static_cast<int>(reduction)) + " of " + to_string(own.tensor());
    Expected expected;
    if (what == 0) return expect_reduced(own.get(), reduced(dtype, count, reduction, size, values), text);
    if (what == 1) {
      expected.values = input(dtype, count, root, values);
      expected.bounds.assign(expected.values.size(), 0);
      return expect_reduced(own.get(), expected, text);
    }
    if (what == 2) {
      for (int other = 0; other < size; ++other) {
        const std::vector<double> theirs = input(dtype, count, other, values);
        expected.values.insert(expected.values.end(), theirs.begin(), theirs.end());
      }
      expected.bounds.assign(expected.values.size(), 0);
      return expect_reduced(all.get(), expected, text);
    }
    const Expected whole = reduced(dtype, count * size, reduction, size, values);
    const auto width = static_cast<std::size_t>(count);
    expected = {part(whole.values, rank, width), part(whole.bounds, rank, width)};
    expect_reduced(in_place ? part(all.get(), rank, width) : own.get(), expected, text);
  };

  if (!is_recorded) {
    prepare(seed);
    call();
    return check(seed);
  }
  prepare(seed);
  const Graph graph = Graph::record(stream, call);
  for (const unsigned values : {seed, seed + 1}) {
    prepare(values);
    graph.replay(stream);
    check(values);
  }
}

TEST(Ranks, KnowTheirRanks) {
  EXPECT_EQ(world().is_primary(), world().rank() == 0);
  EXPECT_LT(world().rank(), world().size());
  EXPECT_EQ(world().local_size(), world().size());  // the tests run on one machine
  EXPECT_EQ(world().local_rank(), world().rank());
  EXPECT_EQ(world().host().size(), world().size());
  EXPECT_EQ(world().host().device(), Device::cpu());
  expect_error(ErrorCode::invalid_argument, {"World", "one already"}, [] { World second; });
}

TEST(Ranks, CollectivesMatchANaiveReference) {
  const Communicator communicator = world().communicator(test_device());
  const Stream stream(test_device());
  for (unsigned seed = 0; seed < 100; ++seed) try_one(communicator, stream, seed);
}

TEST(Ranks, HostCollectivesMatchBesideGpuCollectives) {
  if (test_device().is_cpu()) return;  // the two would be the same
  const Stream stream(Device::cpu());
  for (unsigned seed = 300; seed < 340; ++seed) try_one(world().host(), stream, seed);
  const Communicator group = world().host().split(0, -world().rank());
  EXPECT_EQ(group.device(), Device::cpu());
  EXPECT_EQ(group.rank(), world().size() - 1 - world().rank());
  for (unsigned seed = 340; seed < 350; ++seed) try_one(group, stream, seed);
}

TEST(Ranks, CollectivesInPieces) {
  if (!test_device().is_cpu()) return;  // NCCL counts with 64 bits
  const Stream stream(Device::cpu());
  const std::int64_t most = std::exchange(mpi::max_elements_per_call, 7);
  for (unsigned seed = 200; seed < 240; ++seed) try_one(world().host(), stream, seed);
  mpi::max_elements_per_call = most;
}

// The sum in f32 depends on the order, which must always be the same, and all ranks must get the same bits.
TEST(Ranks, SumsHaveTheSameBitsInEveryRunAndOnEveryRank) {
  const Communicator communicator = world().communicator(test_device());
  const Stream stream(test_device());
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::int64_t count : {1, 1000, 40'000}) {
      const Elements tensor(dtype, {count}, stream), everyones(dtype, {count * communicator.size()}, stream);
      std::vector<double> first;
      for (int run = 0; run < 20; ++run) {
        // Ranks arrive late, each at a different time.
        if (run % communicator.size() == communicator.rank()) {
          std::this_thread::sleep_for(std::chrono::microseconds(200));
        }
        tensor.set(input(dtype, count, communicator.rank(), 7));
        communicator.all_reduce(tensor.tensor(), Reduction::sum, stream);
        const std::vector<double> sum = tensor.get();
        if (run == 0) first = sum;
        ASSERT_EQ(sum, first) << "run " << run << ", " << count << " elements";
      }
      communicator.all_gather(everyones.tensor(), tensor.tensor(), stream);
      const std::vector<double> all = everyones.get();
      for (int rank = 0; rank < communicator.size(); ++rank) {
        ASSERT_EQ(part(all, rank, static_cast<std::size_t>(count)), first) << "rank " << rank;
      }
    }
  }
}

TEST(Ranks, BarrierWaitsForAllRanks) {
  const Communicator communicator = world().communicator(test_device());
  const Stream stream(test_device());
  const auto now = [] {
    const auto time = std::chrono::steady_clock::now().time_since_epoch();  // the machine's clock
    return std::chrono::duration<double>(time).count();
  };
  const int last = communicator.size() - 1;
  for (int round = 0; round < 3; ++round) {
    if (communicator.rank() == last) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    double come = now();
    communicator.barrier(stream);
    stream.synchronize();
    const double left = now();
    world().host().broadcast(Tensor(&come, DType::f64, {}, Device::cpu()), last, Stream(Device::cpu()));
    EXPECT_GE(left, come);
  }
}

TEST(Ranks, SplitGroupsByColorInTheOrderOfKeys) {
  const Communicator communicator = world().communicator(test_device());
  const Stream stream(test_device());
  const int rank = communicator.rank(), size = communicator.size();
  const Communicator group = communicator.split(rank % 2, -rank);
  EXPECT_EQ(group.size(), rank % 2 == 0 ? (size + 1) / 2 : size / 2);
  const Elements own(DType::i32, {1}, stream), all(DType::i32, {group.size()}, stream);
  own.set({static_cast<double>(rank)});
  group.all_gather(all.tensor(), own.tensor(), stream);
  std::vector<double> expected;
  for (int other = size - 1; other >= 0; --other) {
    if (other % 2 == rank % 2) expected.push_back(other);
  }
  EXPECT_EQ(all.get(), expected);
  EXPECT_EQ(expected[static_cast<std::size_t>(group.rank())], rank);
  EXPECT_EQ(communicator.split(0, 0).rank(), rank) << "of equal keys, the order of ranks";
  expect_error(ErrorCode::invalid_argument, {"split", "-1"}, [&] { (void)communicator.split(-1, 0); });
}

}  // namespace
}  // namespace giro::test
