#include <giro/kernels/nn/functional.h>

#include <span>
#include <vector>

#include <giro/kernels/nn/matmul.h>

#include "kernels/nn/weights.h"
#include "kernels/ops.h"
#include "runtime/call_site.h"
#include "runtime/throw_error.h"

namespace giro::nn {

Var dense(const Var& given, const Var& w, const Var& b, Activation f, Where where) {
  const detail::CallSite site(where);
  const Var x = as_weights("dense", given, w);
  if (x.shape().rank() < 1 || w.shape().rank() != 2) {
    throw_error(ErrorCode::shape_mismatch, "dense: x is {}, w is {}; expected (..., I) and (I, O)",
                to_string(x.value()), to_string(w.value()));
  }
  const std::span leading(x.shape().begin(), x.shape().end() - 1);
  const Shape rows{Shape(leading).count(), x.shape()[-1]};
  const auto gradient = [](const Var&, const Var& dz, const std::vector<Var>& in) {
    const auto queue_of = [&](const Tensor& dx, const Tensor& dw, const Tensor& db) {
      queue(ops::DenseBackward{dx, dw, db, dz.value(), dw ? in[0].value() : Tensor(), dx ? in[1].value() : Tensor(),
                               in[1].math()},
            dz.stream());
    };
    const auto of_dx = [](const Var&, const Var& g, const std::vector<Var>& of) {
      return Gradients{matmul(g, of[1]), matmul(g, of[0], {.transpose_a = true})};
    };
    const auto of_dw = [](const Var&, const Var& g, const std::vector<Var>& of) {
      return Gradients{matmul(of[1], g), matmul(of[0], g, {.transpose_b = true})};
    };
    return WeightedGradients{queue_of, of_dx, of_dw}(dz, in);
  };
  std::vector<std::int64_t> sizes(leading.begin(), leading.end());
  sizes.push_back(w.shape()[1]);
  const Var in_rows = x.shape() == rows ? x : x.reshape(rows);
  Var y = Var::computed(w.dtype(), {rows[0], w.shape()[1]}, {in_rows, w, b}, gradient);
  queue(ops::Dense{y.value(), in_rows.value(), w.value(), b.value(), w.math()}, y.stream());
  if (x.shape() != rows) y = y.reshape(Shape(sizes));
  return activation(y, f);
}

}  // namespace giro::nn
