#pragma once

#include <functional>
#include <tuple>
#include <vector>

#include <giro/kernels/nn/elementwise.h>
#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/var.h>

#include "runtime/throw_error.h"

// What layers with a weight and a bias share.
namespace giro::nn {

// Those gradients of (x, w, b) that are required. One op computes the gradients of the weight and its bias, another the
// gradient of the input, so they need not wait for each other. of_dx and of_dw are the gradients of dx with respect to
// (dz, w) and of dw with respect to (dz, x).
struct WeightedGradients {
  std::function<void(const Tensor& dx, const Tensor& dw, const Tensor& db)> queue;
  Gradient of_dx, of_dw;

  Gradients operator()(const Var& dz, const std::vector<Var>& in) const {
    const auto [x, w, b] = std::tie(in[0], in[1], in[2]);
    std::vector<Var> terms(3);
    if (w.requires_grad()) terms[1] = Var::computed(w.grad_dtype(), w.shape(), {dz, x}, of_dw);
    if (b.requires_grad()) {
      const Gradient of_db = [](const Var&, const Var& g, const std::vector<Var>& of) {
        return broadcast_to(g, of[0].shape());
      };
      terms[2] = Var::computed(b.grad_dtype(), b.shape(), {dz}, of_db);
    }
    if (w.requires_grad() || b.requires_grad()) queue({}, terms[1].value(), terms[2].value());
    if (x.requires_grad()) {
      terms[0] = Var::computed(x.dtype(), x.shape(), {dz, w}, of_dx);
      queue(terms[0].value(), {}, {});
    }
    return terms;
  }
};

// Layers compute on floats, not on the bytes of images.
inline void has_floats(const char* op, const Var& x) {
  if (is_floating(x.dtype())) return;
  throw_error(ErrorCode::dtype_mismatch,
              "{}: x is {}, expected a floating dtype; for bytes, put nn::scale(1 / 255.f) before it", op,
              to_string(x.value()));
}

// x converted to the dtype of w, for the layer `op`.
inline Var as_weights(const char* op, const Var& x, const Var& w) {
  has_floats(op, x);
  const auto fits = [](DType dtype) { return dtype == DType::f32 || is_16_bit(dtype); };
  if (x.dtype() == w.dtype() || !fits(x.dtype()) || !fits(w.dtype())) return x;
  return cast(w.has_stream() ? x.on(w.stream()) : x, w.dtype());
}

}  // namespace giro::nn
