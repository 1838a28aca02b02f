#include "runtime/internal/backend.h"

#include <giro/runtime/error.h>

#include "runtime/internal/profiling.h"

// Stands in for the CUDA backend in a build without the toolkit: there are no devices, so nothing can be allocated on
// one.
namespace giro::cuda {
namespace {
constexpr const char* kReason = "giro was built without the CUDA toolkit";
}

std::vector<DeviceInfo> device_infos(std::string& reason) {
  reason = kReason;
  return {};
}
std::string disk_cache_error() { return {}; }
std::optional<std::size_t> free_memory(Device) { return {}; }
void* allocate(Device, std::size_t, MemoryKind) { throw Error(ErrorCode::device, kReason); }
void deallocate(Device, void*, MemoryKind) noexcept {}
std::shared_ptr<detail::StreamImpl> create_stream(Device) { throw Error(ErrorCode::device, kReason); }
std::shared_ptr<detail::GraphImpl> create_sequence(const std::vector<std::shared_ptr<detail::GraphImpl>>&) {
  throw Error(ErrorCode::device, kReason);
}
CUstream_st* handle(const Stream&) { throw Error(ErrorCode::device, kReason); }
void check_queued(const std::string&, const Stream&) {}
bool set_profiling(bool) { return false; }
void push_range(const char*) noexcept {}
void pop_range() noexcept {}
void finish_launch_times() {}

}  // namespace giro::cuda
