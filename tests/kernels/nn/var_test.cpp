#include <giro/kernels/nn/var.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <giro/kernels/nn/call.h>
#include <giro/kernels/nn/functional.h>
#include <giro/runtime/program/graph.h>

#include "runtime/arena.h"
#include "runtime/backend.h"
#include "tests/kernels/op_test.h"
#include "tests/support/environment_setting.h"
#include "tests/support/tensor_ops.h"

namespace giro::nn {
namespace {

class VarTest : public test::OpTest {
 protected:
  // A parameter of ones. Its gradient is NaN until it is written.
  Var parameter(const Shape& shape, DType dtype = DType::f32) {
    const Tensor value = tensor(shape, dtype), grad = tensor(shape, dtype);
    if (dtype == DType::f32) {
      from_host(value, std::vector<float>(static_cast<std::size_t>(shape.count()), 1.0f), stream());
    }
    stream().fill(grad.raw(), 0xFF, grad.bytes());
    grads_.push_back(grad);
    return Var::parameter(value, grad, stream());
  }
  std::vector<float> grad(std::size_t i) const { return to_host<float>(grads_.at(i), stream()); }

 private:
  std::vector<Tensor> grads_;
};

TEST_P(VarTest, CopiesReferToTheSameValue) {
  const Var x = parameter({3});
  const Var copy = x;
  backward(sum(copy));
  EXPECT_TRUE(x.has_grad());
  EXPECT_EQ(grad(0), (std::vector<float>{1, 1, 1}));
}

// A gradient is reported as soon as it is complete, even if its parameter is used several times.
TEST_P(VarTest, NotifiesOnceEachGradientIsComplete) {
  const Var first = parameter({3}), second = parameter({3}), twice = parameter({3});
  const Var y = multiply(multiply(multiply(first, twice), second), twice);
  std::vector<std::pair<std::size_t, std::vector<float>>> told;
  backward(sum(y),
           {.seed = 0.5, .on_gradient = [&](const Var& parameter) {
              const std::vector<const void*> params{first.value().raw(), second.value().raw(), twice.value().raw()};
              const auto which = std::ranges::find(params, parameter.value().raw()) - params.begin();
              told.emplace_back(which, grad(static_cast<std::size_t>(which)));
            }});
  using Whole = std::vector<float>;
  const Whole half(3, 0.5f), one(3, 1.0f);
  ASSERT_EQ(told.size(), 3u);
  EXPECT_EQ(told[0], std::pair(std::size_t{1}, half));
  std::ranges::sort(told);
  EXPECT_EQ(told[0].second, half);
  EXPECT_EQ(told[2].second, one);
}

// 16-bit terms from an op are converted before they are added. Otherwise a term of 2^-9 would be lost when added to 1.
TEST_P(VarTest, GradientsOfSixteenBitParametersAreF32) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Tensor value = tensor({2, 2}, dtype), gradient = tensor({2, 2});
    fill(value, 1, stream());
    stream().fill(gradient.raw(), 0xFF, gradient.bytes());
    const Var p = Var::parameter(value, gradient, stream());
    const float small = 0x1p-12f;
    const auto expect = [&](const Var& loss, float each) {
      EXPECT_EQ(loss.dtype(), DType::f32);
      backward(loss);
      EXPECT_EQ(to_host<float>(gradient, stream()), std::vector<float>(4, each));
    };
    EXPECT_EQ(scale(p, 2).dtype(), dtype);
    expect(sum(p * p * 1.0), 2);
    const Var again = Var::parameter(value, gradient, stream());
    expect(add(sum(again), sum(scale(again.reshape({4}), small))), 1 + small);
    const Var wide = Var::parameter(value, gradient, stream()), ones(tensor({2, 2}), stream());
    fill(ones.value(), 1, stream());
    expect(sum(wide * scale(ones, 1 + small)), 1 + small);  // f32, because one factor is
    const Var called = Var::parameter(value, gradient, stream());
    const Var same = call("same", {.dtype = dtype, .shape = {2, 2}}, {called},
                          {.cuda = [](auto&, auto&, auto*) {},
                           .cpu = [](auto&, auto&) {},
                           .vjp = [](auto&, auto& dy, auto&) { return dy; }});
    fill(same.value(), 1, stream());
    expect(add(sum(called), sum(scale(same, small))), 1 + small);
  }
}

