#include "kernels/ops.h"
#include "kernels/expr/expression_op.h"
#include "kernels/precision_support.h"
#include "kernels/prepare.h"
#include "runtime/cuda_module.h"

// Stands in for the ops of the CUDA backend. They are only called with a stream on a CUDA device, so its module is
// loaded.
namespace giro::cuda {
namespace {

using detail::in_cuda_module;

template <class Op>
using Run = void (*)(const Op&, const Stream&);

}  // namespace

#define GIRO_RUN_IN_MODULE(Op) \
  void run(const ops::Op& op, const Stream& stream) { in_cuda_module<Run<ops::Op>(run)>()(op, stream); }
GIRO_EACH_OP(GIRO_RUN_IN_MODULE)
#undef GIRO_RUN_IN_MODULE

void run(const expr::Expression& expression, const Stream& stream) {
  in_cuda_module<Run<expr::Expression>(run)>()(expression, stream);
}
void prepare(const std::vector<detail::HeldOp>& ops, const Stream& stream) {
  in_cuda_module<Run<std::vector<detail::HeldOp>>(prepare)>()(ops, stream);
}
std::string unsupported_reason(Precision precision, Device device) {
  return in_cuda_module<unsupported_reason>()(precision, device);
}

}  // namespace giro::cuda
