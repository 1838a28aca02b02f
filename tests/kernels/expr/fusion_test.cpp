#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/runtime/program/graph.h>
#include <giro/runtime/program/program.h>

#include "kernels/rules/record.h"
#include "tests/kernels/expr/random_program.h"
#include "tests/kernels/nn/gradient_test.h"
#include "tests/support/environment_setting.h"
#include "tests/support/sanitized.h"

namespace giro::nn {
namespace {

using test::Array;

class FusionTest : public GradientTest {
 protected:
  using Body = std::function<std::vector<Var>(const Vars& inputs)>;

  // Records the body with parameters of these values under a setting of the rules. Returns the body's results and
  // gradients, and fills in the names of the ops.
  std::vector<test::Bytes> run(const std::vector<Array>& inputs, const Body& body, const char* setting,
                               std::vector<std::string>* names = nullptr) {
    const test::RewriteSetting rewriting(setting);
    std::vector<Buffer> storage;  // freed after this run, because there are thousands of runs
    const auto copied = [&](const Array& array, const test::Bytes& bytes) {
      storage.push_back(stream().allocate(bytes.size()));
      stream().copy(storage.back().data(), bytes.data(), bytes.size());
      return Tensor(storage.back().data(), array.dtype, array.shape, device());
    };
    std::vector<Tensor> values, grads;
    for (const Array& input : inputs) {
      const test::Bytes bytes = test::encode(input);
      values.push_back(copied(input, bytes));
      grads.push_back(copied(input, test::Bytes(bytes.size())));
    }
    std::vector<Var> kept;
    const Graph graph = rules::record(stream(), [&] {
      Vars vars;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        vars.push_back(Var::parameter(values[i], grads[i], stream()));
      }
      kept = body(vars);
    });
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

  // The compiler chooses which of two NaNs an operation passes on.
  static void forget_payloads(DType dtype, test::Bytes& bytes) {
    const std::vector<double> values = test::decode(dtype, bytes);
    for (std::size_t k = 0; k < values.size(); ++k) {
      if (std::isnan(values[k]))
        std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(k * size_of(dtype)), size_of(dtype),
                    static_cast<unsigned char>(0xFF));
    }
  }

  // The names of the ops of an expression without gradients.
  std::vector<std::string> ops(const std::vector<Array>& inputs, const Body& body) {
    std::vector<std::string> names;
    const Body without_gradients = [&](const Vars& in) {
      Vars results = body(in);
      for (Var& result : results) result = stop_gradient(result);
      return results;
    };
    const auto fused = run(inputs, without_gradients, "1", &names);
    if (device().is_cpu()) {
      EXPECT_TRUE(fused == run(inputs, without_gradients, "0"));
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

TEST_P(FusionTest, IncompatibleExpressionsAreNotFused) {
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

// A product with 1 is kept if it could flush its operand to zero.
TEST_P(FusionTest, SubnormalNumbersGiveTheSameBits) {
  const Array x{DType::f32, {6}, {1e-40, -1e-40, 1e-30, 1, 0, -0.0}};
  const Body body = [](const Vars& in) {
    const Var same = in[0] * 1.0f, tiny = Var(in[0] * 1e-20f) * 1e-20f;
    std::vector results{maximum(same, 0.0f), same * 1e30f, abs(same) + tiny, argmax(in[0]).reshape({1})};
    for (Var& result : results) result = stop_gradient(result);
    return results;
  };
  EXPECT_TRUE(run({x}, body, "1") == run({x}, body, "0"));
}

// One value per row, in f32, in 16 bits, and padded: present only for some rows.
TEST_P(FusionTest, SumsOverRowsOfValuesSharedByColumns) {
  const Array x = random_.uniform({70, 48}, -2, 2), row = random_.uniform({70, 1}, 1, 2),
              half = random_.uniform({70, 1}, 1, 2, DType::bf16), part = random_.uniform({66, 1}, 1, 2);
  const Body body = [](const Vars& in) {
    const Var scale = rsqrt(square(in[1]) + 0.5f) * in[2] + pad(in[3], {.axis = 0, .before = 1, .after = 3});
    std::vector results{sum(in[0] * scale, {0}), sum(where(scale > 1, in[0], 0), {0}), sum(in[0] * in[0] / scale, {0})};
    for (Var& result : results) result = stop_gradient(result);
    return results;
  };
  EXPECT_TRUE(run({x, row, half, part}, body, "1") == run({x, row, half, part}, body, "0"));
}

// With so many elements, threads or blocks share a row, and also write its elements.
TEST_P(FusionTest, LossAndGradientOfManyElements) {
  const Array y = random_.uniform({300, 200}, -2, 2);
  const Body body = [](const Vars& in) {
    const Var error = in[0] - 0.25, size = abs(error);
    const Var loss = mean(where(size <= 1, 0.5 * square(error), size - 0.5), {0, 1}).reshape({});
    backward(loss);
    return std::vector{stop_gradient(loss)};
  };
  std::vector<std::string> names;
  EXPECT_EQ(run({y}, body, "1", &names), run({y}, body, "0"));
  EXPECT_EQ(names.size(), 1u);
}

// The inputs include infinities, NaN and subnormal numbers.
TEST_P(FusionTest, RandomExpressionsGiveTheSameBits) {
  const char* const wanted = std::getenv("GIRO_EXPRESSIONS");
  const unsigned programs = wanted != nullptr   ? static_cast<unsigned>(std::stoul(wanted))
                            : device().is_cpu() ? test::cases(300)
                                                : 2;  // each takes many kernels
  std::size_t fused = 0, apart = 0;
  for (unsigned seed = 0; seed < programs; ++seed) {
    const test::RandomProgram program(seed, true, device().is_cpu() ? 60 : 20);
    std::string ops;
    const Body body = [&](const Vars& in) {
      test::RandomProgram::Computed computed = program.with_gradients(in);
      ops = fmt::format("{}", fmt::join(computed.values.ops, "\n"));
      Vars kept = computed.results;
      kept.insert(kept.end(), computed.first_gradients.begin(), computed.first_gradients.end());
      return kept;
    };
    std::vector<std::string> with, without;
    const auto one = run(program.inputs, body, "1", &with), other = run(program.inputs, body, "0", &without);
    for (std::size_t i = 0; i < one.size(); ++i) {
      ASSERT_EQ(one[i], other[i]) << "array " << i << " of seed " << seed << "\n" << ops;
    }
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
