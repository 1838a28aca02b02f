#pragma once

#include <functional>

#include <giro/kernels/nn/layer.h>
#include <giro/kernels/nn/var.h>

namespace giro::nn {

// f(x), of which only the result is kept: the backward pass computes the rest again (rematerialization). That takes
// memory for one such part at a time instead of all, and the time of its forward pass once more; the gradients have the
// same bits.
//
//   h = nn::remat([block, params](const Var& h) { return block(params, h); }, h);
//
// backward() calls `f` a second time, and it has to compute the same then. What it captures by reference must live
// until then, so capture values: Vars, Params and layers are handles. backward() throws Error(invalid_argument) where
// its result then depends on other parameters or values.
Var remat(std::function<Var(const Var&)> f, const Var& x);

// A layer of the same name and parameters that does so.
Layer remat(Layer layer);

}  // namespace giro::nn
