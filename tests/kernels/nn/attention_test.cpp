#include <giro/kernels/nn/attention.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/runtime/program/graph.h>

#include "kernels/cpu/team.h"
#include "kernels/expr/instruction_sets.h"
#include "tests/kernels/nn/gradient_test.h"

namespace giro::nn {
namespace {

using test::Array, test::Expected;

class AttentionTest : public GradientTest {
 protected:
  struct Problem {
    std::int64_t b, t, s, h, k, d;
    DType dtype = DType::f32;
    bool is_causal = false;
    std::optional<double> scale = {};
    Array mask = {DType::boolean, {}, {}};     // no mask if empty
    Array key_lengths = {DType::i32, {}, {}};  // none if empty
    double dropout = 0;
    std::int64_t dropout_key = 0, first_row = 0;
    Array query = {}, key = {}, value = {}, dout = {};

    Shape queries() const { return {b, t, h, d}; }
    Shape keys() const { return {b, s, k, d}; }
    std::string name() const {
      return fmt::format("{} B {} T {} S {} H {} K {} D {}{}{}{}{}", name_of(dtype), b, t, s, h, k, d,
                         is_causal ? " causal" : "", mask.values.empty() ? "" : " mask " + to_string(mask.shape),
                         key_lengths.values.empty() ? "" : " lengths", dropout > 0 ? " dropout" : "");
    }
  };
  // out, and the gradients with respect to query, key and value.
  using Results = std::vector<Doubles>;

  Problem filled(Problem p) {
    p.query = random_.uniform(p.queries(), -2, 2, p.dtype);
    p.key = random_.uniform(p.keys(), -2, 2, p.dtype);
    p.value = random_.uniform(p.keys(), -1, 1, p.dtype);
    p.dout = random_.uniform(p.queries(), -1, 1, p.dtype);
    return p;
  }
  Array random_mask(const Shape& shape) { return random_.integers(shape, 0, 1, DType::boolean); }

  AttentionOptions options_of(const Problem& p) {
    AttentionOptions options{.is_causal = p.is_causal, .scale = p.scale, .dropout = p.dropout, .key = p.dropout_key};
    options.key.first_row = p.first_row;
    if (!p.mask.values.empty()) options.mask = Var(upload(p.mask));
    if (!p.key_lengths.values.empty()) options.key_lengths = Var(upload(p.key_lengths));
    return options;
  }

  Results run(const Problem& p) {
    Vars vars;
    Tensors grads;
    for (const Array* each : {&p.query, &p.key, &p.value}) {
      grads.push_back(allocate(p.dtype, each->shape));
      stream().fill(grads.back().raw(), 0xFF, grads.back().bytes());
      vars.push_back(Var::parameter(upload(*each), grads.back(), stream()));
    }
    const Var out = dot_product_attention(vars[0], vars[1], vars[2], options_of(p));
    EXPECT_EQ(out.shape(), p.queries());
    EXPECT_EQ(out.dtype(), p.dtype);
    backward(sum(multiply(cast(out, DType::f32), cast(Var(upload(p.dout), stream()), DType::f32))));
    Results results{read(out)};
    for (const Tensor& grad : grads) results.push_back(read(Var(grad, stream())));
    return results;
  }

