#include "kernels/ops.h"

#include "runtime/dispatch.h"

namespace giro::ops {

#define GIRO_DEFINE_RUN(Op) \
  void run(const Op& op, const Stream& stream) { GIRO_DISPATCH(stream, run(op, stream)); }
GIRO_EACH_OP(GIRO_DEFINE_RUN)
#undef GIRO_DEFINE_RUN

}  // namespace giro::ops
