#pragma once

// The ops that are not expressions: each backend implements run() for each of them.

#include <giro/runtime/stream.h>

#include "kernels/attention_op.h"
#include "kernels/batch_op.h"
#include "kernels/conv2d_op.h"
#include "kernels/cross_entropy_op.h"
#include "kernels/cumulative_op.h"
#include "kernels/dense_op.h"
#include "kernels/gather_op.h"
#include "kernels/matmul_op.h"
#include "kernels/pool_op.h"
#include "kernels/publish_op.h"
#include "kernels/scatter_op.h"
#include "kernels/slots_op.h"
#include "kernels/sort_op.h"
#include "kernels/sum_rows_op.h"

// clang-format off
#define GIRO_EACH_OP(F) \
  F(Dense) \
  F(DenseBackward) \
  F(DenseBackwardAdd) \
  F(Matmul) \
  F(Conv2d) \
  F(Conv2dBackward) \
  F(AvgPool) \
  F(AvgPoolBackward) \
  F(MaxPool) \
  F(MaxPoolBackward) \
  F(Cumulative) \
  F(Attention) \
  F(AttentionBackward) \
  F(SumRows) \
  F(SoftmaxCrossEntropy) \
  F(MeanCrossEntropy) \
  F(GatherRows) \
  F(ArgSort) \
  F(ScatterAdd) \
  F(BatchIndices) \
  F(GatherBatch) \
  F(ReadSlot) \
  F(WriteSlot) \
  F(Publish) \
  F(RunAndPublish)
// clang-format on
#define GIRO_DECLARE_RUN(Op) void run(const ops::Op& op, const Stream& stream);
namespace giro::ops {
GIRO_EACH_OP(GIRO_DECLARE_RUN)  // on the stream's device
}
namespace giro::cpu {
GIRO_EACH_OP(GIRO_DECLARE_RUN)
}
namespace giro::cuda {
GIRO_EACH_OP(GIRO_DECLARE_RUN)
}
#undef GIRO_DECLARE_RUN
// GIRO_EACH_OP stays defined for kernels/no_cuda.
