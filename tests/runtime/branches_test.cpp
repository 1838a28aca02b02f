#include "runtime/program/branches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "runtime/arena.h"
#include "runtime/program/op.h"
#include "runtime/program/overlap.h"

namespace giro::detail {
namespace {

// An op defined only by what it reads and writes.
struct Touch {
  std::vector<Out> writes;
  std::vector<In> reads;
};
void run(const Touch&, const Stream&) {}

struct Ops {
  explicit Ops(std::shared_ptr<Arena> trace) : trace(std::move(trace)) {}
  Ops() : Ops(std::make_shared<Arena>(Device::cpu(), Arena::Kind::trace)) {}

  Tensor value(std::int64_t bytes) {
    held.push_back(trace->allocate(static_cast<std::size_t>(bytes)));
    return {held.back().place(), DType::u8, {bytes}, Device::cpu()};
  }
  void add(const std::vector<Tensor>& writes, const std::vector<Tensor>& reads, HeldOp::Kind kind = HeldOp::Kind::op) {
    Touch op{{writes.begin(), writes.end()}, {reads.begin(), reads.end()}};
    traced.push_back(op);
    all.push_back({Program::Node("op", {}, {}), stream, std::make_shared<CallOf<Touch>>(std::move(op)), kind});
  }
  std::vector<Branch> plan() {
    held.clear();
    values = number(all, *trace);
    homes.emplace(all, values, *trace, true);
    least = min_memory(homes->blocks);
    return plan_branches(all, values, *homes, homes->blocks);
  }

  // Whether the ops touch the same memory, and one writes it.
  bool meet(std::size_t i, std::size_t j) const {
    const auto overlaps = [](const auto& some, const auto& others) {
      return std::ranges::any_of(some, [&](const Tensor& one) {
        return std::ranges::any_of(others, [&](const Tensor& other) { return overlap(one, other); });
      });
    };
    const Touch &a = traced[i], &b = traced[j];
    return overlaps(a.writes, b.writes) || overlaps(a.writes, b.reads) || overlaps(a.reads, b.writes);
  }

  Stream stream{Device::cpu()};
  std::shared_ptr<Arena> trace;
  std::vector<Buffer> held;
  std::vector<Touch> traced;  // before their values were numbered
  std::vector<HeldOp> all;
  Values values;
  std::optional<Homes> homes;
  std::size_t least = 0;  // memory that the ops need when they run one after another
};

std::vector<std::size_t> aside(const std::vector<Branch>& branches) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < branches.size(); ++i) {
    if (branches[i].on_side_stream) found.push_back(i);
  }
  return found;
}

TEST(Branches, OpNeededByTheNextStaysOnTheMainStream) {
  Ops ops;
  const Tensor a = ops.value(1), b = ops.value(1), c = ops.value(1);
  ops.add({a}, {});
  ops.add({b}, {a});
  ops.add({c}, {b});
  EXPECT_EQ(aside(ops.plan()), std::vector<std::size_t>{});
  EXPECT_EQ(aside(Ops().plan()), std::vector<std::size_t>{});
}

TEST(Branches, WeightGradientsOverlapTheBackwardPass) {
  Ops ops;
  // dz -> (dw1, da), da -> (dw0, dx), and an update that reads both.
  std::vector<std::int64_t> weights(3);
  const auto weight = [&](std::size_t i) { return Tensor(&weights[i], DType::i64, {}, Device::cpu()); };
  const Tensor dz = ops.value(1), da = ops.value(1), dx = ops.value(1);
  ops.add({dz}, {});
  ops.add({weight(1)}, {dz});  // 1: aside
  ops.add({da}, {dz});
  ops.add({weight(0)}, {da});  // 3: aside
  ops.add({dx}, {da});
  ops.add({weight(2)}, {dx});
  ops.add({weight(2)}, {weight(0), weight(1), weight(2)});
  ops.value(4096);
  const std::vector<Branch> branches = ops.plan();
  EXPECT_EQ(aside(branches), (std::vector<std::size_t>{1, 3}));
  EXPECT_LE(branches[1].joined, 6u);
  EXPECT_LE(branches[3].joined, 6u);
}

// Other work may wait for an event or a collective.
TEST(Branches, AreJoinedBeforeAnEvent) {
  for (const auto kind : {HeldOp::Kind::event, HeldOp::Kind::collective}) {
    Ops ops;
    std::int64_t weight = 0;
    const Tensor dw(&weight, DType::i64, {}, Device::cpu()), dz = ops.value(1), da = ops.value(1), dx = ops.value(1);
    ops.add({dz}, {});
    ops.add({dw}, {dz});  // 1: aside
    ops.add({da}, {dz});
    ops.add({}, {}, kind);
    ops.add({dx}, {da});
    const std::vector<Branch> branches = ops.plan();
    EXPECT_EQ(aside(branches), std::vector<std::size_t>{1});
    EXPECT_EQ(branches[1].joined, 3u);
  }
}

// Whether one op is done before another starts, for each pair, according to the streams and events of a recording.
std::vector<std::vector<bool>> order_of(const std::vector<Branch>& branches) {
  const std::size_t ops = branches.size();
  std::vector<std::vector<bool>> before(ops, std::vector<bool>(ops));
  for (std::size_t j = 0; j < ops; ++j) {
    for (std::size_t i = 0; i < j; ++i) {
      before[i][j] = !branches[i].on_side_stream || branches[j].on_side_stream || branches[i].joined <= j;
    }
  }
  return before;
}

TEST(Branches, RandomProgramsKeepTheirOrderAndMemory) {
  std::mt19937 random(3);
  std::size_t put_aside = 0;
  for (int program = 0; program < 200; ++program) {
    Ops ops;
    std::vector<std::int64_t> leaves(4);
    std::vector<Tensor> values;
    for (std::int64_t& leaf : leaves) values.emplace_back(&leaf, DType::i64, Shape{}, Device::cpu());
    const std::size_t count = 1 + random() % 30;
    for (std::size_t i = 0; i < count; ++i) {
      const auto any = [&] { return values[random() % values.size()]; };
      std::vector<Tensor> reads{any(), any()}, writes{random() % 5 == 0 ? any() : ops.value(1 + random() % 5000)};
      ops.add(writes, reads, random() % 12 == 0 ? HeldOp::Kind::collective : HeldOp::Kind::op);
      values.push_back(writes.front());
      if (values.size() > 9) values.erase(values.begin() + 4);
    }
    const std::vector<Branch> branches = ops.plan();
    put_aside += aside(branches).size();
    const auto before = order_of(branches);
    for (std::size_t j = 0; j < count; ++j) {
      for (std::size_t i = 0; i < j; ++i) {
        const bool in_order = ops.all[i].is_barrier() || ops.all[j].is_barrier() || ops.meet(i, j);
        ASSERT_TRUE(before[i][j] || !in_order) << i << ", " << j;
      }
    }
    // Two blocks may share memory only if the users of one are done before any user of the other starts.
    const Homes& homes = *ops.homes;
    ASSERT_LE(min_memory(homes.blocks), ops.least);
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t j = i + 1; j < count; ++j) {
        for (const std::size_t a : homes.of_op[i]) {
          for (const std::size_t b : homes.of_op[j]) {
            const PlannedBlock &first = homes.blocks[a], &second = homes.blocks[b];
            ASSERT_TRUE(a == b || before[i][j] || (first.first <= second.last && second.first <= first.last));
          }
        }
      }
    }
  }
  EXPECT_GT(put_aside, 300u);
}

}  // namespace
}  // namespace giro::detail
