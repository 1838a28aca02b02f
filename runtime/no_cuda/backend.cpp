#include "runtime/backend.h"

#include <utility>

#include <giro/runtime/error.h>

#include "runtime/cuda_module.h"
#include "runtime/program/graph_impl.h"

// Stands in for the CUDA backend. Without its module there are no devices, so nothing can be allocated on one.
namespace giro::cuda {
namespace {

using detail::in_cuda_module;

// Calls the module's function. Error(device) without the module.
template <auto* kStandIn, class... Arguments>
auto call(Arguments&&... arguments) {
  const auto function = in_cuda_module<kStandIn>();
  if (function == nullptr) throw Error(ErrorCode::device, detail::no_cuda_module_reason());
  return function(std::forward<Arguments>(arguments)...);
}

// Without the module these return `otherwise`, or do nothing.
template <auto* kStandIn, class Result, class... Arguments>
Result call_or(Result otherwise, Arguments&&... arguments) {
  const auto function = in_cuda_module<kStandIn>();
  return function != nullptr ? function(std::forward<Arguments>(arguments)...) : otherwise;
}
template <auto* kStandIn, class... Arguments>
void call_if_there(Arguments&&... arguments) {
  if (const auto function = in_cuda_module<kStandIn>()) function(std::forward<Arguments>(arguments)...);
}

}  // namespace

Discovery discover_gpus() { return call_or<discover_gpus>(Discovery{{}, detail::no_cuda_module_reason()}); }
std::string disk_cache_error() { return call_or<disk_cache_error>(std::string()); }
std::optional<std::size_t> free_memory(Device device) {
  return call_or<free_memory>(std::optional<std::size_t>(), device);
}
void* allocate(Device device, std::size_t bytes, MemoryKind kind) { return call<allocate>(device, bytes, kind); }
void deallocate(Device device, void* data, MemoryKind kind) noexcept { call_if_there<deallocate>(device, data, kind); }
std::shared_ptr<detail::StreamImpl> create_stream(Device device) { return call<create_stream>(device); }
std::shared_ptr<detail::GraphImpl> create_sequence(const std::vector<std::shared_ptr<detail::GraphImpl>>& parts) {
  return call<create_sequence>(parts);
}
CUstream_st* handle(const Stream& stream) { return call<handle>(stream); }
void check_queued(const std::string& what, const Stream& stream) { call_if_there<check_queued>(what, stream); }
bool set_profiling(bool on) { return call_or<set_profiling>(false, on); }
void push_range(const char* name) noexcept { call_if_there<push_range>(name); }
void pop_range() noexcept { call_if_there<pop_range>(); }
void finish_launch_times() { call_if_there<finish_launch_times>(); }

}  // namespace giro::cuda
