#include <giro/distributed/communicator.h>

#include "distributed/job.h"
#include "runtime/cuda_module.h"
#include "runtime/throw_error.h"

// Stands in for NCCL where neither the library nor the CUDA backend's module contains it.
namespace giro::nccl {
namespace {
using detail::in_cuda_module;
constexpr const char* kReason = "giro was built without NCCL, which GPUs need to communicate";
}  // namespace

bool is_available() noexcept {
  const auto function = in_cuda_module<is_available>();
  return function != nullptr && function();
}

std::unique_ptr<detail::Job> start(const detail::Launch& launch, Device device, std::chrono::milliseconds timeout) {
  if (const auto function = in_cuda_module<start>()) return function(launch, device, timeout);
  throw_error(ErrorCode::unsupported, "World: {}", kReason);
}

std::string identity_of(Device device) {
  const auto function = in_cuda_module<identity_of>();
  return function != nullptr ? function(device) : to_string(device);  // nothing will be sent to it
}

std::shared_ptr<detail::CommunicatorImpl> connect(const Communicator& host, Device device,
                                                  std::chrono::milliseconds timeout) {
  if (const auto function = in_cuda_module<connect>()) return function(host, device, timeout);
  throw_error(ErrorCode::unsupported, "communicator on {}: {}", to_string(device), kReason);
}

void abandon_peers() noexcept {
  if (const auto function = in_cuda_module<abandon_peers>()) function();
}

}  // namespace giro::nccl
