#include <giro/kernels/nn/recurrent.h>

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include <giro/kernels/nn/functional.h>
#include <giro/runtime/error.h>

namespace giro::nn {
namespace {

// A cell after the product with its input: what it makes of the carry and of z = x kernel + bias.
struct Lstm {
  static constexpr const char* kName = "lstm";
  static constexpr std::int64_t kGates = 4;
  static constexpr std::size_t kCarried = 2;
  std::int64_t features;
  RecurrentOptions options;

  Carry operator()(const Scope& s, const Carry& carry, const Var& z) const {
    const Var kernel = s.param("recurrent_kernel", {features, kGates * features}, options.recurrent_init);
    const std::vector<Var> gates = split(z + dense(carry[0], kernel, Var()), kGates, -1);
    const Var c = sigmoid(gates[1]) * carry[1] + sigmoid(gates[0]) * tanh(gates[2]);
    return {sigmoid(gates[3]) * tanh(c), c};
  }
};

struct Gru {
  static constexpr const char* kName = "gru";
  static constexpr std::int64_t kGates = 3;
  static constexpr std::size_t kCarried = 1;
  std::int64_t features;
  RecurrentOptions options;

  Carry operator()(const Scope& s, const Carry& carry, const Var& z) const {
    const Var kernel = s.param("recurrent_kernel", {features, kGates * features}, options.recurrent_init);
    const std::vector<Var> of_x = split(z, kGates, -1), of_h = split(dense(carry[0], kernel, Var()), kGates, -1);
    const Var n_h = options.use_bias ? of_h[2] + s.param("recurrent_bias", {features}, options.bias_init) : of_h[2];
    const Var n = tanh(of_x[2] + sigmoid(of_x[0] + of_h[0]) * n_h), keep = sigmoid(of_x[1] + of_h[1]);
    return {(1 - keep) * n + keep * carry[0]};
  }
};

template <class Cell>
Var product_with_inputs(const Scope& s, const Cell& cell, const Var& x) {
  const std::int64_t inputs = x.shape()[-1], width = Cell::kGates * cell.features;
  const Var kernel = s.param("kernel", {inputs, width}, cell.options.kernel_init);
  const Var bias = cell.options.use_bias ? s.param("bias", {width}, cell.options.bias_init) : Var();
  return dense(x, kernel, bias);
}

template <class Cell>
Carry step(const Scope& s, const Cell& cell, const Carry& carry, const Var& x) {
  if (x.shape().rank() != 2 || carry.size() != Cell::kCarried) {
    throw Error(ErrorCode::shape_mismatch,
                fmt::format("{}: the input is {} with {} values carried, expected (B, I) with {}", Cell::kName,
                            to_string(x.shape()), carry.size(), Cell::kCarried));
  }
  return cell(s, carry, product_with_inputs(s, cell, x));
}

template <class Cell>
struct OverTime {
  using OfGiro = void;
  Cell cell;

  Var operator()(Scope& s, const Var& x) const {
    if (x.shape().rank() != 3 || x.shape()[1] == 0) {
      throw Error(ErrorCode::shape_mismatch,
                  fmt::format("{}: the input is {}, expected (B, T, I) with at least one step", Cell::kName,
                              to_string(x.shape())));
    }
    const std::int64_t rows = x.shape()[0], steps = x.shape()[1], width = Cell::kGates * cell.features;
    const Var z = product_with_inputs(s, cell, x.reshape({rows * steps, x.shape()[2]})).reshape({rows, steps, width});
    const std::vector<Var> by_step = split(z, static_cast<int>(steps), 1);
    std::vector<Variable> kept;
    Carry carry;
    for (const char* name : {"h", "c"}) {
      if (carry.size() == Cell::kCarried) break;
      const Shape shape{rows, cell.features};
      if (cell.options.carry) {
        kept.push_back(s.variable("carry", name, shape, zeros()));
        carry.push_back(cast(kept.back().value(), z.dtype()));
      } else {
        carry.push_back(cast(broadcast_to(zero(s), shape), z.dtype()));
      }
    }
    std::vector<Var> outputs(static_cast<std::size_t>(steps));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const std::size_t t = cell.options.reverse ? outputs.size() - 1 - i : i;
      carry = cell(s, carry, by_step[t].reshape({rows, width}));
      outputs[t] = carry[0];
    }
    if (s.training()) {
      for (std::size_t i = 0; i < kept.size(); ++i) kept[i].set(cast(carry[i], DType::f32));
    }
    return stack(outputs, 1);
  }

  // A scalar on the stream.
  static Var zero(const Scope& s) { return constant(HostArray(std::vector<float>{0}, Shape{}), s.stream()); }
};

std::int64_t checked(const char* layer, std::int64_t features) {
  if (features >= 1) return features;
  throw Error(ErrorCode::invalid_argument, fmt::format("{}: {} features, expected at least 1", layer, features));
}

}  // namespace

Carry LstmCell::operator()(Scope& s, const Carry& carry, const Var& x) const {
  return step(s, Lstm{features, options}, carry, x);
}
Carry GruCell::operator()(Scope& s, const Carry& carry, const Var& x) const {
  return step(s, Gru{features, options}, carry, x);
}

Layer lstm(std::int64_t features, const RecurrentOptions& options) {
  return Layer("lstm", OverTime<Lstm>{{checked("lstm", features), options}});
}
Layer gru(std::int64_t features, const RecurrentOptions& options) {
  return Layer("gru", OverTime<Gru>{{checked("gru", features), options}});
}

}  // namespace giro::nn