TEST_P(VarTest, Tf32PropagatesFromInputs) {
  const Var marked = parameter({2}), plain = parameter({2});
  marked.set_math_mode(MathMode::tf32);
  EXPECT_EQ((marked * 2).reshape({1, 2}).math(), MathMode::tf32);
  EXPECT_EQ((plain + marked).math(), MathMode::tf32);
  EXPECT_EQ((plain * plain).math(), MathMode::f32);
}

TEST_P(VarTest, ConstantsRequireNoGradient) {
  const Tensor ones = parameter({2}).value();
  const Var loose(ones), placed(ones, stream());
  EXPECT_FALSE(loose.has_stream());
  EXPECT_TRUE(placed.has_stream());
  EXPECT_FALSE(add(loose, placed).requires_grad());
  EXPECT_TRUE(add(loose, parameter({2})).requires_grad());
  EXPECT_EQ(add(loose, placed).stream(), stream());
}

TEST_P(VarTest, ReshapeSharesMemory) {
  const Var x = parameter({6});
  const Var y = relu(x), z = y.reshape({2, 3});
  EXPECT_EQ(y.value().raw(), z.value().raw());
  expect_error(ErrorCode::shape_mismatch, {"(6,)", "(2, 4)"}, [&] { y.reshape({2, 4}); });
}

TEST_P(VarTest, ReshapeKeepsTheMemoryAlive) {
  Var kept;
  {
    const Var y = scale(Var(parameter({6}).value(), stream()), 3.0);
    kept = y.reshape({2, 3});
  }
  const Buffer other = stream().allocate(6 * sizeof(float));
  stream().fill(other.data(), 0, other.size());
  EXPECT_EQ(to_host<float>(kept.value(), stream()), std::vector<float>(6, 3.0f));
}

// x^3 has the derivatives 3 x^2, 6 x and 6. The square of the first is differentiated as a loss.
TEST_P(VarTest, GradientCanBeDifferentiatedAgain) {
  const Var x = parameter({2});
  from_host(x.value(), std::vector<float>{2, -3}, stream());
  const auto sum_of_gradient = [&](const Var& y) { return sum(gradients(y, {x}).front()); };
  const Var y = sum(multiply(x, square(x)));
  const Var first = gradients(y, {x}).front();
  EXPECT_EQ(to_host<float>(first.value(), stream()), (std::vector<float>{12, 27}));
  const Var third = gradients(sum_of_gradient(sum_of_gradient(y)), {x}).front();
  EXPECT_EQ(to_host<float>(third.value(), stream()), (std::vector<float>{6, 6}));
  backward(sum(square(first)));
  EXPECT_EQ(grad(0), (std::vector<float>{2 * 12 * 12, 2 * 27 * -18}));
  expect_error(ErrorCode::invalid_argument, {"already differentiated"}, [&] { (void)gradients(y, {x}); });
}

TEST_P(VarTest, ReturnsGradientsOfIntermediateValues) {
  const Var x = parameter({3}), other = parameter({2});
  const Var inner = scale(x, 4), y = sum(multiply(inner, inner));
  const std::vector<Var> found = gradients(y, {inner, other});
  EXPECT_EQ(to_host<float>(found[0].value(), stream()), std::vector<float>(3, 8.0f));
  EXPECT_EQ(to_host<float>(found[1].value(), stream()), std::vector<float>(2, 0.0f));
  EXPECT_FALSE(x.has_grad());
  expect_error(ErrorCode::invalid_argument, {"value 1 of 2", "requires no gradient"}, [&] {
    (void)gradients(y, {x, stop_gradient(x)});
  });
}

TEST_P(VarTest, GradientsOfDependentValues) {
  const Var x = parameter({2});
  from_host(x.value(), std::vector<float>{1, 2}, stream());
  const Var h = 3 * x, y = sum(square(h) + x);
  const std::vector<Var> found = gradients(y, {x, h, y});
  EXPECT_EQ(to_host<float>(found[0].value(), stream()), (std::vector<float>{19, 37}));
  EXPECT_EQ(to_host<float>(found[1].value(), stream()), (std::vector<float>{6, 12}));
  EXPECT_EQ(to_host<float>(found[2].value(), stream()), std::vector<float>{1});
  backward(y);
  expect_error(ErrorCode::invalid_argument, {"already differentiated"}, [&] { (void)gradients(y, {x}); });
}

