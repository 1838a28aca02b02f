#include <fmt/format.h>

#include <giro/runtime/error.h>

#include "distributed/internal/job.h"

// Stands in for NCCL in a build without it.
namespace giro::nccl {
namespace {
constexpr const char* kReason = "giro was built without NCCL, which GPUs need to communicate";
}

bool is_available() noexcept { return false; }

std::unique_ptr<detail::Job> start(const detail::Launch&, Device, std::chrono::milliseconds) {
  throw Error(ErrorCode::unsupported, fmt::format("World: {}", kReason));
}

std::string identity_of(Device device) { return to_string(device); }  // NOLINT: nothing will be sent to it

std::shared_ptr<detail::CommunicatorImpl> connect(const Communicator&, Device device, std::chrono::milliseconds) {
  throw Error(ErrorCode::unsupported, fmt::format("communicator on {}: {}", to_string(device), kReason));
}

void abandon_peers() noexcept {}

}  // namespace giro::nccl
