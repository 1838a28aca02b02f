#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/runtime/graph.h>

#include "kernels/internal/rewrite/rewriter.h"
#include "tests/environment_setting.h"
#include "tests/kernels/nn/gradient_test.h"

namespace giro::nn {
namespace {

using test::Array;

class FusionTest : public GradientTest {
 protected:
  using Body = std::function<std::vector<Var>(const Vars& inputs)>;

  // What the body gives of parameters with these values, and the gradients of the sum of it: recorded, with the rules
  // of a setting. Fills in the names of the ops, without the sum and its gradient's beginning.
  std::vector<test::Bytes> run(const std::vector<Array>& inputs, const Body& body, const char* setting,
                               std::vector<std::string>* names = nullptr, bool with_gradients = true) {
    const test::RewriteSetting rewriting(setting);
    std::vector<Tensor> values, grads;
    for (const Array& input : inputs) {
      values.push_back(upload(input));
      grads.push_back(allocate(input.dtype, input.shape));
      stream().fill(grads.back().raw(), 0, grads.back().bytes());
    }
    std::vector<Var> kept;
    const Graph graph = Graph::record(
        stream(),
        [&] {
          Vars vars;
          for (std::size_t i = 0; i < inputs.size(); ++i) {
            const bool differs = with_gradients && is_floating(inputs[i].dtype);
            vars.push_back(differs ? Var::parameter(values[i], grads[i], stream()) : Var(values[i], stream()));
          }
          kept = body(vars);
          Var loss;
          for (const Var& y : kept) {
            if (!y.requires_grad()) continue;
            const Var part = cast(sum(y, Axes()), DType::f32);
            loss = loss.value() ? loss + part : part;
          }
          if (loss.value() && loss.requires_grad()) backward(loss);
          std::vector<Var> results;
          for (const Var& y : kept) results.push_back(stop_gradient(y));
          kept = results;
        },
        {.rewriter = &rewrite::rewriter()});
    if (names != nullptr) {
      for (const Program::Node& node : graph.program().nodes()) names->push_back(node.op);
    }
    graph.replay(stream());
    std::vector<test::Bytes> bytes;
    const auto read = [&](const Tensor& tensor) {
      bytes.emplace_back(tensor.bytes());
      stream().copy(bytes.back().data(), tensor.raw(), tensor.bytes());
    };
    for (const Var& y : kept) read(y.value());
    for (const Tensor& grad : grads) read(grad);
    stream().synchronize();
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      forget_payloads(i < kept.size() ? kept[i].dtype() : grads[i - kept.size()].dtype(), bytes[i]);
    }
    return bytes;
  }

  // Which of two NaN an operation hands on is the compiler's choice.
  static void forget_payloads(DType dtype, test::Bytes& bytes) {
    const std::vector<double> values = test::decode(dtype, bytes);
    for (std::size_t k = 0; k < values.size(); ++k) {
      if (std::isnan(values[k]))
        std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(k * size_of(dtype)), size_of(dtype),
                    static_cast<unsigned char>(0xFF));
    }
  }

  // How many ops there are, of an expression without gradients.
  std::vector<std::string> ops(const std::vector<Array>& inputs, const Body& body) {
    std::vector<std::string> names;
    const auto fused = run(inputs, body, "1", &names, false);
    if (device().is_cpu()) {
      EXPECT_TRUE(fused == run(inputs, body, "0", nullptr, false));
    }
    return names;
  }
};

