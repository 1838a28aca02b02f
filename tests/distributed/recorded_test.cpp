// Collectives and events within recordings keep their places, and the program around them stays connected.

#include <giro/distributed/communicator.h>
#include <giro/kernels/conv2d.h>
#include <giro/kernels/pool.h>
#include <giro/runtime/program/graph.h>
#include <giro/runtime/program/program.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernels/rules/record.h"
#include "tests/kernels/op_test.h"
#include "tests/kernels/relu.h"
#include "tests/support/environment_setting.h"
#include "tests/support/tensor_ops.h"

namespace giro {
namespace {

class RecordedCollectivesTest : public test::OpTest {
 protected:
  void prepare() override {
    beside_.emplace(device());
    alone_.emplace(device());
  }

  Tensor leaf(const Shape& shape, double value) {
    kept_.push_back(Buffer::allocate(device(), static_cast<std::size_t>(shape.count()) * sizeof(float)));
    const Tensor tensor(kept_.back().data(), DType::f32, shape, device());
    fill(tensor, value, stream());
    return tensor;
  }
  static Tensor view(const Buffer& buffer, const Shape& shape, Device device) {
    return {buffer.place(), DType::f32, shape, device};
  }

  // Later work on the other stream starts after the work queued here, and the other way round.
  void fork() { hand_over(stream(), *beside_); }
  void join() { hand_over(*beside_, stream()); }

  Graph record(const std::function<void()>& body) const { return rules::record(stream(), body); }
  static std::vector<std::string> ops_of(const Graph& graph) {
    std::vector<std::string> names;
    for (const Program::Node& node : graph.program().nodes()) names.push_back(node.op);
    return names;
  }

  std::optional<Stream> beside_;
  std::optional<Communicator> alone_;
  std::vector<Buffer> kept_;

 private:
  static void hand_over(const Stream& from, const Stream& to) {
    Event queued(from);
    queued.record(from);
    to.wait(queued);
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, RecordedCollectivesTest, test::kDevices, test::device_name);

// A forward pass before the collective and a backward pass after it, as when gradients of later layers are already
// being sent.
TEST_P(RecordedCollectivesTest, RulesAndMemoryPlanningLookPastThem) {
  const test::ArenaSetting arena("1");
  const Tensor x = leaf({1, 4, 4, 3}, 0.5), w = leaf({3, 1, 1, 3}, 0.25), b = leaf({3}, 1), bucket = leaf({8}, 3);
  const Tensor gradient = leaf({1, 2, 2, 3}, 2), dw = leaf({3, 1, 1, 3}, 0), out = leaf({1, 2, 2, 3}, 0);
  const auto queue = [&](bool with_collective) {
    const Buffer y_memory = stream().allocate(192), dy_memory = stream().allocate(192);
    const Buffer dz_memory = stream().allocate(192);
    const Buffer z_memory = stream().allocate(192);
    const Tensor z = view(z_memory, {1, 4, 4, 3}, device());
    const Tensor y = view(y_memory, {1, 4, 4, 3}, device()), dy = view(dy_memory, {1, 4, 4, 3}, device());
    const Tensor dz = view(dz_memory, {1, 4, 4, 3}, device());
    conv2d(z, x, w, b, {}, stream());
    test::relu(y, z, stream());
    {
      const Buffer pooled_memory = stream().allocate(48);
      const Tensor pooled = view(pooled_memory, {1, 2, 2, 3}, device());
      avg_pool(pooled, y, {}, stream());
      scale(out, pooled, 2, stream());
    }
    if (with_collective) {
      fork();
      alone_->all_reduce(bucket, Reduction::mean, *beside_);
    }
    avg_pool_backward(dy, gradient, {}, stream());
    test::relu_backward(dz, dy, y, stream());
    conv2d_backward({}, dw, {}, dz, x, w, {}, stream());
    if (with_collective) join();
  };
  const Graph without = record([&] { queue(false); });
  const Graph with = record([&] { queue(true); });
  std::vector<std::string> expected = ops_of(without);
  EXPECT_EQ(expected, (std::vector<std::string>{"conv2d", "activation_avg_pool", "scale",
                                                "avg_pool_activation_backward", "conv2d_backward"}));
  expected.insert(expected.begin() + 3, "all_reduce");
  EXPECT_EQ(ops_of(with), expected);
  EXPECT_EQ(with.program().memory(), without.program().memory());

  without.replay(stream());
  const auto first_dw = to_host<float>(dw, stream()), first_out = to_host<float>(out, stream());
  fill(dw, 0, stream());
  fill(out, 0, stream());
  with.replay(stream());
  EXPECT_EQ(to_host<float>(dw, stream()), first_dw);
  EXPECT_EQ(to_host<float>(out, stream()), first_out);
}

// The other stream may be late, even if held ops are queued before it is done.
TEST_P(RecordedCollectivesTest, MemoryReadByAnotherStreamIsKept) {
  const test::ArenaSetting arena("1");
  const Tensor in = leaf({64}, 3), gathered = leaf({64}, 0), out = leaf({64}, 0),
               count = Tensor(leaf({2}, 0).raw(), DType::i64, {}, device());
  const Graph other = record([&] { increment(count, 1, stream()); });
  for (const bool is_queued_early : {false, true}) {
    fill(out, 0, stream());
    const Graph graph = record([&] {
      {
        const Buffer memory = stream().allocate(256);
        const Tensor sent = view(memory, {64}, device());
        scale(sent, in, 2, stream());
        fork();
        alone_->all_gather(gathered, sent, *beside_);
      }
      if (is_queued_early) other.replay(stream());
      for (int i = 0; i < 3; ++i) {
        const Buffer memory = stream().allocate(256);
        const Tensor term = view(memory, {64}, device());
        scale(term, in, i, stream());
        add(out, out, term, stream());
      }
      join();
    });
    const auto& nodes = graph.program().nodes();
    const void* const sent_from = nodes.front().writes.front().raw();
    EXPECT_EQ(std::count_if(nodes.begin(), nodes.end(),
                            [&](const Program::Node& node) {
                              return !node.writes.empty() && node.writes.front().raw() == sent_from;
                            }),
              1);
    graph.replay(stream(), 2);
    EXPECT_EQ(to_host<float>(gathered, stream()), std::vector<float>(64, 6));
    EXPECT_EQ(to_host<float>(out, stream()), std::vector<float>(64, 18));
  }
}

// No op here may read its result, but other ranks take part.
TEST_P(RecordedCollectivesTest, NoneIsDropped) {
  const Tensor in = leaf({64}, 1);
  const Graph graph = record([&] {
    const Buffer memory = stream().allocate(256);
    alone_->all_gather(view(memory, {64}, device()), in, stream());
    alone_->barrier(stream());
  });
  EXPECT_EQ(ops_of(graph), (std::vector<std::string>{"all_gather", "barrier"}));
}

}  // namespace
}  // namespace giro
