#include <giro/loop/log/outputs.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include <giro/kernels/nn/var.h>
#include <giro/loop/log/history.h>

#include "tests/kernels/op_test.h"

namespace giro {
namespace {

using test::expect_error;

Elapsed at_step(std::int64_t steps) { return {.steps = steps}; }

// `first`, `first` + 1, ...
HostArray array_of(const Shape& shape, float first = 0) {
  const auto numbers = std::make_shared<std::vector<float>>(static_cast<std::size_t>(shape.count()));
  std::iota(numbers->begin(), numbers->end(), first);
  return HostArray(Tensor(numbers->data(), DType::f32, shape, Device::cpu()), numbers);
}

template <class T = float>
std::vector<T> values_of(const HostArray& array) {
  const Tensor tensor = array.tensor();
  return {tensor.data<T>(), tensor.data<T>() + tensor.count()};
}

class OutputsTest : public test::OpTest {};

// Values on the device are copied, because the next step overwrites them.
TEST_P(OutputsTest, KeepsDeviceValues) {
  const Tensor source = tensor({2});
  Outputs outputs;
  for (int i = 0; i < 3; ++i) {
    const auto first = static_cast<float>(i);
    from_host(source, std::vector<float>{first, 10 * first}, stream());
    outputs.commit(at_step(i), logs().add_output("y", nn::Var(source, stream())));
  }
  EXPECT_EQ(values_of(outputs.concatenate("y")), (std::vector<float>{0, 0, 1, 10, 2, 20}));
}

INSTANTIATE_TEST_SUITE_P(Devices, OutputsTest, test::kDevices, test::device_name);

TEST(Outputs, KeepsOnlyTheOutputsCollection) {
  Outputs outputs;
  outputs.commit(at_step(0), logs().add_metric("loss", 1));
  EXPECT_EQ(outputs.size(), 0u);
  outputs.commit(at_step(1), logs().add_output("y", array_of({2, 2})).add_metric("loss", 1).add_output("n", 7));
  outputs.commit(at_step(2), logs().add_output("n", 8));
  outputs.commit(at_step(3), logs().add_output("y", array_of({1, 2}, 4)));
  EXPECT_EQ(outputs.size(), 3u);

  const std::vector<HostArray> y = outputs.collect("y");
  ASSERT_EQ(y.size(), 2u);
  EXPECT_EQ(y[0].shape(), (Shape{2, 2}));
  EXPECT_EQ(values_of(y[1]), (std::vector<float>{4, 5}));
  const std::vector<HostArray> n = outputs.collect("n");
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
  const HostArray y = outputs.concatenate("y");
  EXPECT_EQ(y.shape(), (Shape{3, 3}));
  EXPECT_EQ(values_of(y), (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  const HostArray n = outputs.concatenate("n");
  EXPECT_EQ(n.shape(), Shape{2});
  EXPECT_EQ(values_of<double>(n), (std::vector<double>{1, 2}));
}

TEST(Outputs, ConcatenateNeedsEqualRows) {
  Outputs outputs;
  outputs.commit(at_step(10), logs().add_output("y", array_of({2, 3})).add_output("n", 1));
  outputs.commit(at_step(20), logs().add_output("y", array_of({2, 4})).add_output("n", array_of({1})));
  expect_error(ErrorCode::shape_mismatch, {"'y'", "(2, 3) at step 10", "(2, 4) at step 20"},
               [&] { outputs.concatenate("y"); });
  expect_error(ErrorCode::dtype_mismatch, {"'n'", "f64() at step 10", "f32(1,) at step 20"},
               [&] { outputs.concatenate("n"); });
}

TEST(Outputs, HistoryKeepsOnlyNumbers) {
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
