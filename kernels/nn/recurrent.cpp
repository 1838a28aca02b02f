#include <giro/kernels/nn/recurrent.h>

#include <memory>
#include <source_location>

#include <giro/kernels/nn/functional.h>
#include <giro/runtime/step_context.h>

#include "kernels/nn/builtin.h"
#include "runtime/call_site.h"

namespace giro::nn {
namespace {

// A cell after its products: the new carry, from the old one, the parts of x kernel + bias, and h recurrent_kernel.
struct Lstm : LstmCell {
  static constexpr const char* kName = "lstm";
  static constexpr std::int64_t kGates = 4;
  static constexpr std::size_t kCarried = 2;
  static constexpr bool kAddsProducts = true;  // so both products have the same gradient

  Carry operator()(const Scope&, const Carry& carry, const Var& of_x, const Var& of_h) const {
    const std::vector<Var> x = split(of_x, kGates, -1), h = split(of_h, kGates, -1);
    const auto gate = [&](std::size_t k) { return x[k] + h[k]; };
    const Var c = sigmoid(gate(1)) * carry[1] + sigmoid(gate(0)) * tanh(gate(2));
    return {sigmoid(gate(3)) * tanh(c), c};
  }
};

struct Gru : GruCell {
  static constexpr const char* kName = "gru";
  static constexpr std::int64_t kGates = 3;
  static constexpr std::size_t kCarried = 1;
  static constexpr bool kAddsProducts = false;

