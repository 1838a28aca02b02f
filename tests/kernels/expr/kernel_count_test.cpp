// Tests how many kernels norms, losses and layers take, forward and backward, with the rules applied.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/runtime/program/graph.h>
#include <giro/runtime/program/program.h>

#include "kernels/rules/record.h"
#include "tests/kernels/nn/gradient_test.h"

namespace giro::nn {
namespace {

using test::Array;

class KernelCountTest : public GradientTest {
 protected:
  using Body = std::function<Var(const Vars& inputs)>;

  Vars parameters(const std::vector<Array>& inputs) {
    Vars vars;
    for (const Array& input : inputs) {
      const bool is_differentiated = is_floating(input.dtype);
      const Tensor value = upload(input);
      vars.push_back(is_differentiated ? Var::parameter(value, allocate(input.dtype, input.shape), stream())
                                       : Var(value, stream()));
    }
    return vars;
  }

  Program recorded(const std::function<void()>& body) { return rules::record(stream(), body).program(); }

  static std::size_t number_of(const Program& program, const std::string& op) {
    return static_cast<std::size_t>(std::count_if(program.nodes().begin(), program.nodes().end(),
                                                  [&](const Program::Node& node) { return node.op == op; }));
  }

  struct Kernels {
    std::size_t forward = 0, backward = 0;
    std::size_t stored = 0;  // arrays that the forward pass writes, except those of one number per row
    std::string text;
  };

  // Counts for a function that returns rows of 40, in a model where a dense layer follows.
  Kernels within_a_model(const std::vector<Array>& inputs, const Body& f) {
    const Vars vars = parameters(inputs);
    const Var w(upload(random_.uniform({40, 10})), stream()), b(upload(random_.uniform({10})), stream());
    const Var labels(upload(random_.integers({6}, 0, 9, DType::i32)), stream());
    const Program program = recorded([&] { backward(mean(softmax_cross_entropy(dense(f(vars), w, b), labels))); });
    Kernels kernels{.text = program.text()};
    EXPECT_EQ(number_of(program, "dense"), 1u) << kernels.text;
    EXPECT_EQ(number_of(program, "dense_backward"), 1u) << kernels.text;
    EXPECT_EQ(number_of(program, "copy"), 0u) << kernels.text;
    std::size_t* count = &kernels.forward;
    for (const Program::Node& node : program.nodes()) {
      if (node.op == "dense") {
        count = nullptr;
      } else if (node.op == "dense_backward") {
        count = &kernels.backward;
      } else if (count != nullptr) {
        ++*count;
        if (count != &kernels.forward) continue;
        kernels.stored += static_cast<std::size_t>(std::count_if(
            node.writes.begin(), node.writes.end(), [](const Tensor& value) { return value.count() == 6 * 40; }));
      }
    }
    return kernels;
  }

