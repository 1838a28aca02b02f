#pragma once

// The private interface between the runtime and its backends. giro::cpu and giro::cuda implement the same
// few functions; runtime/no_cuda stands in for giro::cuda where there is no toolkit.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <giro/runtime/buffer.h>
#include <giro/runtime/device.h>

struct CUstream_st;

namespace giro {
class Arena;
class Stream;
}  // namespace giro

namespace giro::detail {

class StreamImpl;

class GraphImpl {
 public:
  virtual ~GraphImpl() = default;
  virtual void replay(StreamImpl& stream, std::int64_t times) = 0;
  virtual std::size_t num_nodes() const = 0;
};

class EventImpl {
 public:
  virtual ~EventImpl() = default;
  virtual void record(StreamImpl& stream) = 0;
  virtual bool query() const = 0;
  virtual void synchronize() const = 0;
};

class StreamImpl {
 public:
  StreamImpl(Device device, std::shared_ptr<Arena> arena) : device(device), arena(std::move(arena)) {}
  virtual ~StreamImpl() = default;

  virtual void copy(void* dst, const void* src, std::size_t bytes) = 0;
  virtual void fill(void* dst, unsigned char value, std::size_t bytes) = 0;
  virtual void synchronize() = 0;
  virtual void wait(const EventImpl& event) = 0;
  virtual std::unique_ptr<EventImpl> create_event() = 0;

  virtual bool is_recording() const = 0;
  virtual void begin_recording() = 0;
  virtual std::unique_ptr<GraphImpl> end_recording() = 0;
  virtual void abandon_recording() noexcept = 0;

  const Device device;
  std::shared_ptr<Arena> arena;  // of stream-ordered temporaries; a recording's own while recording
};

}  // namespace giro::detail

namespace giro::cpu {
DeviceInfo device_info();
void* allocate(std::size_t bytes);
void deallocate(void* data) noexcept;
std::shared_ptr<detail::StreamImpl> create_stream();
}  // namespace giro::cpu

namespace giro::cuda {
// The GPUs of this machine; where there is none, says why in `reason`.
std::vector<DeviceInfo> device_infos(std::string& reason);
void* allocate(Device device, std::size_t bytes, MemoryKind kind);
void deallocate(Device device, void* data, MemoryKind kind) noexcept;
std::shared_ptr<detail::StreamImpl> create_stream(Device device);
// The cudaStream_t of a stream on a CUDA device, which becomes the current one.
CUstream_st* handle(const Stream& stream);
// After a user's code has queued work of its own: Error(device) naming `what` if CUDA has refused it, and
// Error(unsupported) if it has broken off the recording.
void check_queued(const std::string& what, const Stream& stream);
}  // namespace giro::cuda