TEST_P(FusionTest, NormsAndSoftmaxAreOneKernel) {
  const Array x = random_.uniform({6, 40}, -2, 2), scale = random_.uniform({40}), bias = random_.uniform({40});
  const auto count = [&](const std::vector<Array>& inputs, const std::function<Var(const Vars&)>& f) {
    return ops(inputs, [&](const Vars& in) { return std::vector{f(in)}; }).size();
  };
  EXPECT_EQ(count({x}, [](const Vars& in) { return in[0] * 2 + tanh(in[0]) - 1; }), 1u);
  EXPECT_EQ(count({x},
                  [](const Vars& in) {
                    const Var e = exp(in[0] - max(in[0], {-1}));
                    return e / sum(e, {-1});
                  }),
            1u);
  EXPECT_EQ(count({x}, [](const Vars& in) { return logsumexp(in[0], {-1}); }), 1u);
  EXPECT_EQ(count({x, scale, bias},
                  [](const Vars& in) {
                    const Var centered = in[0] - mean(in[0], {-1});
                    return centered * rsqrt(mean(square(centered), {-1}) + 1e-5) * in[1] + in[2];
                  }),
            1u);
  EXPECT_EQ(count({x, scale}, [](const Vars& in) { return in[0] * rsqrt(mean(square(in[0]), {-1}) + 1e-5) * in[1]; }),
            1u);
  EXPECT_EQ(count({x}, [](const Vars& in) { return transpose(in[0]) * 2; }), 1u);
  EXPECT_EQ(count({x, scale}, [](const Vars& in) { return sum(in[0] * in[1], {0}); }), 1u);
}

TEST_P(FusionTest, WhatDoesNotGoTogetherStaysApart) {
  const Array x = random_.uniform({6, 40}, -2, 2);
  const auto count = [&](const std::function<std::vector<Var>(const Vars&)>& f) { return ops({x}, f).size(); };
  EXPECT_EQ(count([](const Vars& in) { return std::vector{sum(sum(square(in[0]), {0}), {1})}; }), 2u)
      << "over one axis, and then over another";
  EXPECT_EQ(count([](const Vars& in) { return std::vector{in[0] - mean(in[0], {0}) - mean(in[0], {1})}; }), 2u)
      << "over an axis each";
  EXPECT_EQ(count([](const Vars& in) {
              const Var y = exp(in[0]);
              return std::vector{y, y + 1};
            }),
            1u)
      << "both are stored";
}

