// Recordings with ops that run in parallel on a GPU.

#include <giro/runtime/program/graph.h>

#include <vector>

#include "tests/kernels/op_test.h"
#include "tests/support/environment_setting.h"
#include "tests/support/tensor_ops.h"

namespace giro {
namespace {

class BranchesTest : public test::OpTest {
 protected:
  static constexpr std::int64_t kCount = 300;

  void prepare() override {
    for (Tensor* leaf : {&left_, &right_, &out_}) {
      leaves_.push_back(Buffer::allocate(device(), kCount * sizeof(float)));
      *leaf = Tensor(leaves_.back().place(), DType::f32, {kCount}, device());
      fill(*leaf, 0, stream());
    }
  }

  // Queues out += 38: a chain of temporaries, and two ops whose results are needed only at its end.
  void queue(const Stream& s, std::vector<Tensor> temporaries = {}) {
    std::vector<Buffer> memory;
    while (temporaries.size() < 3) {
      memory.push_back(s.allocate(kCount * sizeof(float)));
      temporaries.emplace_back(memory.back().place(), DType::f32, Shape{kCount}, device());
    }
    const Tensor &a = temporaries[0], &b = temporaries[1], &c = temporaries[2];
    fill(a, 1, s);
    scale(left_, a, 2, s);
    scale(b, a, 3, s);
    scale(right_, b, 2, s);
    scale(c, b, 5, s);
    scale(c, c, 2, s);
    add(out_, out_, c, s);
    add(out_, out_, left_, s);
    add(out_, out_, right_, s);
  }
  Graph recorded() {
    return Graph::record(stream(), [&] { queue(stream()); });
  }
  void expect_out(float value) { EXPECT_EQ(to_host<float>(out_, stream()), std::vector<float>(kCount, value)); }

  std::vector<Buffer> leaves_;
  Tensor left_, right_, out_;
};
INSTANTIATE_TEST_SUITE_P(Devices, BranchesTest, test::kDevices, test::device_name);

// The op after the branches could reuse the memory that they read, but must not.
TEST_P(BranchesTest, RunConcurrentlyInSharedMemory) {
  const test::ArenaSetting shared("1");
  const Graph graph = recorded();
  EXPECT_EQ(graph.longest_path(), device().is_cuda() ? 7u : 9u);
  graph.replay(stream());
  expect_out(38);
}

TEST_P(BranchesTest, RunConcurrently) {
  const Graph graph = recorded();
  EXPECT_EQ(graph.num_nodes(), 9u);
  EXPECT_EQ(graph.longest_path(), device().is_cuda() ? 7u : 9u);
  graph.replay(stream());
  graph.replay(stream(), 3);
  expect_out(4 * 38);
  stream().synchronize();
  const Stream other(device());
  graph.replay(other, 2);
  other.synchronize();
  expect_out(6 * 38);
}

TEST_P(BranchesTest, CanBeSwitchedOff) {
  const test::BranchesSetting off("0");
  const Graph graph = recorded();
  EXPECT_EQ(graph.longest_path(), 9u);
  graph.replay(stream());
  expect_out(38);
}

TEST_P(BranchesTest, AreJoinedBeforeAnEvent) {
  Event between(stream());
  const Graph graph = Graph::record(stream(), [&] {
    queue(stream());
    between.record(stream());
    queue(stream());
  });
  EXPECT_EQ(graph.longest_path(), device().is_cuda() ? 14u : 18u);
  graph.replay(stream());
  expect_out(2 * 38);
}

TEST_P(BranchesTest, WithinOtherGraphs) {
  const Graph part = recorded();
  const Graph sequence = Graph::sequence({&part, &part});
  EXPECT_EQ(sequence.longest_path(), 2 * part.longest_path());
  sequence.replay(stream(), 2);
  const Graph outer = Graph::record(stream(), [&] {
    queue(stream());
    part.replay(stream(), 2);
    queue(stream());
  });
  outer.replay(stream());
  expect_out(8 * 38);
}

// An op that cannot be recorded comes after ops on a branch.
TEST_P(BranchesTest, AreAbandonedWithTheirRecording) {
  if (device().is_cpu()) GTEST_SKIP() << "there is nothing that a recording on the CPU cannot copy";
  std::vector<float> pageable(kCount);
  const auto body = [&] {
    queue(stream());
    scale(left_, out_, 0, stream());
    stream().copy(right_.raw(), pageable.data(), right_.bytes());
    add(out_, left_, right_, stream());
  };
  test::expect_error(ErrorCode::unsupported, {"pinned"}, [&] { (void)Graph::record(stream(), body); });
  EXPECT_FALSE(stream().is_recording());
  recorded().replay(stream());
  expect_out(38);
}

// A second stream in a recording keeps its own order.
TEST_P(BranchesTest, OpsOfAJoinedStreamKeepTheirOrder) {
  const Stream joins(device());
  std::vector<Tensor> values;
  for (int i = 0; i < 3; ++i) {
    leaves_.push_back(Buffer::allocate(device(), kCount * sizeof(float)));
    values.emplace_back(leaves_.back().place(), DType::f32, Shape{kCount}, device());
  }
  const Graph graph = Graph::record(stream(), [&] {
    Event forked(stream()), joined(stream());
    fill(out_, 1, stream());
    forked.record(stream());
    joins.wait(forked);
    queue(joins, values);
    joined.record(joins);
    stream().wait(joined);
    add(out_, out_, left_, stream());
  });
  EXPECT_EQ(graph.longest_path(), 11u);
  graph.replay(stream());
  expect_out(1 + 38 + 2);
}

}  // namespace
}  // namespace giro
