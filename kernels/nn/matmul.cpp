#include <giro/kernels/nn/matmul.h>

#include <span>
#include <vector>

#include <giro/kernels/nn/elementwise.h>
#include <giro/kernels/nn/functional.h>

#include "kernels/expr/term.h"
#include "kernels/nn/apply.h"
#include "kernels/nn/arguments.h"
#include "kernels/ops.h"
#include "runtime/call_site.h"
#include "runtime/throw_error.h"

namespace giro::nn {
namespace {

// The product, stored in f32 or in the dtype of the operands.
Var product(const Var& a, const Var& b, const MatmulOptions& options, bool in_f32);

// The gradient of a product with respect to `operand`, which is itself a product, of a and b.
Var gradient_by(const Var& operand, const Var& a, const Var& b, const MatmulOptions& options) {
  const bool is_broadcast = matmul_shape(a.shape(), b.shape(), options) != operand.shape();
  return sum_to(product(a, b, options, is_broadcast || operand.grad_dtype() == DType::f32), operand.shape());
}

Var product(const Var& given_a, const Var& given_b, const MatmulOptions& options, bool in_f32) {
  const DType dtype = promoted(given_a.dtype(), given_b.dtype());
  const Var a = cast(on_stream_of(given_a, given_b), dtype), b = cast(on_stream_of(given_b, given_a), dtype);
  const bool ta = options.transpose_a, tb = options.transpose_b;
  const auto gradient = [ta, tb](const Var&, const Var& dy, const std::vector<Var>& in) {
    const Var &a = in[0], &b = in[1];
    Gradients terms{Var(), Var()};
    if (a.requires_grad()) {
      terms.terms()[0] = ta ? gradient_by(a, b, dy, {tb, true}) : gradient_by(a, dy, b, {false, !tb});
    }
    if (b.requires_grad()) {
      terms.terms()[1] = tb ? gradient_by(b, dy, a, {true, ta}) : gradient_by(b, a, dy, {!ta, false});
    }
    return terms;
  };
  Var y = Var::computed(in_f32 ? DType::f32 : dtype, matmul_shape(a.shape(), b.shape(), options), {a, b}, gradient);
  queue(ops::Matmul{y.value(), a.value(), b.value(), options, y.math()}, y.stream());
  return y;
}

}  // namespace

Var matmul(const Operand& given_a, const Operand& given_b, const MatmulOptions& given) {
  const detail::CallSite site(given_a.where);
  for (const Operand* operand : {&given_a, &given_b}) expect_value("matmul", *operand);
  Var a = given_a.var, b = given_b.var;
  const Shape shape = matmul_shape(a.shape(), b.shape(), given);
  const DType dtype = promoted(a.dtype(), b.dtype());
  if (dtype != DType::f32 && !is_16_bit(dtype)) {
    throw_error(ErrorCode::dtype_mismatch, "matmul: a is {}, b is {}, expected dtype f32, bf16 or f16",
                to_string(a.value()), to_string(b.value()));
  }
  MatmulOptions options = given;
  if (a.shape().rank() == 1) a = a.reshape({1, a.shape()[0]}), options.transpose_a = false;
  if (b.shape().rank() == 1) b = b.reshape({b.shape()[0], 1}), options.transpose_b = false;
  // Products with the same b are one product with a larger a.
  if (a.shape().rank() > 2 && b.shape().rank() == 2 && !options.transpose_a) {
    const Shape leading(std::span(a.shape().begin(), a.shape().end() - 1));
    a = a.reshape({leading.count(), a.shape()[-1]});
  }
  return product(a, b, options, false).reshape(shape);
}

}  // namespace giro::nn
