#pragma once

#include <string>
#include <utility>
#include <vector>

#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/layer.h>

#include "tests/kernels/op_test.h"

namespace giro::nn {

using Vars = std::vector<Var>;

// Floating inputs are drawn from [low, high) in the case's dtype, others from [low, high].
struct Input {
  std::string name;
  Shape shape;
  double low = -1, high = 1;
  DType dtype = DType::f32;
};

// Compared with the JAX function of the same name. A function of values is a layer without parameters.
struct Case {
  std::string name;
  std::vector<Input> inputs;
  Layer layer;
  bool has_bf16 = true;
};

template <class F>
Case op(std::string name, std::vector<Input> inputs, F f, bool has_bf16 = true) {
  return {std::move(name), std::move(inputs), Layer([f = std::move(f)](Scope&, const Vars& in) {
            if constexpr (std::is_invocable_r_v<Var, const F&, const Vars&>) {
              return Vars{f(in)};
            } else {
              return f(in);
            }
          }),
          has_bf16};
}

std::vector<Case> op_cases();
std::vector<Case> loss_cases();
std::vector<Case> layer_cases();

}  // namespace giro::nn
