#pragma once

// Programs of up to 60 random ops: elementwise functions, views, broadcasts, reductions, several dtypes, reused values,
// and first and second gradients.

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <giro/kernels/nn/functional.h>

#include "tests/kernels/op_test.h"

namespace giro::test {

class RandomProgram {
 public:
  // The inputs, then the values computed from them, and which of all these are results.
  struct Values {
    std::vector<nn::Var> all;
    std::vector<std::size_t> results;
    std::vector<std::string> ops;  // for the other values, as JSON: ["add", [0, 1], {}]
  };

  // If allowed, some seeds have infinities, NaN and subnormal numbers among the inputs.
  explicit RandomProgram(unsigned seed, bool may_be_special = false, std::size_t max_ops = 60) {
    std::mt19937 random(seed);
    const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    const std::vector<std::vector<Shape>> families{{{3, 5}, {5}, {3, 1}, {4, 3, 5}, {1}}, {{2, 33}, {33}, {2, 1}}};
    const std::vector<Shape>& shapes = families[pick(2)];
    for (std::size_t i = 0; i < 3; ++i) {
      constexpr DType kDTypes[] = {DType::f32, DType::f32, DType::f32, DType::f64, DType::bf16, DType::f16};
      Array input{kDTypes[pick(6)], shapes[pick(shapes.size())], {}};
      for (std::int64_t k = 0; k < input.shape.count(); ++k) {
        constexpr double kSpecial[] = {0.0, -0.0, kInfinity, -kInfinity, kNaN, 1e-40};
        const double value = (static_cast<double>(random()) * 0x1p-32 - 0.5) * 4;
        const bool is_special = may_be_special && seed % 4 == 0 && pick(3) == 0;
        input.values.push_back(round_to(input.dtype, is_special ? kSpecial[pick(6)] : value));
      }
      inputs.push_back(std::move(input));
    }
    length_ = 2 + pick(max_ops - 1);
    order = pick(3);
    seed_ = static_cast<unsigned>(random());
  }

  std::vector<Array> inputs;
  std::size_t order = 0;  // of the gradients: 0 for none, 2 for the gradients of the sum of the first gradients

  Values operator()(const std::vector<nn::Var>& in) const;

  struct Computed {
    Values values;
    std::vector<nn::Var> results, first_gradients;  // needed for the second gradients
    std::size_t order = 0;                          // of the gradients stored in the parameters
  };
  // Computes gradients up to `order`, or as far as values are differentiable. The last ones go to the parameters. The
  // returned values are not differentiable.
  Computed with_gradients(const std::vector<nn::Var>& parameters) const;

 private:
  class Run;
  static nn::Var sum_of(const std::vector<nn::Var>& values);
  unsigned seed_ = 0;
  std::size_t length_ = 0;
};

class RandomProgram::Run {
 public:
  Run(unsigned seed, const std::vector<nn::Var>& in) : random_(seed) {
    values_.all = in;
    for (std::size_t i = 0; i < in.size(); ++i) operands_.push_back(i);
  }

  Values of(std::size_t length) {
    while (values_.ops.size() < length) step();
    values_.results.push_back(operands_.back());
    if (choose(2) == 0) values_.results.push_back(any());
    return std::move(values_);
  }

 private:
  using Id = std::size_t;

  std::size_t choose(std::size_t n) { return static_cast<std::size_t>(random_() % n); }
  // Usually one of the latest values, otherwise any value.
  Id any() {
    const std::size_t of = choose(4) == 0 ? operands_.size() : std::min<std::size_t>(operands_.size(), 6);
    return operands_[operands_.size() - 1 - choose(of)];
  }
  const nn::Var& at(Id id) const { return values_.all[id]; }
  const Shape& shape(Id id) const { return at(id).shape(); }
  int rank(Id id) const { return static_cast<int>(shape(id).rank()); }

  Id add(const std::string& op, std::initializer_list<Id> in, nn::Var y, const std::string& attributes = "") {
    values_.ops.push_back(fmt::format("[\"{}\", [{}], {{{}}}]", op, fmt::join(in, ", "), attributes));
    if (is_floating(y.dtype())) operands_.push_back(values_.all.size());
    values_.all.push_back(std::move(y));
    return values_.all.size() - 1;
  }

