#include <giro/kernels/optim/optimizer.h>

#include <tuple>

#include <giro/kernels/nn/elementwise.h>
#include <giro/kernels/optim/loss_scale.h>
#include <giro/runtime/program/graph.h>
#include <giro/runtime/program/program.h>

#include "kernels/rules/record.h"
#include "tests/kernels/op_test.h"
#include "tests/support/environment_setting.h"
#include "tests/support/tensor_ops.h"

namespace giro::optim {
namespace {

using test::Array, test::Expected, test::kLeafAlignment, test::kUnit, test::Tensors;
using Values = std::vector<double>;

constexpr std::int64_t kGranule = UpdateTensors::kGranule;

// The options of an optimizer, for optimizer_of() and for the reference.
struct Rule {
  bool adam = false;
  LearningRate learning_rate = 0.0;
  double momentum = 0;
  bool nesterov = false;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double weight_decay = 0;
  double max_norm = 0;
};

optim::Optimizer optimizer_of(const Rule& rule) {
  const optim::Optimizer plain =
      rule.adam ? adamw(rule.learning_rate,
                        {.b1 = rule.beta1, .b2 = rule.beta2, .eps = rule.epsilon, .weight_decay = rule.weight_decay})
                : sgd(rule.learning_rate,
                      {.momentum = rule.momentum, .nesterov = rule.nesterov, .weight_decay = rule.weight_decay});
  return rule.max_norm > 0 ? clip_by_global_norm(rule.max_norm, plain) : plain;
}

struct Case {
  std::string name;
  Rule rule;
  bool masked = false;  // weight decay applies to some granules only

  bool adam() const { return rule.adam; }
  bool has_mu() const { return adam() || rule.momentum != 0; }
  // The first outputs are the learning rate and the parameters, followed by the optimizer's moments.
  UpdateTensors tensors(const Tensors& out, const Tensor& grads, const Tensor& step) const {
    UpdateTensors all{.params = out[1], .grads = grads, .step = step, .learning_rate = out[0]};
    if (has_mu()) all.moments.emplace_back("mu", out[2]);
    if (adam()) all.moments.emplace_back("nu", out[3]);
    return all;
  }
};

const Case kCases[] = {
    {"sgd", {.learning_rate = 0.1}},
    {"sgd, decay", {.learning_rate = 0.1, .weight_decay = 0.05}},
    {"sgd, masked decay", {.learning_rate = 0.1, .weight_decay = 0.05}, true},
    {"momentum", {.learning_rate = 0.03, .momentum = 0.9}},
    {"nesterov", {.learning_rate = 0.03, .momentum = 0.9, .nesterov = true}},
    {"nesterov, masked decay, clipped",
     {.learning_rate = 0.03, .momentum = 0.8, .nesterov = true, .weight_decay = 0.1, .max_norm = 0.5},
     true},
    {"adam", {.adam = true, .learning_rate = 1e-3}},
    {"adam, other betas", {.adam = true, .learning_rate = 1e-2, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-4}},
    {"adam, betas at their ends", {.adam = true, .learning_rate = 1e-2, .beta1 = 0, .beta2 = 0.9999999}},
    {"adamw", {.adam = true, .learning_rate = 1e-3, .weight_decay = 0.1}},
    {"adamw, masked, clipped", {.adam = true, .learning_rate = 1e-3, .weight_decay = 0.1, .max_norm = 1}, true},
};

struct Moments {
  Values params, mu, nu;
};

struct Updated {
  Expected params, mu, nu;
};

// One update in double, with error bounds for the same arithmetic in f32.
Updated reference(const Case& o, const Moments& old, const Values& grads, const Values& decays, std::int64_t step,
                  double squared_norm) {
  const Rule& rule = o.rule;
  const double rate = static_cast<double>(rule.learning_rate(step));
  const double norm = std::sqrt(squared_norm), t = static_cast<double>(step + 1);
  const double scale = rule.max_norm > 0 && norm > rule.max_norm ? rule.max_norm / norm : 1;
  const double correction1 = 1 - std::pow(rule.beta1, t), correction2 = 1 - std::pow(rule.beta2, t);
  Updated updated;
  for (std::size_t i = 0; i < old.params.size(); ++i) {
    const double p = old.params[i], g = scale * grads[i];
    const double decay = decays.empty() || decays[i / kGranule] != 0 ? rate * rule.weight_decay : 0;
    double direction = g, error = 4 * kUnit * std::abs(g);
    if (o.adam()) {
      const double mu = rule.beta1 * old.mu[i] + (1 - rule.beta1) * g;
      const double nu = rule.beta2 * old.nu[i] + (1 - rule.beta2) * g * g;
      const double mu_error = 6 * kUnit * (std::abs(rule.beta1 * old.mu[i]) + std::abs((1 - rule.beta1) * g));
      updated.mu.add(mu, mu_error);
      updated.nu.add(nu, 10 * kUnit * nu);
      const double root = std::sqrt(nu / correction2) + rule.epsilon;
      direction = mu / correction1 / root;
      error = mu_error / correction1 / root + 12 * kUnit * std::abs(direction);
    } else if (o.has_mu()) {
      const double mu = rule.momentum * old.mu[i] + g;
      const double mu_error = 6 * kUnit * (std::abs(rule.momentum * old.mu[i]) + std::abs(g));
      updated.mu.add(mu, mu_error);
      direction = rule.nesterov ? rule.momentum * mu + g : mu;
      error = 2 * mu_error + 6 * kUnit * (std::abs(mu) + std::abs(g));
    }
    const double size = std::abs(p) + rate * std::abs(direction) + decay * std::abs(p);
    updated.params.add(
        p - rate * direction - decay * p,
        3 * kUnit * size + rate * error + 4 * kUnit * (rate * std::abs(direction) + decay * std::abs(p)));
  }
  return updated;
}

class UpdateTest : public test::OpTest {
 protected:
  // Values of a flat buffer. In every third granule the last six elements are the gap after a leaf.
  Array flat(std::int64_t count, double low, double high) {
    Array array = random_.uniform({count}, low, high);
    for (std::int64_t i = 0; i < count; ++i) {
      if (i / kGranule % 3 == 0 && i % kGranule >= 10) array.values[static_cast<std::size_t>(i)] = 0;
    }
    return array;
  }