TEST_P(VarTest, ResultsOfGradientFunctionsAreChecked) {
  const Var x = parameter({3}), y = parameter({2});
  const auto with = [&](const Gradient& gradient) {
    return [&, gradient] {
      const Var z = Var::computed(DType::f32, {3}, {x, y}, gradient);
      fill(z.value(), 1, stream());
      backward(sum(z));
    };
  };
  expect_error(ErrorCode::invalid_argument, {"1 terms", "2 inputs"},
               with([](const Var&, const Var& dy, const std::vector<Var>&) { return dy; }));
  expect_error(ErrorCode::shape_mismatch, {"(3,)", "input 1", "(2,)"},
               with([](const Var&, const Var& dy, const std::vector<Var>&) {
                 return Gradients{dy, dy};
               }));
}

TEST_P(VarTest, MissingSecondDerivativeIsReported) {
  const Var x = parameter({1, 2, 2, 1});
  expect_error(ErrorCode::unsupported, {"max_pool", "cannot be differentiated again"},
               [&] { backward(sum(square(gradients(sum(max_pool(x, {})), {x}).front()))); });
}

TEST_P(VarTest, UnusedParametersAreNotWritten) {
  const Var used = parameter({2}), unused = parameter({2});
  backward(sum(used));
  EXPECT_TRUE(used.has_grad());
  EXPECT_FALSE(unused.has_grad());
  EXPECT_NE(grad(1)[0], grad(1)[0]);
}

TEST_P(VarTest, BackwardErrors) {
  const Var x = parameter({3});
  expect_error(ErrorCode::shape_mismatch, {"loss", "(3,)", "scalar"}, [&] { backward(relu(x)); });
  expect_error(ErrorCode::shape_mismatch, {"loss", "(1,)", "scalar"}, [&] { backward(sum(x).reshape({1})); });
  expect_error(ErrorCode::dtype_mismatch, {"loss", "f64", "f32"}, [&] { backward(parameter({}, DType::f64)); });
  expect_error(ErrorCode::invalid_argument, {"no parameter"}, [&] { backward(sum(Var(x.value(), stream()))); });
  expect_error(ErrorCode::invalid_argument, {"no parameter"}, [&] { backward(Var(tensor({}), stream())); });
}

TEST_P(VarTest, ComputationIsDifferentiatedOnce) {
  const Var x = parameter({3});
  const Var hidden = tanh(x), loss = sum(hidden);
  backward(loss);
  const std::vector<float> first = grad(0);
  expect_error(ErrorCode::invalid_argument, {"already differentiated"}, [&] { backward(loss); });
  expect_error(ErrorCode::invalid_argument, {"already differentiated"}, [&] { backward(mean(hidden)); });
  EXPECT_EQ(grad(0), first);
}

TEST_P(VarTest, ParameterCanBeTheLoss) {
  backward(parameter({}));
  EXPECT_EQ(grad(0), std::vector{1.0f});
}

TEST_P(VarTest, ValuesOfTwoStreamsCannotBeMixed) {
  const Stream other(device());
  const Var here(tensor({2}), stream()), there(tensor({2}), other);
  expect_error(ErrorCode::invalid_argument, {"two streams"}, [&] { add(here, there); });
  expect_error(ErrorCode::invalid_argument, {"stream"}, [&] { Var(tensor({2})).stream(); });
}