  // Counts for a loss, without gradients and with the gradients with respect to all inputs.
  Kernels of_a_loss(const std::vector<Array>& inputs, const Body& f) {
    const Vars vars = parameters(inputs);
    Var loss;
    Kernels kernels;
    const Program forward = recorded([&] { loss = stop_gradient(f(vars)); });
    const Program both = recorded([&] {
      const Var y = f(vars);
      backward(y);
      loss = stop_gradient(y);
    });
    EXPECT_EQ(number_of(both, "copy"), 0u) << both.text();
    kernels.forward = forward.nodes().size();
    kernels.backward = both.nodes().size() - kernels.forward;
    kernels.text = forward.text() + both.text();
    return kernels;
  }
};

INSTANTIATE_TEST_SUITE_P(Devices, KernelCountTest, test::kDevices, test::device_name);

// Reductions over all elements.
Var mean_of(const Var& x) { return mean(x, {0, 1}).reshape({}); }
Var sum_of(const Var& x) { return sum(x, {0, 1}).reshape({}); }

TEST_P(KernelCountTest, Norms) {
  const Array x = random_.uniform({6, 40}, -2, 2), scale = random_.uniform({40}), bias = random_.uniform({40});
  const Kernels softmax = within_a_model({x}, [](const Vars& in) {
    const Var e = exp(in[0] - max(in[0], {-1}));
    return e / sum(e, {-1});
  });
  EXPECT_EQ(softmax.forward, 1u) << softmax.text;
  EXPECT_EQ(softmax.stored, 1u) << softmax.text;
  EXPECT_EQ(softmax.backward, 1u) << softmax.text;

  const Kernels logsumexps = within_a_model({x}, [](const Vars& in) { return in[0] - logsumexp(in[0], {-1}); });
  EXPECT_EQ(logsumexps.forward, 1u) << logsumexps.text;
  EXPECT_EQ(logsumexps.stored, 1u) << logsumexps.text;
  EXPECT_EQ(logsumexps.backward, 1u) << logsumexps.text;

  const Kernels layer_norm = within_a_model({x, scale, bias}, [](const Vars& in) {
    const Var centered = in[0] - mean(in[0], {-1});
    return centered * rsqrt(mean(square(centered), {-1}) + 1e-5) * in[1] + in[2];
  });
  EXPECT_EQ(layer_norm.forward, 1u) << layer_norm.text;
  EXPECT_EQ(layer_norm.stored, 1u) << layer_norm.text;
  EXPECT_EQ(layer_norm.backward, 2u) << layer_norm.text << "of x, and over rows those of scale and bias";

  const Kernels rms_norm = within_a_model(
      {x, scale}, [](const Vars& in) { return in[0] * rsqrt(mean(square(in[0]), {-1}) + 1e-5) * in[1]; });
  EXPECT_EQ(rms_norm.forward, 1u) << rms_norm.text;
  EXPECT_EQ(rms_norm.stored, 1u) << rms_norm.text;
  EXPECT_EQ(rms_norm.backward, 2u) << rms_norm.text;
}

TEST_P(KernelCountTest, Losses) {
  const Array real = random_.uniform({6, 1}), fake = random_.uniform({6, 1});
  const Kernels gan =
      of_a_loss({real, fake}, [](const Vars& in) { return mean_of(softplus(-in[0])) + mean_of(softplus(in[1])); });
  EXPECT_EQ(gan.forward, 1u) << gan.text;
  EXPECT_LE(gan.backward, 1u) << gan.text;

  Array image = random_.uniform({6, 50}, 0, 1);
  const Array logits = random_.uniform({6, 50}), mu = random_.uniform({6, 7}), log_variance = random_.uniform({6, 7});
  const Var pixels(upload(image), stream());
  const Kernels vae = of_a_loss({logits, mu, log_variance}, [&](const Vars& in) {
    const Var likelihood = sum_of(softplus(in[0]) - pixels * in[0]);
    const Var divergence = sum_of(square(in[1]) + exp(in[2]) - in[2] - 1);
    return (likelihood + 0.5 * divergence) / 6;
  });
  // Pixels and latents have different numbers of elements, so each gets a kernel, which also computes the gradients.
  EXPECT_EQ(vae.forward, 2u) << vae.text;
  EXPECT_EQ(vae.backward, 0u) << vae.text;

  const Array y = random_.uniform({6, 5}, -2, 2), target = random_.uniform({6, 5}, -2, 2);
  const Var wanted(upload(target), stream());
  const Kernels huber = of_a_loss({y}, [&](const Vars& in) {
    const Var error = in[0] - wanted, size = abs(error);
    return mean_of(where(size <= 1, 0.5 * square(error), size - 0.5));
  });
  EXPECT_EQ(huber.forward, 1u) << huber.text;
  EXPECT_LE(huber.backward, 1u) << huber.text;
}

// The product for the cell's four gates comes before. One kernel stores the values for the next step and for the next
// layer.
TEST_P(KernelCountTest, LstmCellIsOneKernelPerPass) {
  Var kept;
  const Kernels cell =
      within_a_model({random_.uniform({6, 160}, -2, 2), random_.uniform({6, 40})}, [&](const Vars& in) {
        const Vars gates = split(in[0], 4, 1);
        const Var c = sigmoid(gates[1]) * in[1] + sigmoid(gates[0]) * tanh(gates[2]);
        kept = stop_gradient(c);
        return sigmoid(gates[3]) * tanh(c);
      });
  EXPECT_EQ(cell.forward, 1u) << cell.text;
  EXPECT_EQ(cell.stored, 2u) << cell.text;
  EXPECT_EQ(cell.backward, 1u) << cell.text;
}

TEST_P(KernelCountTest, ActivationBetweenProductsIsOneKernel) {
  const Array x = random_.uniform({6, 8}), w1 = random_.uniform({8, 16}), b1 = random_.uniform({16}),
              w2 = random_.uniform({16, 3}), b2 = random_.uniform({3});
  const Vars in = parameters({x, w1, b1, w2, b2});
  Var y;
  const Program program = recorded([&] { y = stop_gradient(dense(gelu(dense(in[0], in[1], in[2])), in[3], in[4])); });
  EXPECT_EQ(program.nodes().size(), 3u) << program.text();
  EXPECT_EQ(number_of(program, "dense"), 2u) << program.text();
}

TEST_P(KernelCountTest, FusionCrossesReshapes) {
  const Vars in = parameters({random_.uniform({4, 6, 40}), random_.uniform({40})});
  const auto norm = [](const Var& x) { return x * rsqrt(mean(square(x), {-1}) + 1e-5); };
  Var y;
  const Program program = recorded([&] {
    const Var rows = (in[0] * 2).reshape({24, 40});
    y = stop_gradient((norm(rows) * in[1]).reshape({4, 6, 40}) + in[0]);
  });
  EXPECT_EQ(program.nodes().size(), 1u) << program.text();
  const Program heads = recorded([&] { y = stop_gradient(norm((in[0] + in[1]).reshape({4, 6, 5, 8}))); });
  EXPECT_EQ(heads.nodes().size(), 1u) << heads.text();
}

// The sum's kernel would store it again for every row of x.
TEST_P(KernelCountTest, KeptColumnValueIsNotFusedIntoAFullSum) {
  const Vars in = parameters({random_.uniform({2, 33}), random_.uniform({33})});
  Var column, y;
  const Program kept = recorded([&] {
    column = stop_gradient(in[1] - 1);
    y = stop_gradient(sum(maximum(in[0], column), {0, 1}));
  });
  EXPECT_EQ(kept.nodes().size(), 2u) << kept.text();
  const Program dropped = recorded([&] { y = stop_gradient(sum(maximum(in[0], in[1] - 1), {0, 1})); });
  EXPECT_EQ(dropped.nodes().size(), 1u) << dropped.text();
}

TEST_P(KernelCountTest, SumsOverOneSpaceAreOneKernel) {
  const Vars in = parameters({random_.uniform({6, 40}), random_.uniform({6, 40})});
  Vars sums;
  const Program rows = recorded([&] {
    sums = {stop_gradient(sum(in[0], {-1})), stop_gradient(sum(square(in[0]), {-1})),
            stop_gradient(max(in[0] * in[1], {-1}))};
  });
  EXPECT_EQ(rows.nodes().size(), 1u) << rows.text();
  const Program columns = recorded([&] {
    sums = {stop_gradient(mean(in[0], {0})), stop_gradient(variance(in[0], {0}))};
  });
  EXPECT_EQ(columns.nodes().size(), 1u) << columns.text();
  const Program both = recorded([&] { sums = {stop_gradient(sum(in[0], {0})), stop_gradient(sum(in[0], {1}))}; });
  EXPECT_EQ(both.nodes().size(), 2u) << both.text();
}

}  // namespace
}  // namespace giro::nn