  // Plain loops in double. Each tolerance is a first-order bound on the effect of roundings.
  static std::vector<Expected> reference(const Problem& p, const Doubles& kept) {
    const auto row_of = [](const Array& x, std::int64_t b, std::int64_t row, std::int64_t head) {
      return x.values.data() + ((b * x.shape[1] + row) * x.shape[2] + head) * x.shape[3];
    };
    const auto n = static_cast<std::size_t>(p.queries().count()), m = static_cast<std::size_t>(p.keys().count());
    std::vector<Expected> results{
        {Doubles(n), Doubles(n)}, {Doubles(n), Doubles(n)}, {Doubles(m), Doubles(m)}, {Doubles(m), Doubles(m)}};
    // Adds `factor` times a row to a row of a result, with an error of `error` times the row's magnitudes.
    const auto add = [&](std::size_t i, std::int64_t b, std::int64_t row, std::int64_t head, double factor,
                         const double* values, double error) {
      const Shape shape = i < 2 ? p.queries() : p.keys();
      const auto place = static_cast<std::size_t>(((b * shape[1] + row) * shape[2] + head) * shape[3]);
      double *const sums = &results[i].values[place], *const tolerances = &results[i].tolerances[place];
      for (std::int64_t d = 0; d < p.d; ++d) {
        sums[d] += factor * values[d];
        tolerances[d] += error * std::abs(values[d]);
      }
    };
    const double scale = p.scale.value_or(1 / std::sqrt(static_cast<double>(p.d)));
    const double unit = test::kUnit, out_unit = p.dtype == DType::f32 ? unit : test::unit_roundoff(p.dtype);
    const auto mask_at = [&](std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t s) {
      if (p.mask.values.empty()) return true;
      std::int64_t place = 0;
      const std::int64_t index[] = {b, h, t, s};
      const std::size_t rank = p.mask.shape.rank();
      for (std::size_t i = 0; i < rank; ++i) {
        const std::int64_t size = p.mask.shape.begin()[i];
        place = place * size + (size == 1 ? 0 : index[4 - rank + i]);
      }
      return p.mask.values[static_cast<std::size_t>(place)] != 0;
    };
    for (std::int64_t b = 0; b < p.b; ++b) {
      const auto length = p.key_lengths.values.empty()
                              ? p.s
                              : std::clamp(static_cast<std::int64_t>(p.key_lengths.values[static_cast<std::size_t>(b)]),
                                           std::int64_t{0}, p.s);
      for (std::int64_t h = 0; h < p.h; ++h) {
        const std::int64_t head = h / (p.h / p.k);
        for (std::int64_t t = 0; t < p.t; ++t) {
          std::vector<std::int64_t> attended;
          for (std::int64_t s = 0; s < length; ++s) {
            if ((!p.is_causal || s <= t + length - p.t) && mask_at(b, h, t, s)) attended.push_back(s);
          }
          // The scores with their absolute errors: from the sum of products, and below from the exponent's argument.
          Doubles weights, errors;
          double largest = -test::kInfinity, total = 0;
          for (const std::int64_t s : attended) {
            double score = 0, magnitude = 0;
            const double *const query = row_of(p.query, b, t, h), *const key = row_of(p.key, b, s, head);
            for (std::int64_t d = 0; d < p.d; ++d) {
              const double term = query[d] * key[d];
              score += term;
              magnitude += std::abs(term);
            }
            weights.push_back(scale * score);
            errors.push_back(test::sum_tolerance(p.d, scale * magnitude));
            largest = std::max(largest, scale * score);
          }
          double error = 0;
          for (std::size_t i = 0; i < weights.size(); ++i) {
            errors[i] += 4 * unit * (std::abs(weights[i]) + std::abs(largest));
            weights[i] = std::exp(weights[i] - largest);
            total += weights[i];
            error += weights[i] * errors[i];
          }
          // Relative errors of the weights: from their own scores, and from the sum.
          const auto count = static_cast<std::int64_t>(attended.size());
          for (std::size_t i = 0; i < weights.size(); ++i) {
            weights[i] /= total;
            errors[i] += error / total + test::sum_tolerance(count, 1);
          }
          Doubles dweights(weights.size()), magnitudes(weights.size()), factors(weights.size());
          double delta = 0, delta_magnitude = 0;
          for (std::size_t i = 0; i < attended.size(); ++i) {
            const std::int64_t s = attended[i];
            factors[i] = kept.empty() ? 1 : kept[static_cast<std::size_t>(((b * p.h + h) * p.t + t) * p.s + s)];
            const double *const value = row_of(p.value, b, s, head), *const dout = row_of(p.dout, b, t, h);
            const double factor = factors[i], weight = weights[i] * factor;
            add(0, b, t, h, weight, value, (errors[i] + test::sum_tolerance(count, 1)) * weight);
            double dweight = 0, magnitude = 0;
            for (std::int64_t d = 0; d < p.d; ++d) {
              const double product = dout[d] * value[d] * factor;
              dweight += product;
              magnitude += std::abs(product);
            }
            dweights[i] = dweight;
            magnitudes[i] = magnitude;
            delta += weights[i] * dweights[i];
            delta_magnitude += weights[i] * magnitudes[i];
          }
          double delta_error = 0;
          for (std::size_t i = 0; i < attended.size(); ++i) {
            delta_error += weights[i] * magnitudes[i] * (errors[i] + out_unit + test::sum_tolerance(p.d + count, 1));
          }
          for (std::size_t i = 0; i < attended.size(); ++i) {
            const std::int64_t s = attended[i];
            const double slope = weights[i] * (dweights[i] - delta);
            const double slope_error =
                weights[i] * (errors[i] * (std::abs(dweights[i]) + std::abs(delta)) +
                              test::sum_tolerance(p.d, magnitudes[i]) + delta_error + 4 * unit * delta_magnitude);
            const double scaled = scale * slope;
            add(1, b, t, h, scaled, row_of(p.key, b, s, head),
                scale * (slope_error + test::sum_tolerance(count, std::abs(slope))));
            add(2, b, s, head, scaled, row_of(p.query, b, t, h),
                scale * (slope_error + test::sum_tolerance(p.t * p.h, std::abs(slope))));
            const double weight = weights[i] * factors[i];
            add(3, b, s, head, weight, row_of(p.dout, b, t, h),
                (errors[i] + test::sum_tolerance(p.t * p.h, 1)) * weight);
          }
        }
      }
    }
    for (Expected& each : results) each = each.stored_as(p.dtype);
    return results;
  }