// Programs of up to 24 ops with views, parts, broadcasts, reductions, several dtypes, values that are used again, and
// gradients.
TEST_P(FusionTest, RandomExpressionsGiveTheSameBits) {
  const char* const wanted = std::getenv("GIRO_EXPRESSIONS");
  const unsigned programs = wanted != nullptr   ? static_cast<unsigned>(std::stoul(wanted))
                            : device().is_cpu() ? 300
                                                : 2;  // each takes many kernels
  std::size_t fused = 0, apart = 0;
  for (unsigned seed = 0; seed < programs; ++seed) {
    std::mt19937 random(seed);
    const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    const std::vector<Shape> shapes{{3, 5}, {5}, {3, 1}, {4, 3, 5}, {1}, {2, 33}, {33}};
    const std::size_t family = pick(2);
    std::vector<Array> inputs;
    for (std::size_t i = 0; i < 3; ++i) {
      Array input = random_.uniform(family == 0 ? shapes[pick(5)] : shapes[5 + pick(2)], 0.25, 2);
      input.dtype = pick(4) == 0 ? DType::bf16 : DType::f32;
      for (double& value : input.values) {
        constexpr double kSpecial[] = {0.0, -0.0, test::kInfinity, -test::kInfinity, test::kNaN, 1e-40};
        if (seed % 4 == 0 && pick(3) == 0) value = kSpecial[pick(6)];
        value = test::round_to(input.dtype, value);
      }
      inputs.push_back(std::move(input));
    }
    const unsigned body_seed = static_cast<unsigned>(random());
    const std::size_t length = 2 + pick(23);
    const Body body = [&](const Vars& in) {
      std::mt19937 choices(body_seed);
      const auto choose = [&](std::size_t n) { return static_cast<std::size_t>(choices() % n); };
      Vars values = in;
      const auto any = [&] { return values[values.size() - 1 - choose(std::min<std::size_t>(values.size(), 5))]; };
      for (std::size_t i = 0; i < length; ++i) {
        const Var a = any(), b = any();
        const int last = static_cast<int>(a.shape().rank()) - 1;
        const auto fits = [&] {
          for (std::size_t k = 1; k <= std::min(a.shape().rank(), b.shape().rank()); ++k) {
            const auto of_a = a.shape()[-static_cast<int>(k)], of_b = b.shape()[-static_cast<int>(k)];
            if (of_a != of_b && of_a != 1 && of_b != 1) return false;
          }
          return true;
        }();
        const auto part = [&](double begin, double end) {
          const auto size = static_cast<double>(a.shape()[last]);
          return slice(a, {.axis = last,
                           .begin = static_cast<std::int64_t>(begin * size),
                           .end = static_cast<std::int64_t>(std::ceil(end * size))});
        };
        switch (choose(18)) {
          case 0:
          case 1:
          case 2:
            values.push_back(fits ? a + b : a * 0.5);
            break;
          case 3:
          case 4:
            values.push_back(fits ? a * b : tanh(a));
            break;
          case 5:
            values.push_back(fits ? a / (abs(b) + 1) : sigmoid(a));
            break;
          case 6:
            values.push_back(tanh(a));
            break;
          case 7:
            values.push_back(fits ? where(a > b, a, b) : silu(a));
            break;
          case 8:
            values.push_back(last >= 0 ? mean(a, {static_cast<int>(choose(static_cast<std::size_t>(last) + 1))}) : -a);
            break;
          case 9:
            values.push_back(last >= 0 ? a - max(a, {last}) : square(a));
            break;
          case 10:
            values.push_back(last >= 0 ? flip(a, {last}) : a);
            break;
          case 11:
            values.push_back(a.shape().rank() == 2 ? transpose(transpose(a) * 0.75) : gelu(a));
            break;
          case 12:
            values.push_back(cast(a, choose(2) == 0 ? DType::bf16 : DType::f32));
            break;
          case 13:  // halves in turns or one after the other, put together again
            if (last < 0 || a.shape()[last] % 2 != 0) {
              values.push_back(last >= 0 ? concatenate({tanh(a), a}, last) : a);
            } else if (choose(2) == 0) {
              const std::vector<Var> half = split(a, 2, last);
              values.push_back(concatenate({half[1] * 0.5, tanh(half[0])}, last));
            } else {
              values.push_back(slice(a, {.axis = last, .step = 2}) - slice(a, {.axis = last, .begin = 1, .step = 2}));
            }
            break;
          case 14:
            values.push_back(last >= 0 ? part(0.25, 1) : exp(a));
            break;
          case 15: {
            if (last < 0) break;
            const std::int64_t before = static_cast<std::int64_t>(choose(3)),
                               after = static_cast<std::int64_t>(choose(3));
            values.push_back(
                pad(a, {.axis = last, .before = before, .after = after, .value = choose(2) == 0 ? 0.0 : 0.5}));
            break;
          }
          case 16:
            values.push_back(last >= 0 ? concatenate({a * 2, part(0, 0.5), part(0.5, 1)}, last) : a);
            break;
          default:
            values.push_back(
                last >= 0
                    ? sum(a, Axes{last}.dropped()).reshape(a.shape().rank() == 1 ? Shape{1} : sum(a, {last}).shape())
                    : a);
        }
      }
      Vars results{values.back()};
      if (choose(2) == 0) results.push_back(any());
      return results;
    };
    std::vector<std::string> with, without;
    const auto one = run(inputs, body, "1", &with), other = run(inputs, body, "0", &without);
    ASSERT_TRUE(one == other) << "seed " << seed;
    fused += with.size();
    apart += without.size();
  }
  if (programs >= 100) {
    EXPECT_LT(2 * fused, apart) << "few are spliced";
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, FusionTest, test::kDevices, test::device_name);

}  // namespace
}  // namespace giro::nn
