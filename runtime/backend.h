#pragma once

// The private interface between the runtime and its backends. giro::cpu and giro::cuda implement the same few
// functions; runtime/no_cuda stands in for giro::cuda where there is no toolkit.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <giro/runtime/buffer.h>
#include <giro/runtime/device.h>
#include <giro/runtime/error.h>

#include "runtime/faults.h"
#include "runtime/held_values.h"
#include "runtime/peers.h"
#include "runtime/stream_recording.h"

struct CUstream_st;

namespace giro {
class Stream;
}

namespace giro::detail {

class GraphImpl;

// On the CPU, where work is done when it is queued, there is nothing to wait for.
class EventImpl {
 public:
  virtual ~EventImpl() = default;
  virtual void record(StreamImpl&) {}
  virtual bool query() const { return true; }
  virtual void synchronize() const {}

  bool marked = false;                     // it was recorded at least once
  std::uint64_t recorded_in = 0;           // the recording of the latest mark, or 0
  PeerList peers;                          // that the marked work waits for
  std::weak_ptr<const StreamImpl> stream;  // it was recorded on
};

// How far a program queued on a stream has progressed, for error messages: a device reports a failure at the next wait,
// without saying what failed.
class CallProgress {
 public:
  virtual ~CallProgress() = default;
  // "the step of train.cpp:31 had completed 41 of 57 calls", or empty if nothing is in progress.
  virtual std::string describe() const = 0;
};

class StreamImpl {
 public:
  StreamImpl(Device device, std::shared_ptr<Arena> arena) : device(device), arena(std::move(arena)) {}
  virtual ~StreamImpl() = default;

  virtual void copy(void* dst, const void* src, std::size_t bytes) = 0;
  virtual void fill(void* dst, unsigned char value, std::size_t bytes) = 0;
  virtual void synchronize() = 0;
  // Seconds that the device takes for the work that queue() queues here; waits for it.
  virtual double time(const std::function<void()>& queue) = 0;
  virtual void wait(const EventImpl& event) = 0;
  virtual std::shared_ptr<EventImpl> create_event() = 0;

  virtual void begin_recording() = 0;
  virtual std::shared_ptr<GraphImpl> end_recording() = 0;
  virtual void abandon_recording() noexcept = 0;
  // A second stream that runs concurrently, for parts of its recordings; null if there is none.
  virtual std::shared_ptr<StreamImpl> side_stream() { return nullptr; }

  // Whether work queued here belongs to the recording, which is the calling thread's.
  bool takes_part_in(const StreamRecording& recording) const noexcept {
    return &recording.stream == this || joined == recording.id;
  }
  bool is_recording() const noexcept {
    const StreamRecording* recording = StreamRecording::current();
    return recording != nullptr && takes_part_in(*recording);
  }
  // Call before `call` queues anything. Error(invalid_argument) if the thread's recording does not include this stream,
  // or another thread is recording on it.
  void check_usable(const char* call) const {
    const StreamRecording* recording = StreamRecording::current();
    const std::uint64_t recorded = recorded_as.load(std::memory_order_relaxed);
    if (recording == nullptr ? recorded == 0 : takes_part_in(*recording)) return;
    reject(call);
  }

  // The progress of a program that will be queued here, for errors.
  void add_progress(const std::shared_ptr<const CallProgress>& progress);
  std::vector<std::weak_ptr<const CallProgress>> progress() const {
    const std::lock_guard lock(progress_mutex_);
    return progress_;
  }

  const Device device;
  std::shared_ptr<Arena> arena;               // of stream-ordered temporaries
  std::weak_ptr<Arena> recordings;            // shared by all its recordings, which are replayed one after the other
  Faults faults;                              // reported by its work
  PeerList peers;                             // that its work, outside of recordings, waits for
  HeldValues held_values;                     // of memory that its work may change
  std::uint64_t joined = 0;                   // the latest recording of another stream that it has joined by an event
  std::atomic<std::uint64_t> recorded_as{0};  // the recording in progress on it, by any thread; 0: none

 private:
  [[noreturn]] void reject(const char* call) const;
  mutable std::mutex progress_mutex_;  // other threads that wait for an event may read the progress
  std::vector<std::weak_ptr<const CallProgress>> progress_;
};

// Later work on `stream` waits for the work queued on `other` so far, unless they are the same.
void wait_for_work(const Stream& stream, const Stream& other);

// Call while an Error(device) is caught: rethrows it with the programs in progress on the stream, and how to find the
// op.
[[noreturn]] void rethrow_with_progress(const StreamImpl& stream);

// Calls f(), which waits for the stream's work or launches it.
template <class F>
decltype(auto) with_progress_in_errors(const StreamImpl& stream, F&& f) {
  try {
    return f();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::device) throw;
    rethrow_with_progress(stream);
  }
}

}  // namespace giro::detail

namespace giro::cpu {
DeviceInfo device_info();
// Free bytes of host memory now, if known.
std::optional<std::size_t> free_memory();
void* allocate(std::size_t bytes);
void deallocate(void* data) noexcept;
// Zeros in pages of their own, which take memory once they are written. All of them go back to the system with the last
// owner; blocks of the heap may stay resident. Error(out_of_memory).
std::shared_ptr<void> map(std::size_t bytes);
// Requests huge pages, which reduce TLB misses in a pass over memory. Without support for them, nothing changes.
void use_large_pages(void* data, std::size_t bytes);
std::shared_ptr<detail::StreamImpl> create_stream();
// Queues a host function on a CPU stream.
void submit_function(const Stream& stream, std::function<void()> function);
}  // namespace giro::cpu

namespace giro::cuda {
// The GPUs of this machine alone.
Discovery discover_gpus();
std::string disk_cache_error();
std::optional<std::size_t> free_memory(Device device);
void* allocate(Device device, std::size_t bytes, MemoryKind kind);
void deallocate(Device device, void* data, MemoryKind kind) noexcept;
std::shared_ptr<detail::StreamImpl> create_stream(Device device);
// The cudaStream_t of a stream on a CUDA device, which becomes the current one.
CUstream_st* handle(const Stream& stream);
// Call after user code has queued its own work: Error(device) naming `what` if CUDA refused it, Error(unsupported) if
// it broke the recording.
void check_queued(const std::string& what, const Stream& stream);

// For profiles and traces. Without a GPU nothing happens.
// Returns whether there is a GPU. Error(device).
bool set_profiling(bool on);
// An NVTX range in the calling thread.
void push_range(const char* name) noexcept;
void pop_range() noexcept;
// Waits for the launches that were timed since the trace began, and adds them to it. Error(device).
void finish_launch_times();
}  // namespace giro::cuda