// The host would read values that are not computed yet, or stale ones from the time of recording.
TEST_P(VarTest, HostCannotReadValuesWhileRecording) {
  const Tensor memory = parameter({4}).value();
  std::optional<Var> kept;
  const auto body = [&] {
    const Var x(memory, stream()), y = scale(x, 3.0);
    for (const Var& value : {x, y, y.reshape({2, 2}), Var(y.value().rows(1, 2), stream())}) {
      if (device().is_cpu()) {
        const auto refused = {std::string("recorded"), std::string("nn::call"), std::string("submit")};
        test::expect_error(ErrorCode::invalid_argument, refused, [&] { value.data<float>(); });
        test::expect_error(ErrorCode::invalid_argument, refused, [&] { value.value().data<float>(); });
        test::expect_error(ErrorCode::invalid_argument, refused,
                           [&] { value.value().reshape({value.shape().count()}).data<float>(); });
      } else {
        EXPECT_EQ(value.value().data<float>(), value.value().raw()) << "a kernel's argument";
      }
    }
    // Raw ops accept such tensors, and the host may read its own memory.
    giro::add(y.value(), y.value(), y.value(), stream());
    const float own = 7;
    EXPECT_EQ(*Tensor(const_cast<float*>(&own), DType::f32, {}, Device::cpu()).data<float>(), 7);
    kept = y;
  };
  const Graph graph = Graph::record(stream(), body);
  graph.replay(stream());
  EXPECT_EQ(to_host<float>(kept->value(), stream()), std::vector<float>(4, 6.0f));
  if (device().is_cpu()) {
    EXPECT_EQ(*kept->data<float>(), 6.0f);
  } else {
    test::expect_error(ErrorCode::device_mismatch, {"cuda:0", "to_host"}, [&] { kept->data<float>(); });
  }
}

TEST_P(VarTest, DeepGraphsAreDifferentiated) {
  Var y = parameter({1});
  const int depth = device().is_cuda() ? 500 : 5'000;  // an emulated GPU takes long, and the graph is the host's
  for (int i = 0; i < depth; ++i) y = scale(y, i % 2 == 0 ? 2.0 : 0.5);
  backward(sum(y));
  EXPECT_EQ(grad(0), std::vector{1.0f});
}

// This is how loss scaling for f16 works, with a factor on the device.
TEST_P(VarTest, BackwardSeedMayBeScaled) {
  const Tensor scale = tensor({}), x = tensor({3}), dx = tensor({3});
  from_host<float>(scale, {8}, stream());
  from_host<float>(x, {1, 2, 3}, stream());
  backward(sum(Var::parameter(x, dx, stream())), {.seed = 0.5, .scale = scale});
  EXPECT_EQ(to_host<float>(dx, stream()), (std::vector<float>{4, 4, 4}));
}

// A chain of `length` activations, with the backward pass if asked for.
void run_chain(const Var& x, int length, bool differentiate) {
  Var y = x;
  for (int i = 0; i < length; ++i) y = relu(y);
  if (differentiate) backward(sum(y));
}

TEST_P(VarTest, TemporariesAreReused) {
  const test::ArenaSetting on("1");
  constexpr std::size_t kBytes = 1u << 20;
  constexpr int kLength = 40;
  const Shape shape{static_cast<std::int64_t>(kBytes / sizeof(float))};
  const Buffer value = Buffer::allocate(device(), kBytes), gradient = Buffer::allocate(device(), kBytes);
  stream().fill(value.data(), 0, kBytes);
  const Tensor x(value.data(), DType::f32, shape, device()), dx(gradient.data(), DType::f32, shape, device());

  const Graph forward = Graph::record(stream(), [&] { run_chain(Var(x, stream()), kLength, false); });
  EXPECT_LE(forward.arena_bytes(), 4 * kBytes);
  // The backward pass needs all the values, but only a few gradients at a time.
  const Graph both = Graph::record(stream(), [&] { run_chain(Var::parameter(x, dx, stream()), kLength, true); });
  EXPECT_GE(both.arena_bytes(), kLength * kBytes);
  EXPECT_LE(both.arena_bytes(), (kLength + kLength / 2 + 4) * kBytes);
}

TEST_P(VarTest, MemoryDoesNotGrow) {
  const test::ArenaSetting on("1");
  const Stream own(device());
  constexpr std::int64_t kElements = 20'000;  // 30 blocks of them are more than the arena takes at once
  const Tensor x = tensor({kElements}), dx = tensor({kElements});
  fill(x, 1, stream());
  stream().synchronize();
  const auto run = [&] {
    run_chain(Var::parameter(x, dx, own), 20, true);
    return own.impl().arena->reserved_bytes();
  };
  const std::size_t reserved = run();
  EXPECT_GT(reserved, 0u);
  for (int i = 0; i < 30; ++i) run();
  EXPECT_EQ(run(), reserved);
}

INSTANTIATE_TEST_SUITE_P(Devices, VarTest, test::kDevices, test::device_name);

}  // namespace
}  // namespace giro::nn
