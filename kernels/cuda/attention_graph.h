#pragma once

#include "kernels/attention_op.h"
#include "kernels/cuda/graph_plan.h"

namespace giro::cuda::attention {

// Whether cuDNN may compute it. cuDNN's own masks and dropout give different numbers.
template <class Op>
bool may_use_cudnn(const Op& op) {
  const ops::AttentionOptions& options = op.options;
  return is_16_bit(op.query.dtype()) && op.heads().key.shape().count() > 0 && options.dropout == 0 && !options.mask &&
         !options.key_lengths;
}

template <class Op>
AttentionGraph graph_of(const Op& op, AttentionGraph::Result result) {
  const ops::AttentionHeads heads = op.heads();
  return {result,
          heads.query.shape(),
          heads.key.shape(),
          op.query.dtype(),
          op.options.scale,
          op.options.is_causal,
          op.options.packed_queries > 0};
}

}  // namespace giro::cuda::attention