  Carry operator()(const Scope& s, const Carry& carry, const Var& of_x, const Var& of_h) const {
    const std::vector<Var> x = split(of_x, kGates, -1), h = split(of_h, kGates, -1);
    const Var n_h = options.use_bias ? h[2] + s.same().param("recurrent_bias", {features}, options.bias_init) : h[2];
    const Var n = tanh(x[2] + sigmoid(x[0] + h[0]) * n_h), keep = sigmoid(x[1] + h[1]);
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
Var recurrent_kernel(const Scope& s, const Cell& cell) {
  return s.param("recurrent_kernel", {cell.features, Cell::kGates * cell.features}, cell.options.recurrent_init);
}

template <class Cell>
Carry step(const Scope& s, const Cell& cell, const Carry& carry, const Var& x) {
  const detail::CallSite site{std::source_location()};
  if (x.shape().rank() != 2 || carry.size() != Cell::kCarried) {
    throw_shape("{}: the input is {} with {} carried values, expected (B, I) with {}", Cell::kName,
                to_string(x.shape()), carry.size(), Cell::kCarried);
  }
  const Scope part = s.same();
  const Var of_x = product_with_inputs(part, cell, x);  // its leaves before the others, with any compiler
  return cell(part, carry, of_x, dense(carry[0], recurrent_kernel(part, cell), Var()));
}

Var gradient_of_kernel(const Var& before, const Var& dz) {
  const std::int64_t rows = dz.shape()[0] * dz.shape()[1];
  return matmul(before.reshape({rows, before.shape()[2]}), dz.reshape({rows, dz.shape()[2]}), {.transpose_a = true});
}

// The cell over a sequence.
template <class Cell>
Layer unrolled(const Cell& cell) {
  checked_features(Cell::kName, cell.features);
  return builtin(Cell::kName, [cell](Scope& s, const Var& x) {
    if (x.shape().rank() != 3 || x.shape()[1] == 0) {
      throw_shape("{}: the input is {}, expected (B, T, I) with at least one step", Cell::kName, to_string(x.shape()));
    }
    const std::int64_t rows = x.shape()[0], steps = x.shape()[1], width = Cell::kGates * cell.features;
    // Step after step, so that what a step reads and writes is contiguous.
    const Var by_step = transpose(x, {1, 0, 2}).reshape({steps * rows, x.shape()[2]});
    Var z = product_with_inputs(s, cell, by_step).reshape({steps, rows, width});
    const Var parameter = recurrent_kernel(s, cell),
              kernel = Cell::kAddsProducts ? stop_gradient(parameter) : parameter;
    // The hidden states before each step, as a constant: z keeps it alive, so it must not keep z alive.
    const auto before = std::make_shared<Var>();
    if (Cell::kAddsProducts) {
      // One product for all steps gives the gradient of the kernel. One that can be differentiated again has a term for
      // each step instead.
      z = with_gradient(z, {z, parameter}, [before](const Var&, const Var& dz, const std::vector<Var>& in) {
        const bool is_wanted = in[1].requires_grad() && !detail::StepScope::current().keeps_gradients;
        return Gradients{dz, is_wanted ? gradient_of_kernel(*before, dz) : Var()};
      });
    }
    const std::vector<Var> parts = split(z.reshape({steps * rows, width}), static_cast<int>(steps), 0);
    if (cell.options.carry && s.ranks() > 1) {
      throw_error(ErrorCode::unsupported,
                  "{}: a carry on {} ranks, which have different rows; a state holds the same values on all of them",
                  Cell::kName, s.ranks());
    }
    std::vector<Variable> kept;
    Carry carry;
    for (const char* name : {"h", "c"}) {
      if (carry.size() == Cell::kCarried) break;
      const Shape shape{rows, cell.features};
      if (cell.options.carry) {
        kept.push_back(s.variable("carry", name, shape, zeros()));
        carry.push_back(cast(kept.back().value(), z.dtype()));
      } else {
        carry.push_back(cast(broadcast_to(arange(1, s.stream(), DType::i32) * 0, shape), z.dtype()));
      }
    }
    // In the order of time, with the initial one at the end where the first step begins.
    const std::int64_t is_reversed = cell.options.reverse ? 1 : 0;
    std::vector<Var> hidden(static_cast<std::size_t>(steps) + 1);
    hidden[is_reversed ? hidden.size() - 1 : 0] = stop_gradient(carry[0]);
    for (std::int64_t i = 0; i < steps; ++i) {
      const std::int64_t t = is_reversed ? steps - 1 - i : i;
      Var of_x = parts[static_cast<std::size_t>(t)], h = carry[0];
      if (Cell::kAddsProducts) {
        of_x = with_gradient(of_x, {of_x, h, parameter}, [](const Var&, const Var& dz, const std::vector<Var>& in) {
          const bool is_wanted = in[2].requires_grad() && detail::StepScope::current().keeps_gradients;
          return Gradients{dz, in[1].requires_grad() ? matmul(dz, in[2], {.transpose_b = true}) : Var(),
                           is_wanted ? matmul(in[1], dz, {.transpose_a = true}) : Var()};
        });
        h = stop_gradient(h);
      }
      carry = cell(s, carry, of_x, dense(h, kernel, Var()));
      hidden[static_cast<std::size_t>(t + 1 - is_reversed)] = carry[0];
    }
    const Var all = stack(hidden, 0);
    if (s.mode() != Mode::eval) {
      for (std::size_t i = 0; i < kept.size(); ++i) kept[i].set(cast(carry[i], DType::f32));
    }
    const auto states = [&](std::int64_t begin) { return slice(all, {.begin = begin, .end = begin + steps}); };
    *before = stop_gradient(states(is_reversed));
    return transpose(states(1 - is_reversed), {1, 0, 2});
  });
}

}  // namespace

Carry LstmCell::operator()(Scope& s, const Carry& carry, const Var& x) const { return step(s, Lstm{*this}, carry, x); }
Carry GruCell::operator()(Scope& s, const Carry& carry, const Var& x) const { return step(s, Gru{*this}, carry, x); }

Layer lstm(std::int64_t features, const RecurrentOptions& options) { return unrolled(Lstm{{features, options}}); }
Layer gru(std::int64_t features, const RecurrentOptions& options) { return unrolled(Gru{{features, options}}); }

}  // namespace giro::nn