  bool fits(Id a, Id b) const {
    for (int k = 1; k <= std::min(rank(a), rank(b)); ++k) {
      const auto of_a = shape(a)[-k], of_b = shape(b)[-k];
      if (of_a != of_b && of_a != 1 && of_b != 1) return false;
    }
    return true;
  }

  // A factor within -1 and 1.
  Id bounded(Id a) {
    using nn::Operand;
    static constexpr std::pair<const char*, nn::Var (*)(const Operand&)> kFunctions[] = {
        {"tanh", nn::tanh}, {"sigmoid", nn::sigmoid}, {"sin", nn::sin}, {"cos", nn::cos}, {"erf", nn::erf}};
    const auto& [name, function] = kFunctions[choose(std::size(kFunctions))];
    return add(name, {a}, function(at(a)));
  }
  Id function_of(Id a) {
    using nn::Operand;
    static constexpr std::pair<const char*, nn::Var (*)(const Operand&)> kFunctions[] = {
        {"silu", nn::silu}, {"gelu", nn::gelu},         {"relu", nn::relu},
        {"abs", nn::abs},   {"softplus", nn::softplus}, {"negate", nn::negate}};
    const auto& [name, function] = kFunctions[choose(std::size(kFunctions))];
    return add(name, {a}, function(at(a)));
  }
  Id plus(Id a, double number) { return add("add_number", {a}, at(a) + number, fmt::format("\"number\": {}", number)); }
  Id times(Id a, double number) {
    return add("multiply_number", {a}, at(a) * number, fmt::format("\"number\": {}", number));
  }
  Id cast(Id a, DType dtype) {
    return add("cast", {a}, nn::cast(at(a), dtype), fmt::format("\"dtype\": \"{}\"", name_of(dtype)));
  }
  Id binary(Id a, Id b) {
    switch (choose(8)) {
      case 0:
      case 1:
        return add("add", {a, b}, at(a) + at(b));
      case 2:
        return add("subtract", {a, b}, at(a) - at(b));
      case 3: {
        const Id factor = bounded(b);
        return add("multiply", {a, factor}, at(a) * at(factor));
      }
      case 4: {
        const Id by = plus(add("abs", {b}, nn::abs(at(b))), 1);
        return add("divide", {a, by}, at(a) / at(by));
      }
      case 5:
        return add("maximum", {a, b}, nn::maximum(at(a), at(b)));
      case 6:
        return add("minimum", {a, b}, nn::minimum(at(a), at(b)));
      default: {
        const Id condition = add("less", {a, b}, nn::less(at(a), at(b)));
        return add("where", {condition, b, a}, nn::where(at(condition), at(b), at(a)));
      }
    }
  }

  Id reduction(Id a) {
    std::vector<int> axes{static_cast<int>(choose(static_cast<std::size_t>(rank(a))))};
    if (axes[0] != 0 && choose(2) == 0) axes.push_back(0);
    const nn::Axes over(axes);
    const std::string attributes = fmt::format("\"axes\": [{}]", fmt::join(axes, ", "));
    switch (choose(9)) {
      case 0:
        return add("sum", {a}, nn::sum(at(a), over), attributes);
      case 1:
      case 2:
        return add("mean", {a}, nn::mean(at(a), over), attributes);
      case 3:
        return add("max", {a}, nn::max(at(a), over), attributes);
      case 4:
        return add("min", {a}, nn::min(at(a), over), attributes);
      case 5:
        return add("logsumexp", {a}, nn::logsumexp(at(a), over), attributes);
      case 6:
        return add("variance", {a}, nn::variance(at(a), over), attributes);
      case 7: {
        const Id factor = add("sigmoid", {a}, nn::sigmoid(at(a)));
        return add("product", {factor}, nn::product(at(factor), over), attributes);
      }
      default:
        return cast(add("argmax", {a}, nn::argmax(at(a), over), attributes), DType::f32);
    }
  }

