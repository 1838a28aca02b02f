#include <giro/kernels/nn/functional.h>
#include <giro/runtime/program/program.h>

#include "kernels/rules/record.h"
#include "tests/kernels/op_test.h"
#include "tests/support/environment_setting.h"
#include "tests/support/tensor_ops.h"

namespace giro {
namespace {

constexpr std::int64_t kCount = 1024;

class ShareMemoryTest : public test::OpTest {
 protected:
  Tensor leaf(const Shape& shape, double value) {
    leaves_.push_back(Buffer::allocate(device(), static_cast<std::size_t>(shape.count()) * 4));
    const Tensor tensor(leaves_.back().data(), DType::f32, shape, device());
    fill(tensor, value, stream());
    return tensor;
  }
  // Makes a temporary in a recording.
  Tensor temporary(const Shape& shape) {
    temporaries_.push_back(stream().allocate(static_cast<std::size_t>(shape.count()) * 4));
    return {temporaries_.back().place(), DType::f32, shape, device()};
  }
  // Records the body without rules. Returns the bytes that the temporaries take.
  std::size_t memory_of(const std::function<void()>& body) {
    const test::ArenaSetting arena("1");
    graph_.emplace(Graph::record(stream(), [&] { body(), temporaries_.clear(); }));
    return graph_->program().memory();
  }
  std::vector<float> replayed(const Tensor& out) {
    graph_->replay(stream());
    return to_host<float>(out, stream());
  }

