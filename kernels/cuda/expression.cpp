#include "kernels/cuda/expression.h"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/expression_source.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/kernels.h"
#include "runtime/cuda/stream.h"

namespace giro::cuda {
namespace {

char* begin_of(const pointwise::Access& access) {
  return static_cast<char*>(access.memory.raw()) +
         access.layout.offset * static_cast<std::int64_t>(size_of(access.memory.dtype()));
}

}  // namespace

void run(const pointwise::Expression& expression, const Stream& stream) {
  const ExpressionSource source = source_of(expression);
  if (source.count == 0) return;
  const cudaStream_t queue = handle(stream);
  const Buffer workspace = source.workspace_bytes > 0 ? stream.allocate(source.workspace_bytes) : Buffer();

  std::vector<void*> addresses;
  for (const pointwise::Access& read : expression.reads) addresses.push_back(begin_of(read));
  for (const pointwise::Expression::Write& write : expression.writes) addresses.push_back(begin_of(write.to));
  if (source.workspace_bytes > 0) addresses.push_back(workspace.data());
  auto count = source.count;
  auto narrow_count = static_cast<std::int32_t>(count);
  std::vector<void*> arguments;
  for (void*& address : addresses) arguments.push_back(&address);
  arguments.push_back(source.has_wide_count ? static_cast<void*>(&count) : &narrow_count);

  for (const ExpressionSource::Kernel& kernel : source.kernels) {
    const auto function =
        reinterpret_cast<const void*>(Kernels::of_process().find(stream.device(), source.text, kernel.name));
    check(cudaLaunchKernel(function, kernel.blocks, kernel.threads, arguments.data(), 0, queue), kernel.name.c_str());
  }
}

void prepare(const std::vector<pointwise::Expression>& expressions, Device device) {
  std::vector<std::string> sources;
  for (const pointwise::Expression& expression : expressions) sources.push_back(source_of(expression).text);
  Kernels::of_process().prepare(device, sources);
}

}  // namespace giro::cuda
