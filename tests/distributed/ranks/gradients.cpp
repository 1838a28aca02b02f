// The reduction of gradients over all ranks, for any tree of parameters.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <giro/distributed/partitioner.h>
#include <giro/runtime/program/graph.h>
#include <giro/runtime/state.h>

#include "tests/distributed/ranks/naive.h"
#include "tests/distributed/ranks/ranks.h"

namespace giro::test {
namespace {

// A tree of gradients drawn from `seed`, reduced in buckets of a random size, or in shards. The backward pass finishes
// its leaves in a random order, and does not announce some of them. The reduction is queued directly, or recorded and
// replayed on other values.
void try_one(unsigned seed) {
  std::mt19937 random(seed);
  const auto draw = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
  std::vector<LeafSpec> specs;
  for (int leaves = 1 + draw(8); leaves > 0; --leaves) {
    std::vector<std::int64_t> shape;
    for (int axis = draw(4); axis > 0; --axis) shape.push_back(1 + draw(draw(4) == 0 ? 60 : 6));
    specs.push_back({"layer" + std::to_string(leaves) + "/w", DType::f32, Shape(shape)});
  }
  const bool is_sharded = draw(3) == 0, is_recorded = draw(2) == 0;
  const auto partitioner = is_sharded
                               ? zero_data_parallel(world(), test_device())
                               : data_parallel(world(), test_device(), {.bucket_bytes = 1 + draw(1 << (1 + draw(14)))});
  std::vector<std::size_t> order(specs.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), random);
  order.resize(order.size() - static_cast<std::size_t>(draw(static_cast<int>(order.size()))));

  State state(test_device());
  const int ranks = world().size(), rank = world().rank();
  const Collection& grads = state.add("grads", specs, {.parts = is_sharded ? ranks : 1});
  const Stream& stream = state.stream();
  const Collection& norm = state.add("norm", {{"", DType::f32, {}}});
  const auto reduce = [&] {
    const std::unique_ptr<GradientReduction> reduction = partitioner->reduce(grads, state.context());
    for (const std::size_t leaf : order) reduction->ready(leaf);
    reduction->finish();
    if (is_sharded) partitioner->gather_shards(grads, stream);
    partitioner->sum_over_shards(norm.leaves().front().value, stream);
  };
  const auto prepare = [&](unsigned values) {
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const Tensor& leaf = grads.leaves()[i].value;
      const std::vector<double> wide = input(DType::f32, leaf.count(), rank, values + static_cast<unsigned>(i));
      from_host(leaf, std::vector<float>(wide.begin(), wide.end()), stream);
    }
    from_host(norm.leaves().front().value, std::vector{1.0f}, stream);
  };
  const auto check = [&](unsigned values) {
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const Tensor& leaf = grads.leaves()[i].value;
      const std::vector<float> found = to_host<float>(leaf, stream);
      const unsigned drawn = values + static_cast<unsigned>(i);
      expect_reduced({found.begin(), found.end()}, reduced(DType::f32, leaf.count(), Reduction::mean, ranks, drawn),
                     "seed " + std::to_string(seed) + ", " + to_string(leaf));
    }
    EXPECT_EQ(to_host<float>(norm.leaves().front().value, stream),
              std::vector{is_sharded ? static_cast<float>(ranks) : 1});
  };

  prepare(seed * 1000);
  if (!is_recorded) {
    reduce();
    return check(seed * 1000);
  }
  const Graph graph = Graph::record(stream, reduce);
  for (const unsigned values : {seed * 1000, seed * 1000 + 500}) {
    prepare(values);
    graph.replay(stream);
    check(values);
  }
}

TEST(GradientsOfRanks, AreTheMeanForEveryTreeAndBucket) {
  for (unsigned seed = 0; seed < 100; ++seed) try_one(seed);
}

}  // namespace
}  // namespace giro::test
