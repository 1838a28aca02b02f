#include "distributed/internal/host_communicator.h"

#include <cstddef>
#include <utility>

#include <giro/runtime/buffer.h>
#include <giro/runtime/native_stream.h>

namespace giro::detail {
HostCommunicator::HostCommunicator(std::shared_ptr<CommunicatorImpl> gpus)
    : CommunicatorImpl(gpus->rank, gpus->size, Device::cpu()), gpus_(std::move(gpus)), gpu_stream_(gpus_->device) {}

void HostCommunicator::run(const Collective& call, const Stream& stream) {
  submit(stream, [self = shared_from_this(), call] { self->run_now(call); });
}

void HostCommunicator::run_now(Collective call) {
  const bool gathers = call.kind == Collective::Kind::all_gather,
             scatters = call.kind == Collective::Kind::reduce_scatter;
  const std::size_t part = call.bytes(), all = gathers || scatters ? static_cast<std::size_t>(size) * part : part;
  const Buffer buffer = all > 0 ? gpu_stream_.allocate(all) : Buffer();
  auto* const copy = static_cast<char*>(buffer.data());
  char* const own = copy + static_cast<std::size_t>(rank) * part;
  const Collective given = call;
  call.in = gathers ? own : copy;
  call.out = scatters ? own : copy;
  if (all > 0) gpu_stream_.copy(gathers ? own : copy, given.in, gathers ? part : all);
  gpus_->run(call, gpu_stream_);
  gpu_stream_.synchronize();  // a failure must leave `out` unchanged
  if (all == 0) return;
  gpu_stream_.copy(given.out, call.out, scatters ? part : all);
  gpu_stream_.synchronize();
}

std::shared_ptr<CommunicatorImpl> HostCommunicator::split(int color, int key) {
  return std::make_shared<HostCommunicator>(gpus_->split(color, key));
}

}  // namespace giro::detail
