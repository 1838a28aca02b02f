#pragma once

#include <memory>
#include <vector>

#include <giro/kernels/nn/layer.h>

#include "kernels/nn/call_order.h"
#include "kernels/nn/declared_leaves.h"

namespace giro::test {

// The leaves of a layer for inputs of that shape; `output` becomes its output's shape.
inline std::vector<nn::DeclaredLeaf> leaves_of(const nn::Layer& layer, const Shape& input,
                                               const Stream& stream = Stream(Device::cpu()), Shape* output = nullptr) {
  const auto call = [&](const nn::Params& params, const auto& inputs) {
    const nn::Var y = layer(params, inputs.front().second);
    if (output != nullptr) *output = y.shape();
  };
  return nn::declared_leaves(call, {{"x", DType::f32, input}},
                             {.stream = stream, .mode = nn::Mode::train, .order = std::make_shared<nn::CallOrder>()});
}

}  // namespace giro::test
