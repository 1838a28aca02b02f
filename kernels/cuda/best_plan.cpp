#include <cudnn.h>

#include <algorithm>
#include <utility>

#include <giro/runtime/error.h>

#include "kernels/cuda/alignment.h"
#include "kernels/cuda/graph_plan.h"
#include "runtime/cuda/stream.h"

namespace giro::cuda {
namespace {

// From the stream's arena, so that a recorded graph owns it. Empty if there is not enough memory.
std::optional<Buffer> workspace_of(const GraphPlan& plan, const Stream& stream) {
  const std::size_t bytes = plan.workspace_bytes();
  if (bytes == 0) return Buffer();
  try {
    return stream.allocate(bytes);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::out_of_memory) throw;
    return std::nullopt;
  }
}

}  // namespace

std::optional<std::string> run_best_plan(GraphSpec spec, const GraphArrays& arrays, const Stream& stream) {
  std::int64_t alignment = kMaxAlignment;
  for (const auto& [array, data] : arrays) alignment = std::min<std::int64_t>(alignment, alignment_of(data));
  std::visit([&](auto& of) { of.alignment = alignment; }, spec);
  CudaStream& owner = cuda_stream(stream);
  DiskCache& cache = DiskCache::instance();
  auto& plan = owner.plan<GraphPlan>(key_of(spec), [&] {
    std::optional<GraphPlan> found;
    owner.outside_capture([&] { found = GraphPlan::find(spec, describe_device(stream.device().index()), cache); });
    return std::move(*found);
  });
  while (plan) {
    const std::optional<Buffer> workspace = workspace_of(plan, stream);
    if (workspace && plan.run(owner.cudnn(), arrays, workspace->data())) {
      plan.store(cache);
      return std::nullopt;
    }
    owner.outside_capture([&] { plan.skip_plan(); });
  }
  return plan.failure_reason();
}

}  // namespace giro::cuda