  // Dropout's factor for each weight, from what random_bernoulli draws for the whole batch.
  Doubles kept(const Problem& p) {
    if (p.dropout == 0) return {};
    const Var key = constant(HostArray(std::vector<std::int64_t>{p.dropout_key}, Shape{}), stream());
    const Shape shape{p.b + p.first_row, p.h, p.t, p.s};
    Doubles kept = read(random_bernoulli(key, 1 - p.dropout, shape));
    kept.erase(kept.begin(), kept.begin() + p.first_row * p.h * p.t * p.s);
    for (double& each : kept) each /= 1 - p.dropout;
    return kept;
  }

  void check(const Problem& given) {
    const Problem p = filled(given);
    SCOPED_TRACE(p.name());
    const Results results = run(p);
    const std::vector<Expected> expected = reference(p, kept(p));
    const char* const kNames[] = {"out", "dquery", "dkey", "dvalue"};
    for (std::size_t i = 0; i < 4; ++i) test::expect_close(kNames[i], results[i], expected[i]);
    EXPECT_TRUE(run(p) == results) << "other bits in the second run";
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, AttentionTest, test::kDevices, test::device_name);

TEST_P(AttentionTest, ManySizes) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    check({.b = 2, .t = 7, .s = 7, .h = 2, .k = 2, .d = 8, .dtype = dtype});
    check({.b = 1, .t = 1, .s = 65, .h = 2, .k = 1, .d = 40, .dtype = dtype});
    check({.b = 1, .t = 65, .s = 33, .h = 1, .k = 1, .d = 64, .dtype = dtype});
  }
  check({.b = 1, .t = 33, .s = 1, .h = 1, .k = 1, .d = 80});
  check({.b = 1, .t = 20, .s = 70, .h = 4, .k = 2, .d = 128});
  check({.b = 1, .t = 3, .s = 5, .h = 3, .k = 1, .d = 7});
  check({.b = 1, .t = 5, .s = 66, .h = 1, .k = 1, .d = 200});
  check({.b = 1, .t = 2, .s = 2, .h = 1, .k = 1, .d = 255, .dtype = DType::bf16});
  check({.b = 1, .t = 9, .s = 11, .h = 2, .k = 2, .d = 16, .scale = 0.75});
}

// Several chunks of queries and blocks of keys; on a GPU, with tiles of 64, shorter ones suffice.
TEST_P(AttentionTest, LongSequences) {
  if (device().is_cuda()) {
    return check({.b = 1, .t = 130, .s = 140, .h = 2, .k = 1, .d = 24, .is_causal = true, .dropout = 0.25});
  }
  check({.b = 1, .t = 300, .s = 520, .h = 2, .k = 1, .d = 24});
  check({.b = 2, .t = 530, .s = 530, .h = 1, .k = 1, .d = 40, .is_causal = true});
}

TEST_P(AttentionTest, Causal) {
  check({.b = 2, .t = 9, .s = 9, .h = 2, .k = 1, .d = 16, .is_causal = true});
  check({.b = 1, .t = 5, .s = 70, .h = 2, .k = 2, .d = 16, .is_causal = true});  // with a cache of keys
  check({.b = 1, .t = 70, .s = 9, .h = 1, .k = 1, .d = 16, .is_causal = true});  // the first 61 queries have no key
  check({.b = 1, .t = 67, .s = 67, .h = 1, .k = 1, .d = 8, .dtype = DType::f16, .is_causal = true});
}

TEST_P(AttentionTest, Masks) {
  for (const Shape& shape : {Shape{2, 2, 5, 6}, Shape{2, 1, 1, 6}, Shape{5, 6}, Shape{5, 1}, Shape{2, 5, 6}, Shape{}}) {
    Array mask = random_mask(shape);
    for (std::size_t i = 0; i < std::min<std::size_t>(mask.values.size(), 6); ++i) mask.values[i] = 0;  // an empty row
    check({.b = 2, .t = 5, .s = 6, .h = 2, .k = 1, .d = 8, .mask = mask});
  }
  check({.b = 1, .t = 70, .s = 70, .h = 1, .k = 1, .d = 8, .is_causal = true, .mask = random_mask({70, 70})});
}

TEST_P(AttentionTest, KeyLengths) {
  const auto lengths = [](std::vector<double> values) {
    const auto n = static_cast<std::int64_t>(values.size());
    return Array{DType::i32, {n}, std::move(values)};
  };
  check({.b = 4, .t = 3, .s = 9, .h = 2, .k = 1, .d = 8, .key_lengths = lengths({4, 0, 9, 1})});
  check({.b = 3, .t = 3, .s = 70, .h = 1, .k = 1, .d = 8, .is_causal = true, .key_lengths = lengths({66, 2, 70})});
  check({.b = 2, .t = 2, .s = 5, .h = 1, .k = 1, .d = 8, .key_lengths = lengths({-3, 77})});
  // Nothing beyond a sample's keys is read.
  Problem p = filled({.b = 1, .t = 3, .s = 9, .h = 1, .k = 1, .d = 8, .key_lengths = lengths({4})});
  std::fill(p.value.values.begin() + 4 * 8, p.value.values.end(), test::kNaN);
  for (const Doubles& each : run(p))
    EXPECT_TRUE(std::none_of(each.begin(), each.end(), [](double x) { return std::isnan(x); }));
}

TEST_P(AttentionTest, Dropout) {
  check({.b = 2, .t = 7, .s = 9, .h = 2, .k = 1, .d = 8, .dropout = 0.3, .dropout_key = 42});
  check({.b = 1, .t = 5, .s = 7, .h = 1, .k = 1, .d = 8, .dropout = 0.6, .dropout_key = -5, .first_row = 3});
  check({.b = 1, .t = 66, .s = 66, .h = 1, .k = 1, .d = 8, .is_causal = true, .dropout = 0.5, .dropout_key = 1});
}

TEST_P(AttentionTest, DropoutKeyMayBeAVar) {
  const Problem p = filled({.b = 1, .t = 4, .s = 6, .h = 1, .k = 1, .d = 8, .dropout = 0.4, .dropout_key = 77});
  const Var query(upload(p.query), stream()), key(upload(p.key), stream()), value(upload(p.value), stream());
  AttentionOptions options = options_of(p);
  const Doubles with_number = read(dot_product_attention(query, key, value, options));
  options.key = constant(HostArray(std::vector<std::int64_t>{77}, Shape{}), stream());
  EXPECT_EQ(read(dot_product_attention(query, key, value, options)), with_number);
}

TEST_P(AttentionTest, GradientsMatchFiniteDifferences) {
  const auto with = [&](const std::string& name, const AttentionOptions& options) {
    GradientTest::check(name,
                        {random_.uniform({1, 2, 2, 2}), random_.uniform({1, 3, 1, 2}), random_.uniform({1, 3, 1, 2})},
                        [&](const Vars& v) { return dot_product_attention(v[0], v[1], v[2], options); });
  };
  with("causal with dropout", {.is_causal = true, .dropout = 0.4, .key = 3});
  if (device().is_cpu()) with("plain", {.scale = 1.5});
}

TEST_P(AttentionTest, PackedGivesTheSameBits) {
  for (Problem p : {Problem{.b = 2, .t = 70, .s = 70, .h = 3, .k = 3, .d = 16, .is_causal = true},
                    Problem{.b = 1, .t = 9, .s = 9, .h = 4, .k = 2, .d = 13, .dropout = 0.3, .dropout_key = 7},
                    Problem{.b = 2, .t = 5, .s = 5, .h = 2, .k = 1, .d = 8, .dtype = DType::bf16},
                    Problem{.b = 0, .t = 5, .s = 5, .h = 2, .k = 1, .d = 8}}) {
    p = filled(p);
    const Results separate = run(p);
    Vars in;
    Tensors grads;
    for (const Array* each : {&p.query, &p.key, &p.value}) in.emplace_back(upload(*each), stream());
    const Var joined = concatenate(in, 2);
    const Tensor qkv = joined.value(), grad = allocate(p.dtype, qkv.shape());
    stream().fill(grad.raw(), 0xFF, grad.bytes());
    const Var out = dot_product_attention(Var::parameter(qkv, grad, stream()), p.h, options_of(p));
    backward(sum(multiply(cast(out, DType::f32), cast(Var(upload(p.dout), stream()), DType::f32))));
    const Vars parts = split(Var(grad, stream()), std::vector<std::int64_t>{p.h, p.k, p.k}, 2);
    const Results packed{read(out), read(parts[0]), read(parts[1]), read(parts[2])};
    for (std::size_t i = 0; i < packed.size(); ++i) {
      if (p.dtype == DType::f32) {
        EXPECT_EQ(packed[i], separate[i]) << p.name() << " " << i;
        continue;
      }
      // cuDNN may use another plan for packed inputs.
      ASSERT_EQ(packed[i].size(), separate[i].size());
      for (std::size_t j = 0; j < packed[i].size(); ++j) {
        EXPECT_NEAR(packed[i][j], separate[i][j], 0x1p-6 * std::max(1.0, std::abs(separate[i][j]))) << p.name();
      }
    }
  }
}

TEST_P(AttentionTest, RecordedGivesTheSameBits) {
  const Problem p = filled({.b = 2, .t = 9, .s = 70, .h = 4, .k = 2, .d = 24, .is_causal = true, .dropout = 0.2});
  const Results direct = run(p);
  const Tensor query = upload(p.query), key = upload(p.key), value = upload(p.value), dout = upload(p.dout);
  const Tensor out = allocate(DType::f32, p.queries());
  Tensors grads;
  for (const Tensor& each : {query, key, value}) grads.push_back(allocate(DType::f32, each.shape()));
  const Graph graph = Graph::record(stream(), [&] {
    const Var q = Var::parameter(query, grads[0], stream()), k = Var::parameter(key, grads[1], stream()),
              v = Var::parameter(value, grads[2], stream());
    const Var y = dot_product_attention(q, k, v, options_of(p));
    stream().copy(out.raw(), y.value().raw(), out.bytes());
    backward(sum(multiply(y, Var(dout))));
  });
  for (int i = 0; i < 2; ++i) {
    graph.replay(stream());
    EXPECT_EQ(read(Var(out, stream())), direct[0]);
    for (std::size_t g = 0; g < 3; ++g) EXPECT_EQ(read(Var(grads[g], stream())), direct[g + 1]) << g;
  }
}

TEST_P(AttentionTest, NaNStaysInItsRow) {
  Problem p = filled({.b = 1, .t = 6, .s = 7, .h = 1, .k = 1, .d = 8});
  for (std::size_t i = 2 * 8; i < 3 * 8; ++i) p.query.values[i] = test::kNaN;
  const Results results = run(p);
  for (const std::size_t i : {0, 1}) {
    for (std::size_t j = 0; j < results[i].size(); ++j)
      EXPECT_EQ(std::isnan(results[i][j]), j / 8 == 2) << i << ' ' << j;
  }
  for (const std::size_t i : {2, 3}) {
    for (const double x : results[i]) EXPECT_TRUE(std::isnan(x));
  }
}

TEST_P(AttentionTest, Infinities) {
  // A score of -inf gets the weight 0; if all scores are -inf, or one is +inf, the weights are NaN.
  Problem p = filled({.b = 1, .t = 3, .s = 4, .h = 1, .k = 1, .d = 1, .scale = 1});
  p.query.values = {1, -1, 0};
  p.key.values = {-test::kInfinity, 1, 2, 0.5};
  const Doubles out = run(p)[0];
  double total = 0, expected = 0;
  for (const std::size_t s : {1, 2, 3}) {
    total += std::exp(p.key.values[s]);
    expected += std::exp(p.key.values[s]) * p.value.values[s];
  }
  EXPECT_NEAR(out[0], expected / total, 1e-6);
  EXPECT_TRUE(std::isnan(out[1]));
  EXPECT_TRUE(std::isnan(out[2]));  // 0 * inf
  p.key.values = Doubles(4, -test::kInfinity);
  EXPECT_TRUE(std::isnan(run(p)[0][0]));
  // Large scores do not overflow.
  p.query.values = {1e30, -1e30, 0};
  p.key.values = {1, 2, 3, 4};
  EXPECT_EQ(run(p)[0][0], p.value.values[3]);
}

TEST_P(AttentionTest, EmptyInputs) {
  for (const Problem& p : {Problem{.b = 0, .t = 3, .s = 3, .h = 1, .k = 1, .d = 8},
                           Problem{.b = 2, .t = 0, .s = 3, .h = 1, .k = 1, .d = 8},
                           Problem{.b = 2, .t = 3, .s = 0, .h = 1, .k = 1, .d = 8},
                           Problem{.b = 2, .t = 3, .s = 4, .h = 0, .k = 1, .d = 8}}) {
    SCOPED_TRACE(p.name());
    for (const Doubles& each : run(filled(p))) EXPECT_EQ(each, Doubles(each.size()));
  }
}

TEST_P(AttentionTest, OnlyWantedGradients) {
  const Problem p = filled({.b = 1, .t = 5, .s = 6, .h = 2, .k = 1, .d = 8});
  const Results all = run(p);
  const Array* const arrays[] = {&p.query, &p.key, &p.value};
  for (std::size_t wanted = 0; wanted < 3; ++wanted) {
    const Tensor grad = allocate(DType::f32, arrays[wanted]->shape);
    Vars vars;
    for (std::size_t i = 0; i < 3; ++i) {
      const Tensor value = upload(*arrays[i]);
      vars.push_back(i == wanted ? Var::parameter(value, grad, stream()) : Var(value, stream()));
    }
    backward(sum(multiply(dot_product_attention(vars[0], vars[1], vars[2]), Var(upload(p.dout)))));
    EXPECT_EQ(read(Var(grad, stream())), all[wanted + 1]) << wanted;
  }
}

TEST_P(AttentionTest, CannotBeDifferentiatedTwice) {
  const Var q = Var::parameter(upload(random_.uniform({1, 2, 1, 4})), allocate(DType::f32, {1, 2, 1, 4}), stream());
  const Var dq = nn::gradients(sum(dot_product_attention(q, q, q)), {q}).front();
  expect_error(ErrorCode::unsupported, {"dot_product_attention", "cannot be differentiated again"},
               [&] { nn::gradients(sum(square(dq)), {q}); });
}

TEST_P(AttentionTest, RejectsMismatchedArguments) {
  const auto var = [&](const Shape& shape, DType dtype = DType::f32) { return Var(tensor(shape, dtype), stream()); };
  const Var q = var({2, 3, 4, 8}), k = var({2, 5, 2, 8});
  const auto attend = [](const Var& q, const Var& k, const Var& v, const AttentionOptions& options = {}) {
    return [=] { dot_product_attention(q, k, v, options); };
  };
  expect_error(ErrorCode::shape_mismatch, {"query has 4 heads", "key has 3"},
               attend(q, var({2, 5, 3, 8}), var({2, 5, 3, 8})));
  expect_error(ErrorCode::shape_mismatch, {"key is", "(2, S, K, 8)"}, attend(q, var({1, 5, 2, 8}), var({1, 5, 2, 8})));
  expect_error(ErrorCode::shape_mismatch, {"key is", "(2, 5, 2, 8)"}, attend(q, var({2, 5, 2, 4}), var({2, 5, 2, 4})));
  expect_error(ErrorCode::shape_mismatch, {"value is", "(2, 5, 2, 8)"}, attend(q, k, var({2, 6, 2, 8})));
  expect_error(ErrorCode::shape_mismatch, {"query", "(B, T, H, D)"}, attend(var({3, 4, 8}), k, k));
  expect_error(ErrorCode::dtype_mismatch, {"query", "f64"}, attend(var({2, 3, 4, 8}, DType::f64), k, k));
  expect_error(ErrorCode::dtype_mismatch, {"key", "bf16"}, attend(q, var({2, 5, 2, 8}, DType::bf16), k));
  expect_error(ErrorCode::dtype_mismatch, {"mask", "bool"}, attend(q, k, k, {.mask = var({3, 5})}));
  expect_error(ErrorCode::shape_mismatch, {"mask", to_string(Shape{3, 6})},
               attend(q, k, k, {.mask = var({3, 6}, DType::boolean)}));
  expect_error(ErrorCode::dtype_mismatch, {"key_lengths", "i32"},
               attend(q, k, k, {.key_lengths = var({2}, DType::i64)}));
  expect_error(ErrorCode::shape_mismatch, {"key_lengths", to_string(Shape{2})},
               attend(q, k, k, {.key_lengths = var({3}, DType::i32)}));
  expect_error(ErrorCode::invalid_argument, {"dropout of 1", "[0, 1)"}, attend(q, k, k, {.dropout = 1}));
  expect_error(ErrorCode::invalid_argument, {"key is 0.5", "integer"}, attend(q, k, k, {.dropout = 0.5, .key = 0.5}));
  expect_error(ErrorCode::unsupported, {"at most 256"},
               attend(var({1, 2, 1, 264}), var({1, 2, 1, 264}), var({1, 2, 1, 264})));
  for (const std::int64_t heads : {0, 1, 4}) {
    expect_error(ErrorCode::shape_mismatch, {"qkv", to_string(q.shape()), fmt::format("{} query heads", heads)},
                 [&] { dot_product_attention(q, heads); });
  }
  expect_device_error(attend(Var(elsewhere(q.value())), k, k));
}

TEST(AttentionOnTheCpu, IsRightWithAllThreadCountsAndInstructionSets) {
  const Stream stream(Device::cpu());
  const auto run = [&](const Shape& queries, const Shape& keys) {
    std::vector<Buffer> memory;
    const auto parameter = [&](const Shape& shape, std::int64_t seed) {
      const auto bytes = static_cast<std::size_t>(shape.count()) * sizeof(float);
      const Buffer& buffer = memory.emplace_back(Buffer::allocate(Device::cpu(), bytes));
      const Tensor grad(buffer.data(), DType::f32, shape, Device::cpu());
      const Var key = constant(HostArray(std::vector<std::int64_t>{seed}, Shape{}), stream);
      return std::pair{Var::parameter(random_normal(key, shape).value(), grad, stream), grad};
    };
    memory.reserve(3);
    const auto q = parameter(queries, 1), k = parameter(keys, 2), v = parameter(keys, 3);
    const Var out = dot_product_attention(q.first, k.first, v.first, {.is_causal = true});
    backward(sum(square(out)));
    std::vector<float> all = to_host<float>(out.value(), stream);
    for (const auto* each : {&q, &k, &v}) {
      const std::vector<float> grad = to_host<float>(each->second, stream);
      all.insert(all.end(), grad.begin(), grad.end());
    }
    return all;
  };
  const expr::InstructionSet best = expr::instruction_set();
  std::vector<float> first;
  for (const auto set : {expr::kAvx512, expr::kAvx2, expr::kBaseline}) {
    if (!expr::use_instruction_set(set)) continue;
    // Few heads, so that several threads share the queries of a head; and many.
    for (const auto& [queries, keys] :
         {std::pair{Shape{1, 700, 2, 40}, Shape{1, 300, 1, 40}}, std::pair{Shape{9, 70, 8, 16}, Shape{9, 70, 8, 16}}}) {
      std::vector<float> expected;
      for (const int threads : {1, 2, 3}) {
        const cpu::ThreadLimit limit(threads);
        const std::vector<float> now = run(queries, keys);
        if (expected.empty()) expected = now;
        EXPECT_TRUE(now == expected) << "other bits on " << threads << " threads";
      }
      if (queries[0] != 1) continue;
      if (first.empty()) first = expected;
      for (std::size_t i = 0; i < first.size(); ++i) ASSERT_NEAR(expected[i], first[i], 2e-4) << i << ' ' << set;
    }
  }
  expr::use_instruction_set(best);
}

}  // namespace
}  // namespace giro::nn