  std::vector<Buffer> leaves_, temporaries_;
  std::optional<Graph> graph_;
};
INSTANTIATE_TEST_SUITE_P(Devices, ShareMemoryTest, test::kDevices, test::device_name);

TEST_P(ShareMemoryTest, OutputReusesMemoryOfALastReadInput) {
  const Tensor x = leaf({kCount}, 3), out = leaf({kCount}, 0);
  EXPECT_EQ(memory_of([&] {
              const Tensor a = temporary({kCount}), b = temporary({kCount}), c = temporary({kCount});
              scale(a, x, 2, stream());
              add(b, a, a, stream());
              multiply(c, b, b, stream());
              scale(out, c, 0.5, stream());
            }),
            kCount * sizeof(float));
  EXPECT_EQ(replayed(out), std::vector<float>(kCount, 72));
}

TEST_P(ShareMemoryTest, ValueReadAgainIsKept) {
  const Tensor x = leaf({kCount}, 3), out = leaf({kCount}, 0);
  EXPECT_EQ(memory_of([&] {
              const Tensor a = temporary({kCount}), b = temporary({kCount});
              scale(a, x, 2, stream());
              scale(b, a, 3, stream());
              add(out, a, b, stream());
            }),
            2 * kCount * sizeof(float));
  EXPECT_EQ(replayed(out), std::vector<float>(kCount, 24));
}

// Every element of the output needs several elements of the input.
TEST_P(ShareMemoryTest, BroadcastInputIsNotOverwritten) {
  const Tensor x = leaf({kCount}, 3), out = leaf({kCount}, 0), rows = leaf({1}, 2);
  EXPECT_EQ(memory_of([&] {
              const Tensor a = temporary({}), b = temporary({1, kCount}), c = temporary({1, kCount});
              sum(a, x, stream());
              broadcast(b.reshape({kCount}), a, 1, stream());
              scale_rows(c, b, rows, stream());
              scale(out, c.reshape({kCount}), 1, stream());
            }),
            kCount * sizeof(float) + 256);
  EXPECT_EQ(replayed(out), std::vector<float>(kCount, 2 * 3 * kCount));
}

// An array is written in two halves, which must stay next to each other.
TEST_P(ShareMemoryTest, PartOfAValueIsNotMoved) {
  const Tensor x = leaf({kCount}, 3), out = leaf({2 * kCount}, 0);
  memory_of([&] {
    const Tensor whole = temporary({2 * kCount}), a = temporary({kCount});
    scale(a, x, 2, stream());
    scale(whole.rows(0, kCount), a, 3, stream());
    scale(whole.rows(kCount, 2 * kCount), x, 5, stream());
    scale(out, whole, 1, stream());
  });
  const std::vector<float> values = replayed(out);
  EXPECT_EQ(values.front(), 18);
  EXPECT_EQ(values.back(), 15);
}

// An op reads an array and, under another name, a part of it. Its result must not be written over the array.
TEST_P(ShareMemoryTest, ArrayIsNotOverwrittenWhoseFirstRowIsReadWithEachRow) {
  const test::ArenaSetting arena("1");
  const Tensor x = leaf({1, kCount}, 3), out = leaf({2, kCount}, 0);
  const auto by_hand = [&] {
    const Tensor whole = temporary({2, kCount}), first = whole.rows(0, 1);
    scale(first, x, 2, stream());
    scale(whole.rows(1, 2), x, 5, stream());
    const nn::Var difference = nn::Var(whole, stream()) - nn::Var(first, stream());
    cumulative(out, difference.value(), Cumulative::sum, false, stream());
  };
  const auto by_rule = [&] {
    const nn::Var a = nn::Var(x, stream()) * 2, b = nn::Var(x, stream()) * 5;
    cumulative(out, (nn::concatenate({a, b}, 0) - a).value(), Cumulative::sum, false, stream());
  };
  for (const std::function<void()>& body : std::vector<std::function<void()>>{by_hand, by_rule}) {
    for (const char* setting : {"0", "1"}) {
      const test::RewriteSetting rewriting(setting);
      graph_.emplace(rules::record(stream(), [&] { body(), temporaries_.clear(); }));
      const std::vector<float> differences = replayed(out);
      EXPECT_EQ(differences[kCount - 1], 0) << setting;
      EXPECT_EQ(differences[kCount], 9) << setting;
    }
  }
}

// One op computes tanh(a), which later ops read, and writes both halves of an array: tanh(a), and a itself.
TEST_P(ShareMemoryTest, CopiedValueIsNotOverwritten) {
  const test::ArenaSetting arena("1");
  const Tensor x = leaf({kCount}, 0.5), out = leaf({2 * kCount}, 0), squared = leaf({1}, 0);
  graph_.emplace(rules::record(stream(), [&] {
    const nn::Var a = nn::Var(x, stream()) * 2, t = tanh(a);
    copy(out, nn::concatenate({t, a}, 0).value(), stream());
    copy(squared, sum(square(t) * 0.5, {0}).value(), stream());
  }));
  const std::vector<float> both = replayed(out);
  EXPECT_NEAR(both.front(), std::tanh(1.0), 2 * test::kUnit) << "and not 1";
  EXPECT_EQ(both.back(), 1);
}

// The gradient of a cross-entropy takes the memory of its logits, whose last reader it is.
TEST_P(ShareMemoryTest, GradientReusesMemoryOfLogits) {
  constexpr std::int64_t kRows = 16, kClasses = kCount / kRows;
  const Tensor x = leaf({kRows, kClasses}, 1), out = leaf({kRows, kClasses}, 0), losses = leaf({kRows}, 0);
  leaves_.push_back(Buffer::allocate(device(), kRows));
  const Tensor labels(leaves_.back().data(), DType::u8, {kRows}, device());
  fill(labels, 3, stream());
  EXPECT_EQ(memory_of([&] {
              const Tensor logits = temporary({kRows, kClasses}), gradient = temporary({kRows, kClasses});
              scale(logits, x, 2, stream());
              softmax_cross_entropy(losses, gradient, logits, labels, stream());
              scale(out, gradient, kClasses, stream());
            }),
            kCount * sizeof(float));
  const std::vector<float> gradients = replayed(out);
  EXPECT_EQ(gradients[2], 1);
  EXPECT_EQ(gradients[3], 1 - kClasses);
}

}  // namespace
}  // namespace giro
