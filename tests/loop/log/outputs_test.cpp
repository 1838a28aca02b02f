#include <giro/loop/log/outputs.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include <giro/kernels/nn/var.h>
#include <giro/loop/log/history.h>
#include <giro/runtime/graph.h>

#include "tests/kernels/op_test.h"

namespace giro {
namespace {

using test::expect_error;

Elapsed at_step(std::int64_t steps) { return {.steps = steps}; }

// `first`, `first` + 1, ...
OutputArray array_of(const Shape& shape, float first = 0) {
  const auto numbers = std::make_shared<std::vector<float>>(static_cast<std::size_t>(shape.count()));
  std::iota(numbers->begin(), numbers->end(), first);
  return OutputArray(Tensor(numbers->data(), DType::f32, shape, Device::cpu()), numbers);
}

template <class T = float>
std::vector<T> values_of(const OutputArray& array) {
  const Tensor tensor = array.tensor();
  return {tensor.data<T>(), tensor.data<T>() + tensor.count()};
}

class OutputArrayTest : public test::OpTest {};

TEST_P(OutputArrayTest, CopiesWhatWasQueuedBefore) {
  const Tensor source = tensor({2, 3});
  const std::vector<float> before{1, 2, 3, 4, 5, 6};
  from_host(source, before, stream());
  const OutputArray array = OutputArray::copy_of(source, stream());
  stream().fill(source.raw(), 0, source.bytes());  // queued behind the copy
  EXPECT_EQ(values_of(array), before);
  EXPECT_TRUE(array.ready());
  EXPECT_EQ(array.shape(), (Shape{2, 3}));
  EXPECT_EQ(array.dtype(), DType::f32);
  EXPECT_TRUE(array.tensor().device().is_cpu());
}

TEST_P(OutputArrayTest, OneEventForSeveral) {
  const Tensor source = tensor({4});
  from_host(source, std::vector<float>{1, 2, 3, 4}, stream());
  const auto memory = std::make_shared<const Buffer>(Buffer::allocate(device(), 16, MemoryKind::pinned));
  const Tensor host(memory->data(), DType::f32, {4}, Device::cpu());
  copy(host, source, stream());
  const auto arrived = std::make_shared<Event>(stream());
  arrived->record(stream());
  const OutputArray first(host.rows(0, 2), memory, arrived), second(host.rows(2, 4), memory, arrived);
  EXPECT_EQ(values_of(first), (std::vector<float>{1, 2}));
  EXPECT_EQ(values_of(second), (std::vector<float>{3, 4}));
}

TEST_P(OutputArrayTest, IsNotMadeWhileRecording) {
  const Tensor source = tensor({2});
  test::expect_error(ErrorCode::invalid_argument, {"f32(2,)", "recorded"},
                     [&] { Graph::record(stream(), [&] { OutputArray::copy_of(source, stream()); }); });
}

// A step's values on its device are copied: the step will write there again.
TEST_P(OutputArrayTest, OutputsKeepValuesOnADevice) {
  const Tensor source = tensor({2});
  Outputs outputs;
  for (int i = 0; i < 3; ++i) {
    const auto first = static_cast<float>(i);
    from_host(source, std::vector<float>{first, 10 * first}, stream());
    outputs.commit(at_step(i), logs().add_output("y", nn::Var(source, stream())));
  }
  EXPECT_EQ(values_of(outputs.concatenate("y")), (std::vector<float>{0, 0, 1, 10, 2, 20}));
}

INSTANTIATE_TEST_SUITE_P(Devices, OutputArrayTest, test::kDevices, test::device_name);

TEST(OutputArray, KeepsItsMemory) {
  std::weak_ptr<const void> memory;
  {
    std::vector<OutputArray> copies;
    {
      const auto numbers = std::make_shared<std::vector<float>>(std::vector{1.f, 2.f});
      memory = numbers;
      const OutputArray array(Tensor(numbers->data(), DType::f32, {2}, Device::cpu()), numbers);
      copies.assign(2, array);
    }
    copies.pop_back();
    EXPECT_FALSE(memory.expired());
    EXPECT_EQ(values_of(copies.front()), (std::vector<float>{1, 2}));
  }
  EXPECT_TRUE(memory.expired());
}

TEST(OutputArray, LiesOnTheHost) {
  const Tensor elsewhere(nullptr, DType::f32, {2}, Device::cuda(0));
  expect_error(ErrorCode::device_mismatch, {"f32(2,) on cuda:0", "host"}, [&] { OutputArray(elsewhere, nullptr); });
}

TEST(Outputs, KeepTheCollectionOutputs) {
  Outputs outputs;
  outputs.commit(at_step(0), logs().add_metric("loss", 1));
  EXPECT_EQ(outputs.size(), 0u);
  outputs.commit(at_step(1), logs().add_output("y", array_of({2, 2})).add_metric("loss", 1).add_output("n", 7));
  outputs.commit(at_step(2), logs().add_output("n", 8));
  outputs.commit(at_step(3), logs().add_output("y", array_of({1, 2}, 4)));
  EXPECT_EQ(outputs.size(), 3u);

  const std::vector<OutputArray> y = outputs.collect("y");
  ASSERT_EQ(y.size(), 2u);
  EXPECT_EQ(y[0].shape(), (Shape{2, 2}));
  EXPECT_EQ(values_of(y[1]), (std::vector<float>{4, 5}));
  const std::vector<OutputArray> n = outputs.collect("n");
  ASSERT_EQ(n.size(), 2u);
  EXPECT_EQ(n[0].shape(), Shape{});
  EXPECT_EQ(values_of<double>(n[1]), std::vector<double>{8});

  std::vector<std::int64_t> steps;
  std::size_t entries = 0;
  for (const auto& [elapsed, logs] : outputs) {
    steps.push_back(elapsed.steps);
    entries += logs.entries().size();
  }
  EXPECT_EQ(steps, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(entries, 4u);
}

TEST(Outputs, UnknownNames) {
  Outputs outputs;
  expect_error(ErrorCode::not_found, {"'y'"}, [&] { outputs.collect("y"); });
  outputs.commit(at_step(1), logs().add_output("logits", array_of({2})).add_metric("logit", 1));
  expect_error(ErrorCode::not_found, {"'logit'", "'logits'"}, [&] { outputs.collect("logit"); });
  expect_error(ErrorCode::not_found, {"'logit'", "'logits'"}, [&] { outputs.concatenate("logit"); });
}

TEST(Outputs, Concatenate) {
  Outputs outputs;
  outputs.commit(at_step(0), logs().add_output("y", array_of({2, 3})).add_output("n", 1));
  outputs.commit(at_step(1), logs().add_output("y", array_of({0, 3})));
  outputs.commit(at_step(2), logs().add_output("y", array_of({1, 3}, 6)).add_output("n", 2));
  const OutputArray y = outputs.concatenate("y");
  EXPECT_EQ(y.shape(), (Shape{3, 3}));
  EXPECT_EQ(values_of(y), (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  const OutputArray n = outputs.concatenate("n");
  EXPECT_EQ(n.shape(), Shape{2});
  EXPECT_EQ(values_of<double>(n), (std::vector<double>{1, 2}));
}

TEST(Outputs, ConcatenateWantsEqualRows) {
  Outputs outputs;
  outputs.commit(at_step(10), logs().add_output("y", array_of({2, 3})).add_output("n", 1));
  outputs.commit(at_step(20), logs().add_output("y", array_of({2, 4})).add_output("n", array_of({1})));
  expect_error(ErrorCode::shape_mismatch, {"'y'", "(2, 3) at step 10", "(2, 4) at step 20"},
               [&] { outputs.concatenate("y"); });
  expect_error(ErrorCode::dtype_mismatch, {"'n'", "f64() at step 10", "f32(1,) at step 20"},
               [&] { outputs.concatenate("n"); });
}

TEST(Outputs, TheHistoryTakesTheirNumbersAlone) {
  History h;
  h.commit(at_step(0), logs().add_output("y", array_of({2})).add_metric("a", 1).add_output("n", 2));
  h.commit(at_step(1), logs().add_output("y", 3).add_metric("a", 4));
  h.commit(at_step(2), logs().add_output("y", array_of({2})));
  EXPECT_EQ(h.size(), 3u);
  EXPECT_EQ(h.collect("a")[0], (std::vector<double>{1, 4}));
  EXPECT_EQ(h.collect("outputs.n")[0], std::vector<double>{2});
  const auto [steps, y] = h.collect("steps", "y");
  EXPECT_EQ(steps, std::vector<double>{1});
  EXPECT_EQ(y, std::vector<double>{3});
  expect_error(ErrorCode::shape_mismatch, {"'metrics.b'", "f32(2,)", "scalar"},
               [&] { h.commit(at_step(3), logs().add_metric("a", 5).add_metric("b", array_of({2}))); });
  EXPECT_EQ(h.size(), 3u);
  EXPECT_EQ(h.collect("a")[0], (std::vector<double>{1, 4}));
}

}  // namespace
}  // namespace giro
