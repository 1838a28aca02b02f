#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <giro/kernels/nn/scope.h>
#include <giro/runtime/state.h>

namespace giro::nn {

// The leaves that a model requests when it is called with inputs of these dtypes and shapes. Nothing is computed. Takes
// the stream, mode and dtype of parameters from `values`, and finds its order if one is given.
std::vector<DeclaredLeaf> declared_leaves(
    const std::function<void(const Params&, const std::vector<std::pair<std::string, Tensor>>&)>& model,
    const std::vector<LeafSpec>& inputs, ScopeValues values);

}  // namespace giro::nn
