#include "runtime/internal/backend.h"

#include <utility>

#include <giro/runtime/error.h>

#include "runtime/internal/cuda_module.h"
#include "runtime/internal/profiling.h"

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

}  // namespace

std::vector<DeviceInfo> device_infos(std::string& reason) {
  if (const auto function = in_cuda_module<device_infos>()) return function(reason);
  reason = detail::no_cuda_module_reason();
  return {};
}
std::string disk_cache_error() {
  const auto function = in_cuda_module<disk_cache_error>();
  return function != nullptr ? function() : "";
}
std::optional<std::size_t> free_memory(Device device) {
  const auto function = in_cuda_module<free_memory>();
  return function != nullptr ? function(device) : std::nullopt;
}
void* allocate(Device device, std::size_t bytes, MemoryKind kind) { return call<allocate>(device, bytes, kind); }
void deallocate(Device device, void* data, MemoryKind kind) noexcept {
  if (const auto function = in_cuda_module<deallocate>()) function(device, data, kind);
}
std::shared_ptr<detail::StreamImpl> create_stream(Device device) { return call<create_stream>(device); }
std::shared_ptr<detail::GraphImpl> create_sequence(const std::vector<std::shared_ptr<detail::GraphImpl>>& parts) {
  return call<create_sequence>(parts);
}
CUstream_st* handle(const Stream& stream) { return call<handle>(stream); }
void check_queued(const std::string& what, const Stream& stream) {
  if (const auto function = in_cuda_module<check_queued>()) function(what, stream);
}
bool set_profiling(bool on) {
  const auto function = in_cuda_module<set_profiling>();
  return function != nullptr && function(on);
}
void push_range(const char* name) noexcept {
  if (const auto function = in_cuda_module<push_range>()) function(name);
}
void pop_range() noexcept {
  if (const auto function = in_cuda_module<pop_range>()) function();
}
void finish_launch_times() {
  if (const auto function = in_cuda_module<finish_launch_times>()) function();
}

}  // namespace giro::cuda
