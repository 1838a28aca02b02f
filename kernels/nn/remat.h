#pragma once

#include <functional>

#include <giro/kernels/nn/layer.h>
#include <giro/kernels/nn/var.h>

namespace giro::nn {

// f(x), keeping only the result: the backward pass recomputes the intermediate values (rematerialization). Memory is
// then needed for one such part at a time instead of all, at the cost of one more forward pass of each part. The
// gradients have the same bits.
//
//   h = nn::remat([w, b](const Var& h) { return gelu(dense(h, w, b)); }, h);
//
// backward() calls `f` a second time; it must then compute the same. Anything captured by reference must outlive that
// call, so capture by value: Vars are handles. backward() throws Error(invalid_argument) if the second result depends
// on other parameters or values.
Var remat(std::function<Var(const Var&)> f, const Var& x);

// The layer, with the same name and parameters, under remat. When the backward pass calls it again, it draws the same
// random numbers and sets no variables. Error(unsupported) for a layer of several inputs or results.
Layer remat(Layer layer);

}  // namespace giro::nn
