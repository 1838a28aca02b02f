#pragma once

#include <cstdint>

#include <giro/runtime/function_ref.h>

#include "kernels/expr/expression_op.h"
#include "kernels/narrow_layers.h"
#include "kernels/ops.h"
#include "runtime/program/held_op.h"

// Ops that run as expressions on a GPU and have their own loops on the CPU.
namespace giro::cuda {

using giro::as_expression, giro::is_expression;  // for narrow layers

// Whether the next functions apply: no window has padding or, for gradients, windows tile x.
bool is_expression(const ops::AvgPool& op);
bool is_expression(const ops::MaxPool& op);
bool is_expression(const ops::AvgPoolBackward& op);
bool is_expression(const ops::MaxPoolBackward& op);

expr::Expression as_expression(const ops::AvgPool& op);
expr::Expression as_expression(const ops::MaxPool& op);
expr::Expression as_expression(const ops::AvgPoolBackward& op);
expr::Expression as_expression(const ops::MaxPoolBackward& op);
expr::Expression as_expression(const ops::SumRows& op);

// With at least this many classes, cross-entropy is a generated kernel that splits each row among a block's warps or
// several blocks. With fewer, each warp computes a whole row.
inline constexpr std::int64_t kClassesOfBlocks = 1025;

// The losses of ops::SoftmaxCrossEntropy, and `factor` times its gradients, unless dlogits is empty.
expr::Expression cross_entropy_rows(const Tensor& losses, const Tensor& dlogits, const Tensor& logits,
                                    const Tensor& labels, double factor);

// If an op of a program runs as an expression, calls f with that and with the row to publish after it, or null.
void with_expression(const detail::HeldOp& op,
                     detail::FunctionRef<void(const expr::Expression&, const ops::Publish* tail)> f);

}  // namespace giro::cuda
