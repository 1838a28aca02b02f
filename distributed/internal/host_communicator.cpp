#include "distributed/internal/host_communicator.h"

#include <cstddef>
#include <utility>

#include <giro/runtime/buffer.h>
#include <giro/runtime/native_stream.h>

namespace giro::detail {
namespace {

std::size_t bytes_of(std::int64_t count, DType dtype) { return static_cast<std::size_t>(count) * size_of(dtype); }

}  // namespace

HostCommunicator::HostCommunicator(std::shared_ptr<CommunicatorImpl> gpus)
    : CommunicatorImpl(gpus->rank, gpus->size, Device::cpu()), gpus_(std::move(gpus)), gpu_stream_(gpus_->device) {}

template <class Call>
void HostCommunicator::stage(std::size_t bytes, Part from, const void* in, Part to, void* out, Call&& call) {
  const Buffer buffer = gpu_stream_.allocate(bytes);
  auto* const copy = static_cast<char*>(buffer.data());
  gpu_stream_.copy(copy + from.offset, in, from.bytes);
  call(copy);
  gpu_stream_.synchronize();  // a failure must leave `out` unchanged
  gpu_stream_.copy(out, copy + to.offset, to.bytes);
  gpu_stream_.synchronize();
}

void HostCommunicator::all_reduce(void* data, std::int64_t count, DType dtype, Reduction reduction,
                                  const Stream& stream) {
  submit(stream, [self = shared_from_this(), data, count, dtype, reduction] {
    const Part all{0, bytes_of(count, dtype)};
    self->stage(all.bytes, all, data, all, data,
                [&](void* copy) { self->gpus_->all_reduce(copy, count, dtype, reduction, self->gpu_stream_); });
  });
}

void HostCommunicator::broadcast(void* data, std::int64_t count, DType dtype, int root, const Stream& stream) {
  submit(stream, [self = shared_from_this(), data, count, dtype, root] {
    const Part all{0, bytes_of(count, dtype)};
    self->stage(all.bytes, all, data, all, data,
                [&](void* copy) { self->gpus_->broadcast(copy, count, dtype, root, self->gpu_stream_); });
  });
}

void HostCommunicator::all_gather(void* out, const void* in, std::int64_t count, DType dtype, const Stream& stream) {
  submit(stream, [self = shared_from_this(), out, in, count, dtype] {
    const std::size_t bytes = bytes_of(count, dtype);
    const Part own{static_cast<std::size_t>(self->rank) * bytes, bytes};
    const Part all{0, static_cast<std::size_t>(self->size) * bytes};
    self->stage(all.bytes, own, in, all, out,
                [&](char* copy) { self->gpus_->all_gather(copy, copy + own.offset, count, dtype, self->gpu_stream_); });
  });
}

void HostCommunicator::reduce_scatter(void* out, const void* in, std::int64_t count, DType dtype, Reduction reduction,
                                      const Stream& stream) {
  submit(stream, [self = shared_from_this(), out, in, count, dtype, reduction] {
    const std::size_t bytes = bytes_of(count, dtype);
    const Part own{static_cast<std::size_t>(self->rank) * bytes, bytes};
    const Part all{0, static_cast<std::size_t>(self->size) * bytes};
    self->stage(all.bytes, all, in, own, out, [&](char* copy) {
      self->gpus_->reduce_scatter(copy + own.offset, copy, count, dtype, reduction, self->gpu_stream_);
    });
  });
}

void HostCommunicator::barrier(const Stream& stream) {
  submit(stream, [self = shared_from_this()] {
    self->gpus_->barrier(self->gpu_stream_);
    self->gpu_stream_.synchronize();
  });
}

std::shared_ptr<CommunicatorImpl> HostCommunicator::split(int color, int key) {
  return std::make_shared<HostCommunicator>(gpus_->split(color, key));
}

}  // namespace giro::detail