  Id view(Id a) {
    if (rank(a) > 1 && choose(3) == 0) {
      const Shape before = shape(a), merged = shape(a).drop_front().drop_front().with_front(before[0] * before[1]);
      const Id reshaped = reshape(a, merged);
      return reshape(choose(2) == 0 ? times(reshaped, 1.25) : reduced_and_spread(reshaped), before);
    }
    if (choose(2) == 0) {
      const int axis = rank(a) - 1;
      return add("flip", {a}, nn::flip(at(a), {axis}), fmt::format("\"axes\": [{}]", axis));
    }
    if (rank(a) == 2) {
      const Id turned = add("transpose", {a}, nn::transpose(at(a)));
      const Id scaled = times(turned, 0.75);
      return add("transpose", {scaled}, nn::transpose(at(scaled)));
    }
    const Shape larger = shape(a).with_front(2);
    if (rank(a) > 2) return times(a, -0.5);
    return mean_of_first(add("broadcast_to", {a}, nn::broadcast_to(at(a), larger),
                             fmt::format("\"shape\": [{}]", fmt::join(larger, ", "))));
  }
  Id reshape(Id a, const Shape& to) {
    return add("reshape", {a}, at(a).reshape(to), fmt::format("\"shape\": [{}]", fmt::join(to, ", ")));
  }
  Id reduced_and_spread(Id a) {
    const Id largest = add("max", {a}, nn::max(at(a), {rank(a) - 1}), fmt::format("\"axes\": [{}]", rank(a) - 1));
    return add("subtract", {a, largest}, at(a) - at(largest));
  }
  Id mean_of_first(Id a) { return add("mean", {a}, nn::mean(at(a), {0}), "\"axes\": [0]"); }

  void step() {
    const Id a = any(), b = any();
    const std::size_t kind = choose(12);
    if (kind < 5 && fits(a, b)) {
      binary(a, b);
    } else if (kind < 7) {
      choose(2) == 0 ? bounded(a) : function_of(a);
    } else if (kind < 9 && rank(a) > 0) {
      reduction(a);
    } else if (kind == 9 && rank(a) > 0) {
      view(a);
    } else if (kind == 10) {
      constexpr DType kDTypes[] = {DType::bf16, DType::f16, DType::f64, DType::f32, DType::f32, DType::i32};
      const DType dtype = kDTypes[choose(6)];
      if (dtype == at(a).dtype()) return void(times(a, 1.5));
      const Id converted = cast(a, dtype);
      if (dtype == DType::i32) cast(converted, DType::f32);
    } else {
      const Id bound = bounded(a), squared = add("square", {bound}, nn::square(at(bound))), more = plus(squared, 0.5);
      switch (choose(4)) {
        case 0:
          add("rsqrt", {more}, nn::rsqrt(at(more)));
          break;
        case 1:
          add("sqrt", {more}, nn::sqrt(at(more)));
          break;
        case 2:
          add("log1p", {squared}, nn::log1p(at(squared)));
          break;
        default:
          add("exp", {bound}, nn::exp(at(bound)));
      }
    }
  }

  std::mt19937 random_;
  Values values_;
  std::vector<Id> operands_;  // the values of a floating dtype
};

inline RandomProgram::Values RandomProgram::operator()(const std::vector<nn::Var>& in) const {
  return Run(seed_, in).of(length_);
}

// The sum of all elements of the differentiable values, or Var() if there are none.
inline nn::Var RandomProgram::sum_of(const std::vector<nn::Var>& values) {
  nn::Var total;
  for (const nn::Var& value : values) {
    if (!value.requires_grad()) continue;
    const nn::Var part = nn::cast(nn::sum(value), DType::f32);
    total = total.value() ? total + part : part;
  }
  return total;
}

inline RandomProgram::Computed RandomProgram::with_gradients(const std::vector<nn::Var>& parameters) const {
  Computed computed;
  computed.values = (*this)(parameters);
  for (const std::size_t id : computed.values.results) computed.results.push_back(computed.values.all[id]);
  nn::Var loss = order > 0 ? sum_of(computed.results) : nn::Var();
  if (order == 2 && loss.value()) {
    computed.first_gradients = nn::gradients(loss, parameters);
    loss = sum_of(computed.first_gradients);
  }
  if (loss.value()) {
    backward(loss);
    computed.order = order;
  }
  for (auto* vars : {&computed.results, &computed.first_gradients}) {
    for (nn::Var& var : *vars) var = stop_gradient(var);
  }
  computed.values.all.clear();
  return computed;
}

}  // namespace giro::test