  Array mask(std::int64_t count) { return random_.integers({count / kGranule}, 0, 1, DType::u8); }

  // Runs one update of `o` and compares everything it writes.
  void check_update(const Case& o, const Moments& old, const Array& grads, std::int64_t step, double squared_norm) {
    const Shape shape = grads.shape;
    const Array decays = mask(shape.count());
    const Updated expected = reference(o, old, grads.values, o.masked ? decays.values : Values{}, step, squared_norm);
    const double rate = static_cast<double>(o.rule.learning_rate(step));
    test::OpCase op{
        .name = fmt::format("{}, {} elements, step {}, squared norm {}", o.name, shape.count(), step, squared_norm),
        .inputs = {grads, decays, {DType::i64, {}, {static_cast<double>(step)}}, {DType::f64, {}, {squared_norm}}},
        .outputs = {{DType::f32, {}, {}}, {DType::f32, shape, old.params}},
        .run =
            [=](const Tensors& out, const Tensors& in, const Stream& s) {
              UpdateTensors tensors = o.tensors(out, in[0], in[2]);
              if (o.masked) tensors.decays = in[1];
              if (o.rule.max_norm > 0) tensors.squared_norm = in[3];
              update(optimizer_of(o.rule), tensors, s);
            },
        .expected = {{{rate}, {4 * kUnit * rate}}, expected.params},
        .alignment = kLeafAlignment};
    if (o.has_mu()) {
      op.outputs.push_back({DType::f32, shape, old.mu});
      op.expected.push_back(expected.mu);
    }
    if (o.adam()) {
      op.outputs.push_back({DType::f32, shape, old.nu});
      op.expected.push_back(expected.nu);
    }
    const auto actual = check(op);
    for (std::size_t k = 1; k < actual.size(); ++k) {
      for (std::size_t i = 0; i < actual[k].size(); ++i) {
        const bool gap = i / kGranule % 3 == 0 && i % kGranule >= 10;
        if (gap) {
          ASSERT_EQ(actual[k][i], 0) << op.name << ": the gap at " << i << " of output " << k << " was filled";
        }
      }
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, UpdateTest, test::kDevices, test::device_name);

TEST_P(UpdateTest, OneStepOfEachOptimizer) {
  for (const Case& o : kCases) {
    for (const std::int64_t granules : {1, 3, 257, 6257}) {
      const std::int64_t count = granules * kGranule;
      const Moments old{flat(count, -1, 1).values, flat(count, -0.2, 0.2).values, flat(count, 0, 0.1).values};
      const Array grads = flat(count, -0.5, 0.5);
      double squared_norm = 0;
      for (const double g : grads.values) squared_norm += g * g;
      for (const std::int64_t step : {0, 1, 7, 100'000}) {
        if (granules < 1000 || step == 7) check_update(o, old, grads, step, squared_norm);
      }
    }
  }
}

// More elements than all blocks of a launch process at once. Without check(), which would run it five times.
TEST_P(UpdateTest, BufferLargerThanOneRound) {
  constexpr std::int64_t kCount = 2048 * 256 * 4 + 5 * kGranule;
  const Tensor params = tensor({kCount}), grads = tensor({kCount});
  const Tensor step = tensor({}, DType::i64), rate = tensor({});
  std::vector<float> values(kCount), slopes(kCount);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i % 4093);
    slopes[i] = static_cast<float>(i % 1021 + 1);
  }
  from_host(params, values, stream());
  from_host(grads, slopes, stream());
  from_host<std::int64_t>(step, {0}, stream());
  update(sgd(0.5), {.params = params, .grads = grads, .step = step, .learning_rate = rate}, stream());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] -= 0.5f * slopes[i];  // exact
  EXPECT_EQ(to_host<float>(params, stream()), values);
}

TEST_P(UpdateTest, ClippingAppliesOnlyAboveTheNorm) {
  const std::int64_t count = 5 * kGranule;
  const Moments old{flat(count, -1, 1).values, flat(count, -0.2, 0.2).values, flat(count, 0, 0.1).values};
  const Array grads = flat(count, -0.5, 0.5);
  for (Case o : {kCases[0], kCases[4], kCases[6]}) {
    o.rule.max_norm = 2;
    o.name += ", clipped";
    for (const double squared_norm : {0.0, 1e-50, 1e-12, 1.0, 3.999, 4.0, 4.001, 16.0, 1e12, 1e60}) {
      check_update(o, old, grads, 2, squared_norm);
    }
  }
}

TEST_P(UpdateTest, NaNNormIsNotHidden) {
  const std::int64_t count = kGranule;
  const Array ones{DType::f32, {count}, Values(static_cast<std::size_t>(count), 1.0)};
  Expected nan;
  for (std::int64_t i = 0; i < count; ++i) nan.add(test::kNaN, 0);
  check({.name = "sgd",
         .inputs = {ones, {DType::i64, {}, {0}}, {DType::f64, {}, {test::kNaN}}},
         .outputs = {ones, {DType::f32, {}, {}}},
         .run =
             [](const Tensors& out, const Tensors& in, const Stream& s) {
               update(clip_by_global_norm(1, sgd(0.5)),
                      {.params = out[0], .grads = in[0], .step = in[1], .learning_rate = out[1], .squared_norm = in[2]},
                      s);
             },
         .expected = {nan, {{0.5}, {0}}},
         .alignment = kLeafAlignment});
}

// With gradients 1024 times as large and two of five updates skipped, the bits are the same as without the scale, with
// and without clipping. An update with a non-finite gradient changes nothing.
TEST_P(UpdateTest, LossScaleIsRemoved) {
  constexpr double kScale = 1024;
  const std::int64_t count = 5 * kGranule;
  const Moments old{flat(count, -1, 1).values, flat(count, -0.2, 0.2).values, flat(count, 0, 0.1).values};
  const Array grads = flat(count, -0.5, 0.5);
  Array scaled = grads;
  for (double& value : scaled.values) value *= kScale;
  for (Case o : {kCases[1], kCases[3], kCases[8]}) {
    for (const double max_norm : {0.0, 0.5}) {
      o.rule.max_norm = max_norm;
      const double squared_norm = 3.5;
      const auto run = [&](bool is_scaled, double norm) {
        test::OpCase op{.name = fmt::format("{}, {}, {}", o.name, is_scaled ? "scaled" : "not scaled", norm),
                        .inputs = {is_scaled ? scaled : grads,
                                   {DType::i64, {}, {is_scaled ? 5.0 : 3.0}},
                                   {DType::f64, {}, {norm}},
                                   {DType::f32, {}, {kScale}},
                                   {DType::i64, {}, {2}}},
                        .outputs = {{DType::f32, {}, {}}, {DType::f32, {count}, old.params}},
                        .run =
                            [=](const Tensors& out, const Tensors& in, const Stream& s) {
                              UpdateTensors tensors = o.tensors(out, in[0], in[1]);
                              tensors.squared_norm = in[2];
                              if (is_scaled) {
                                tensors.must_be_finite = in[2];
                                tensors.loss_scale = in[3];
                                tensors.skipped = in[4];
                              }
                              update(optimizer_of(o.rule), tensors, s);
                            },
                        .expected = {},
                        .alignment = kLeafAlignment};
        if (o.has_mu()) op.outputs.push_back({DType::f32, {count}, old.mu});
        if (o.adam()) op.outputs.push_back({DType::f32, {count}, old.nu});
        for (const Array& out : op.outputs) {  // accepts any value, because two runs are compared
          const auto n = static_cast<std::size_t>(out.shape.count());
          op.expected.push_back({Values(n, 0), Values(n, test::kInfinity)});
        }
        return check(op);
      };
      EXPECT_EQ(run(true, squared_norm * kScale * kScale), run(false, squared_norm)) << o.name;
      for (const double norm : {test::kInfinity, test::kNaN}) {
        const auto kept = run(true, norm);
        EXPECT_EQ(kept[1], old.params);
        if (o.has_mu()) {
          EXPECT_EQ(kept[2], old.mu);
        }
        if (o.adam()) {
          EXPECT_EQ(kept[3], old.nu);
        }
      }
    }
  }
}

TEST_P(UpdateTest, LossScaleFollowsTheGradients) {
  struct Scaling {
    double scale, good_steps, skipped, norm;
    double new_scale, new_good_steps, new_skipped;
  };
  for (const Scaling& c :
       {Scaling{65536, 0, 0, 3, 65536, 1, 0}, Scaling{65536, 1998, 1, 0, 65536, 1999, 1},
        Scaling{65536, 1999, 1, 3, 131072, 0, 1}, Scaling{65536, 1999, 1, test::kInfinity, 32768, 0, 2},
        Scaling{65536, 7, 0, test::kNaN, 32768, 0, 1}, Scaling{65536, 7, 0, 1e60, 65536, 8, 0},
        Scaling{1, 3, 4, test::kNaN, 1, 0, 5}, Scaling{0x1p126, 1999, 0, 1, 0x1p126, 0, 0}}) {
    check({.name = fmt::format("{} after {} good steps, norm {}", c.scale, c.good_steps, c.norm),
           .inputs = {{DType::f64, {}, {c.norm}}},
           .outputs = {{DType::f32, {}, {c.scale}}, {DType::i64, {}, {c.good_steps}}, {DType::i64, {}, {c.skipped}}},
           .run =
               [](const Tensors& out, const Tensors& in, const Stream& s) {
                 adjust_loss_scale({out[0], out[1], out[2]}, in[0], s);
               },
           .expected = {{{c.new_scale}, {0}}, {{c.new_good_steps}, {0}}, {{c.new_skipped}, {0}}}});
  }
  expect_dtype_error(DType::f32, DType::i64, [&] {
    adjust_loss_scale({tensor({}, DType::i64), tensor({}, DType::i64), tensor({}, DType::i64)}, tensor({}), stream());
  });
}

TEST_P(UpdateTest, ZeroGradientsLeaveParamsUnchanged) {
  const std::int64_t count = 3 * kGranule;
  const Values zeros(static_cast<std::size_t>(count), 0.0);
  const Moments old{flat(count, -1, 1).values, zeros, zeros};
  for (const Case& o : kCases) {
    if (o.rule.weight_decay == 0) check_update(o, old, {DType::f32, {count}, zeros}, 0, 0);
  }
}

// One kernel computes the norm, the other everything after it: clipping, AdamW, the parameter average and the 16-bit
// copy.
TEST_P(UpdateTest, UpdateWithNormAverageAndCopyIsTwoKernels) {
  const std::int64_t count = 4096 * kGranule;  // takes more than one block to sum
  std::string text;
  const auto result_of = [&](const char* rules, std::size_t& nodes) {
    const test::RewriteSetting setting(rules);
    const auto filled = [&](double value) {
      const Tensor buffer = tensor({count});
      fill(buffer, value, stream());
      return buffer;
    };
    const Tensor params = filled(0.5), grads = filled(0.25), mu = filled(0.125), nu = filled(0.0625),
                 average = filled(0.75), copy = tensor({count}, DType::bf16), rate = tensor({}),
                 step = tensor({}, DType::i64);
    from_host<std::int64_t>(step, {3}, stream());
    const Graph graph = rules::record(stream(), [&] {
      const Buffer memory = stream().allocate(sizeof(double));
      const Tensor norm(memory.place(), DType::f64, {}, device());
      sum_of_squares(norm, grads, stream());
      update(clip_by_global_norm(1, adamw(1e-3, {.weight_decay = 0.1})),
             {.params = params,
              .grads = grads,
              .moments = {{"mu", mu}, {"nu", nu}},
              .step = step,
              .learning_rate = rate,
              .squared_norm = norm},
             stream());
      const nn::Var moved = 0.999 * nn::Var(average, stream()) + 0.001 * nn::Var(params, stream());
      cast(average, moved.value(), stream());
      cast(copy, params, stream());
    });
    nodes = graph.num_nodes();
    text = graph.program().text();
    graph.replay(stream());
    const Tensor copied_bytes(copy.raw(), DType::u8, {2 * count}, device());
    return std::tuple(to_host<float>(params, stream()), to_host<float>(average, stream()),
                      to_host<std::uint8_t>(copied_bytes, stream()));
  };
  std::size_t nodes = 0, nodes_without_rules = 0;
  const auto values = result_of("1", nodes);
  EXPECT_EQ(nodes, 2u) << text;
  EXPECT_TRUE(values == result_of("0", nodes_without_rules));
  EXPECT_EQ(nodes_without_rules, 7u);
}

// Compares many recorded steps with a trajectory in double that never uses the device's values.
TEST_P(UpdateTest, ManyRecordedSteps) {
  constexpr int kSteps = 50;
  const std::int64_t count = 9 * kGranule;
  for (Case o : kCases) {
    SCOPED_TRACE(o.name);
    o.rule.learning_rate = warmup_cosine(o.adam() ? 1e-2 : 0.05, 5, 40, 0, 1e-4);
    const Tensor params = tensor({count}), grads = tensor({count}), mu = tensor({count}), nu = tensor({count});
    const Tensor decays = tensor({count / kGranule}, DType::u8), step = tensor({}, DType::i64);
    const Tensor rate = tensor({}), squared_norm = tensor({}, DType::f64);
    const auto upload = [&](const Tensor& to, const Values& values) {
      from_host(to, std::vector<float>(values.begin(), values.end()), stream());
    };
    Moments state{flat(count, -1, 1).values, Values(static_cast<std::size_t>(count), 0.0),
                  Values(static_cast<std::size_t>(count), 0.0)};
    const Array on = mask(count);
    upload(params, state.params);
    upload(mu, state.mu);
    upload(nu, state.nu);
    from_host(decays, std::vector<std::uint8_t>(on.values.begin(), on.values.end()), stream());
    from_host<std::int64_t>(step, {0}, stream());

    const Graph graph = Graph::record(stream(), [&] {
      sum_of_squares(squared_norm, grads, stream());
      update(optimizer_of(o.rule),
             {.params = params,
              .grads = grads,
              .moments = {{"mu", mu}, {"nu", nu}},
              .decays = o.masked ? decays : Tensor{},
              .step = step,
              .learning_rate = rate,
              .squared_norm = squared_norm},
             stream());
      increment(step, 1, stream());
    });
    double path = 0;  // an upper bound on the distance that one element has moved
    for (int s = 0; s < kSteps; ++s) {
      const Values g = flat(count, -0.5, 0.5).values;
      upload(grads, g);
      graph.replay(stream());
      double norm = 0;
      for (const double value : g) norm += value * value;
      const Updated next = reference(o, state, g, o.masked ? on.values : Values{}, s, norm);
      state = {next.params.values, next.mu.values, next.nu.values};
      path += static_cast<double>(o.rule.learning_rate(s));
    }
    EXPECT_EQ(to_host<std::int64_t>(step, stream())[0], kSteps);
    const std::vector<float> actual = to_host<float>(params, stream());
    Expected expected;
    for (const double p : state.params) expected.add(p, 4 * kUnit * kSteps + 64 * kUnit * path);
    test::expect_close("params", {actual.begin(), actual.end()}, expected);
  }
}

struct Schedule {
  std::string name;
  LearningRate rate;
  std::function<double(double step)> formula;
  std::vector<std::int64_t> steps;
};

double half_cosine(double peak, double end, double share) {
  return end + (peak - end) * 0.5 * (1 + std::cos(std::acos(-1.0) * std::min(1.0, share)));
}

std::vector<Schedule> schedules() {
  return {
      {"constant", constant(0.3), [](double) { return 0.3; }, {0, 1, 1'000'000'000'000}},
      {"a number", 1e-3, [](double) { return 1e-3; }, {0, 17}},
      {"zero", 0.0, [](double) { return 0.0; }, {0, 17}},
      {"warmup",
       warmup(0.5, 100, 0.1),
       [](double s) { return s < 100 ? 0.1 + 0.4 * s / 100 : 0.5; },
       {0, 1, 50, 99, 100, 101, 1'000'000}},
      {"warmup from zero", warmup(1, 3), [](double s) { return std::min(1.0, s / 3); }, {0, 1, 2, 3, 4}},
      {"cosine",
       cosine(0.2, 1000, 0.01),
       [](double s) { return half_cosine(0.2, 0.01, s / 1000); },
       {0, 1, 250, 500, 999, 1000, 1001, 1'000'000'000}},
      {"long cosine",
       cosine(0.2, 100'000'000),
       [](double s) { return half_cosine(0.2, 0, s / 1e8); },
       {0, 16'777'217, 50'000'001, 99'999'999, 100'000'000}},
      {"warmup and cosine",
       warmup_cosine(0.4, 10, 90, 0.1, 0.02),
       [](double s) { return s < 10 ? 0.1 + 0.3 * s / 10 : half_cosine(0.4, 0.02, (s - 10) / 90); },
       {0, 1, 9, 10, 11, 55, 99, 100, 101, 5000}},
      {"piecewise",
       piecewise_constant(0.1, {{1000, 0.1}, {2000, 0.5}, {2001, 4}}),
       [](double s) { return 0.1 * (s >= 1000 ? 0.1 : 1) * (s >= 2000 ? 0.5 : 1) * (s >= 2001 ? 4 : 1); },
       {0, 999, 1000, 1001, 1999, 2000, 2001, 2002, 1'000'000}},
      {"from the start", piecewise_constant(0.1, {{0, 0.5}}), [](double) { return 0.05; }, {0, 1}},
      {"polynomial",
       polynomial(0.3, 0.1, 2, 50),
       [](double s) { return 0.1 + 0.2 * std::pow(1 - std::min(1.0, s / 50), 2); },
       {0, 1, 25, 49, 50, 51, 1'000'000}},
      {"linear, rising", linear(0.1, 0.4, 10), [](double s) { return 0.1 + 0.03 * std::min(10.0, s); }, {0, 3, 10, 11}},
      {"exponential",
       exponential_decay(0.4, 100, 0.5),
       [](double s) { return 0.4 * std::pow(0.5, s / 100); },
       {0, 1, 150}},
      {"staircase",
       exponential_decay(0.4, 100, 0.5, {.staircase = true, .end = 0.06}),
       [](double s) { return std::max(0.06, 0.4 * std::pow(0.5, std::floor(s / 100))); },
       {0, 99, 100, 199, 250, 1000}},
      {"inverse square root",
       inverse_sqrt(0.5, 16),
       [](double s) { return s < 16 ? 0.5 * s / 16 : 0.5 * std::sqrt(16 / s); },
       {0, 1, 15, 16, 17, 64, 100'000}},
      {"joined",
       join({warmup(0.4, 10), 0.3, cosine(0.3, 20)}, {10, 30}),
       [](double s) { return s < 10   ? 0.04 * s
                             : s < 30 ? 0.3
                                      : half_cosine(0.3, 0, (s - 30) / 20); },
       {0, 9, 10, 29, 30, 40, 50, 51}},
      {"of numbers alone",
       LearningRate([](const Value&) { return sqrt(Value(4)) * 0.5 - maximum(0.25, quotient(Value(7), 9)); }),
       [](double) { return 0.75; },
       {0, 3}},
      {"a user's own",
       LearningRate([](const Value& step) { return where(step < 5, 0.25, 0.5 * rsqrt(step)); }),
       [](double s) { return s < 5 ? 0.25 : 0.5 / std::sqrt(s); },
       {0, 4, 5, 100}},
  };
}

TEST(LearningRateTest, MatchesTheFormulas) {
  for (const Schedule& schedule : schedules()) {
    for (const std::int64_t step : schedule.steps) {
      const double wanted = schedule.formula(static_cast<double>(step));
      EXPECT_NEAR(schedule.rate(step), wanted, 8 * kUnit * 0.5) << schedule.name << " at " << step;
    }
  }
}

TEST_P(UpdateTest, WritesTheLearningRateOfTheStep) {
  const Array zeros{DType::f32, {kGranule}, Values(kGranule, 0.0)};
  for (const Schedule& schedule : schedules()) {
    for (const std::int64_t step : schedule.steps) {
      const double wanted = schedule.formula(static_cast<double>(step));
      check({.name = fmt::format("{} at {}", schedule.name, step),
             .inputs = {zeros, {DType::i64, {}, {static_cast<double>(step)}}},
             .outputs = {zeros, {DType::f32, {}, {}}},
             .run =
                 [&](const Tensors& out, const Tensors& in, const Stream& s) {
                   update(sgd(schedule.rate),
                          {.params = out[0], .grads = in[0], .step = in[1], .learning_rate = out[1]}, s);
                 },
             .expected = {{zeros.values, zeros.values}, {{wanted}, {8 * kUnit * 0.5}}},
             .alignment = kLeafAlignment});
    }
  }
}

TEST_P(UpdateTest, HostComputesTheDeviceLearningRate) {
  const Tensor params = tensor({kGranule}), rate = tensor({}), scale = tensor({}), at = tensor({}, DType::i64);
  fill(params, 0, stream());
  fill(scale, 0.5, stream());
  for (const Schedule& schedule : schedules()) {
    for (const std::int64_t step : schedule.steps) {
      from_host<std::int64_t>(at, {step}, stream());
      update(sgd(schedule.rate), {.params = params, .grads = params, .step = at, .learning_rate = rate}, stream());
      EXPECT_EQ(to_host<float>(rate, stream()).front(), schedule.rate(step)) << schedule.name << " at " << step;
      update(sgd(schedule.rate),
             {.params = params, .grads = params, .step = at, .learning_rate = rate, .learning_rate_scale = scale},
             stream());
      EXPECT_EQ(to_host<float>(rate, stream()).front(), schedule.rate(step) / 2) << schedule.name << " at " << step;
    }
  }
}

TEST_P(UpdateTest, SchedulesRejectBadNumbers) {
  const auto refuses = [&](std::initializer_list<std::string> words, const std::function<LearningRate()>& make) {
    expect_error(ErrorCode::invalid_argument, words, [&] { make(); });
  };
  refuses({"-1"}, [] { return constant(-1); });
  refuses({"nan"}, [] { return constant(test::kNaN); });
  refuses({"inf"}, [] { return LearningRate(test::kInfinity); });
  refuses({"0", "step"}, [] { return warmup(0.1, 0); });
  refuses({"-0.5"}, [] { return warmup(0.1, 10, -0.5); });
  refuses({"-7", "step"}, [] { return cosine(0.1, -7); });
  refuses({"inf"}, [] { return cosine(0.1, 7, test::kInfinity); });
  refuses({"0", "step"}, [] { return warmup_cosine(0.1, 5, 0); });
  refuses({"20", "10"}, [] { return piecewise_constant(0.1, {{20, 0.5}, {10, 0.5}}); });
  refuses({"20"}, [] { return piecewise_constant(0.1, {{20, 0.5}, {20, 0.5}}); });
  refuses({"-3"}, [] { return piecewise_constant(0.1, {{20, -3}}); });
  refuses({"0", "step"}, [] { return linear(0.1, 0, 0); });
  refuses({"-0.5"}, [] { return polynomial(0.1, -0.5, 2, 10); });
  refuses({"nan"}, [] { return exponential_decay(0.1, 10, test::kNaN); });
  refuses({"0", "step"}, [] { return inverse_sqrt(0.1, 0); });
  refuses({"1 schedules", "1 boundaries"}, [] { return join({constant(1)}, {5}); });
  refuses({"5", "7"}, [] { return join({1.0, 2.0, 3.0}, {7, 5}); });
}

TEST_P(UpdateTest, RejectsMismatchedArguments) {
  const Optimizer clipped = clip_by_global_norm(1, adam(0.1));
  const UpdateTensors good{.params = tensor({32}),
                           .grads = tensor({32}),
                           .moments = {{"mu", tensor({32})}, {"nu", tensor({32})}},
                           .decays = tensor({2}, DType::u8),
                           .step = tensor({}, DType::i64),
                           .learning_rate = tensor({}),
                           .learning_rate_scale = tensor({}),
                           .squared_norm = tensor({}, DType::f64)};
  const auto with = [&](Tensor UpdateTensors::*field, const Tensor& bad) {
    UpdateTensors tensors = good;
    tensors.*field = bad;
    return [=, this] { update(clipped, tensors, stream()); };
  };
  const auto with_moments = [&](std::vector<std::pair<std::string, Tensor>> moments) {
    UpdateTensors tensors = good;
    tensors.moments = std::move(moments);
    return [=, this] { update(clipped, tensors, stream()); };
  };
  expect_shape_error({32}, {48}, with(&UpdateTensors::grads, tensor({48})));
  expect_shape_error({32}, {2, 16}, with_moments({{"mu", tensor({2, 16})}, {"nu", tensor({32})}}));
  expect_shape_error({32}, {16}, with_moments({{"mu", tensor({32})}, {"nu", tensor({16})}}));
  expect_shape_error({2}, {32}, with(&UpdateTensors::decays, tensor({32}, DType::u8)));
  expect_error(ErrorCode::shape_mismatch, {to_string(Shape{1})}, with(&UpdateTensors::step, tensor({1}, DType::i64)));
  expect_error(ErrorCode::not_found, {"nu"}, with_moments({{"mu", tensor({32})}}));
  expect_error(ErrorCode::shape_mismatch, {"squared_norm"}, with(&UpdateTensors::squared_norm, {}));
  expect_error(ErrorCode::invalid_argument, {"grads", "16 bytes"},
               with(&UpdateTensors::grads, tensor({33}).rows(1, 33)));
  expect_dtype_error(DType::f32, DType::f64, with(&UpdateTensors::grads, tensor({32}, DType::f64)));
  expect_dtype_error(DType::u8, DType::f32, with(&UpdateTensors::decays, tensor({2})));
  expect_dtype_error(DType::i64, DType::i32, with(&UpdateTensors::step, tensor({}, DType::i32)));
  expect_dtype_error(DType::f32, DType::f64, with(&UpdateTensors::learning_rate, tensor({}, DType::f64)));
  expect_dtype_error(DType::f64, DType::f32, with(&UpdateTensors::squared_norm, tensor({})));
  for (const auto field :
       {&UpdateTensors::params, &UpdateTensors::grads, &UpdateTensors::decays, &UpdateTensors::step,
        &UpdateTensors::learning_rate, &UpdateTensors::learning_rate_scale, &UpdateTensors::squared_norm}) {
    expect_device_error(with(field, elsewhere(good.*field)));
  }
  UpdateTensors odd = good;
  odd.params = odd.grads = tensor({17});
  odd.moments = {{"mu", tensor({17})}, {"nu", tensor({17})}};
  expect_error(ErrorCode::shape_mismatch, {"17", "16"}, [&] { update(clipped, odd, stream()); });
  expect_error(ErrorCode::unsupported, {"muon"}, [&] { update(muon(0.1), good, stream()); });
}

}  // namespace
}  // namespace giro::optim
