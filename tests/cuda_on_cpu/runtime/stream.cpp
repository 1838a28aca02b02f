#include "tests/cuda_on_cpu/runtime/stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "tests/cuda_on_cpu/runtime/capture.h"
#include "tests/cuda_on_cpu/runtime/error.h"
#include "tests/cuda_on_cpu/runtime/graph.h"
#include "tests/cuda_on_cpu/runtime/handles.h"
#include "tests/cuda_on_cpu/runtime/memory.h"
#include "tests/cuda_on_cpu/runtime/run_when_idle.h"
#include "tests/cuda_on_cpu/runtime/seed.h"

namespace cuda_on_cpu {
namespace {

constexpr const char* kStream = "stream";
constexpr const char* kEvent = "event";

std::uint64_t queues_made = 0, entries = 0;
thread_local std::uint64_t running_entry = 0;

// The legacy default stream first, then the program's streams. Never destroyed.
std::vector<CUstream_st*>& streams() {
  static auto* const streams = new std::vector{new CUstream_st{std::make_shared<Queue>(true)}};
  return *streams;
}
CUstream_st& legacy() { return *streams().front(); }

// The queues of destroyed streams: CUDA still completes their work.
std::vector<std::shared_ptr<Queue>>& orphans() {
  static auto* const orphans = new std::vector<std::shared_ptr<Queue>>;
  return *orphans;
}

std::vector<std::shared_ptr<Queue>> queues() {
  // All later work comes after a queue that the host has waited for, so the queue is no longer needed.
  std::erase_if(orphans(),
                [](const auto& queue) { return queue->is_idle() && includes(host_clock(), queue->end().clock); });
  std::vector<std::shared_ptr<Queue>> all = orphans();
  for (const CUstream_st* stream : streams()) all.push_back(stream->queue);
  return all;
}

CUevent_st& resolve(cudaEvent_t event, const char* call) {
  expect_alive(kEvent, event, call);
  return *event;
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void create_stream(cudaStream_t* out, unsigned int flags) {
  if (out == nullptr || (flags & ~static_cast<unsigned int>(cudaStreamNonBlocking)) != 0) {
    fail(cudaErrorInvalidValue, "cudaStreamCreateWithFlags: unknown flags, or a null pointer for the stream");
  }
  *out = new CUstream_st{std::make_shared<Queue>((flags & cudaStreamNonBlocking) == 0)};
  streams().push_back(*out);
  add_handle(kStream, *out);
}

class RunningEntry {
 public:
  explicit RunningEntry(std::uint64_t number) : outer_(std::exchange(running_entry, number)) {}
  ~RunningEntry() { running_entry = outer_; }
  RunningEntry(const RunningEntry&) = delete;
  RunningEntry& operator=(const RunningEntry&) = delete;

 private:
  std::uint64_t outer_;
};

// Programs poll with queries. Each query runs one entry, so that polling ends.
void query(const Point& point, const char* call) {
  if (point.queue && !point.queue->is_done(point.entry)) {
    point.queue->try_next();
    throw_if_lost();
    if (!point.queue->is_done(point.entry)) fail(cudaErrorNotReady, fmt::format("{}: work is pending", call));
  }
  merge(host_clock(), point.clock);
}

}  // namespace

Queue::Queue(bool blocking) : id_(++queues_made), blocking_(blocking) {}

void Queue::push(std::string name, Work work, std::vector<Point> after) {
  Clock before = latest_;
  merge(before, host_clock());
  for (const Point& point : after) merge(before, point.clock);
  latest_ = before;
  latest_[id_] = ++queued_;
  pending_.push_back({std::move(name), std::move(work), std::move(after),
                      std::make_shared<const Clock>(std::move(before)), ++entries});
}

bool Queue::try_next() {
  if (running_) return false;
  running_ = true;
  const bool done = try_front();
  running_ = false;
  return done;
}

bool Queue::try_front() {
  Entry& entry = pending_.front();
  // The entry waits only for work that was queued before it, so this ends.
  for (const Point& point : entry.after) {
    while (point.queue && !point.queue->is_done(point.entry)) {
      if (!point.queue->try_next()) return false;
    }
  }
  if (entry.work && !device_is_lost()) {
    try {
      const DeviceAccess access;
      const RunningEntry number(entry.number);
      if (!entry.work({id_, done_ + 1, entry.before, {}})) return false;
    } catch (const CudaError& error) {
      lose_device({error.code, fmt::format("{}: {}", entry.name, error.why)});
    }
  }
  pending_.pop_front();
  ++done_;
  remove_freed_memory();
  return true;
}

void Queue::run_next() {
  const std::uint64_t entry = done_ + 1;
  while (!is_done(entry) && !try_next()) nap();
}

void enqueue(CUstream_st& stream, std::string name, Queue::Work work, std::vector<Point> after) {
  // The legacy stream and the blocking streams wait for everything that the other side has queued.
  if (is_legacy(stream)) {
    for (const std::shared_ptr<Queue>& other : queues()) {
      if (other != stream.queue && other->blocking()) after.push_back(other->end());
    }
  } else if (stream.queue->blocking()) {
    after.push_back(legacy().queue->end());
  }
  stream.queue->push(std::move(name), std::move(work), std::move(after));
}

std::uint64_t last_entry() { return entries; }
std::uint64_t current_entry() { return running_entry; }

std::vector<Point> all_pending() {
  std::vector<Point> pending;
  for (const std::shared_ptr<Queue>& queue : queues()) {
    if (!queue->is_idle()) pending.push_back(queue->end());
  }
  return pending;
}

void submit(cudaStream_t handle, std::string name, std::function<void()> work, cudaGraphNodeType type,
            bool touches_pageable_memory, std::string launch) {
  CUstream_st& stream = resolve(handle, name.c_str());
  if (is_legacy(stream)) forbid_legacy_during_capture(name.c_str());
  if (stream.capture) {
    return capture_node(stream, {.name = std::move(name),
                                 .type = type,
                                 .work = std::move(work),
                                 .touches_pageable_memory = touches_pageable_memory,
                                 .launch = std::move(launch)});
  }
  enqueue(stream, std::move(name), [work = std::move(work)](const Place& place) {
    run_operation(place, work);
    return true;
  });
}

void enqueue_collective(CUstream_st& stream, std::string name, Queue::Work work, std::vector<Point> after) {
  static Point last;
  after.push_back({last.queue, last.entry, {}});
  enqueue(stream, std::move(name), std::move(work), std::move(after));
  last = stream.queue->end();
  // Another process may wait for this one's part while this one waits for that process outside CUDA.
  run_when_idle(last);
}

void nap() { api_mutex().release_for(std::chrono::microseconds(100)); }

void run_until(const Point& point) {
  if (point.queue && !point.queue->is_done(point.entry)) {
    const DeviceAccess once_for_all;
    while (!point.queue->is_done(point.entry)) point.queue->run_next();
  }
  throw_if_lost();
  merge(host_clock(), point.clock);
}

void run_everything() {
  const auto still_busy = [] {
    std::vector<std::shared_ptr<Queue>> busy = queues();
    std::erase_if(busy, [](const std::shared_ptr<Queue>& queue) { return queue->is_idle(); });
    return busy;
  };
  if (auto busy = still_busy(); !busy.empty()) {
    const DeviceAccess once_for_all;
    // Runs entry by entry from streams drawn at random, because streams have no order among themselves.
    for (; !busy.empty(); busy = still_busy()) {
      busy[random_number() % busy.size()]->run_next();
    }
  }
  for (const std::shared_ptr<Queue>& queue : queues()) merge(host_clock(), queue->end().clock);
}

void run_remaining_work() {
  for (const std::shared_ptr<Queue>& queue : queues()) {
    while (!queue->is_idle() && queue->try_next()) {
    }
  }
}

CUstream_st& resolve(cudaStream_t stream, const char* call) {
  if (stream == nullptr || stream == cudaStreamLegacy) return legacy();
  if (stream == cudaStreamPerThread) {
    static thread_local CUstream_st* const own = streams().emplace_back(new CUstream_st{std::make_shared<Queue>(true)});
    return *own;
  }
  expect_alive(kStream, stream, call);
  return *stream;
}

bool is_legacy(const CUstream_st& stream) { return &stream == &legacy(); }

}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return api([&] { create_stream(stream, flags); });
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return api_of_release([&] {
    CUstream_st& stream = resolve(handle, "cudaStreamDestroy");
    if (is_legacy(stream) || handle == cudaStreamPerThread) {
      fail(cudaErrorInvalidResourceHandle, "cudaStreamDestroy of a default stream");
    }
    leave_capture(stream);
    orphans().push_back(stream.queue);
    remove_handle(kStream, handle);
    std::erase(streams(), handle);
    delete handle;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return api([&] {
    CUstream_st& stream = resolve(handle, "cudaStreamSynchronize");
    forbid_wait_during_capture(&stream, "cudaStreamSynchronize");
    run_until(stream.queue->end());
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return api([&] {
    CUstream_st& stream = resolve(handle, "cudaStreamQuery");
    forbid_wait_during_capture(&stream, "cudaStreamQuery");
    query(stream.queue->end(), "cudaStreamQuery");
  });
}

cudaError_t cudaDeviceSynchronize() {
  return api([&] {
    forbid_wait_during_capture(nullptr, "cudaDeviceSynchronize");
    run_everything();
    throw_if_lost();
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  return api([&] {
    constexpr unsigned int kFlags = cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
    const bool shared = (flags & cudaEventInterprocess) != 0, timing = (flags & cudaEventDisableTiming) == 0;
    if (event == nullptr || (flags & ~kFlags) != 0 || (shared && timing)) {
      fail(cudaErrorInvalidValue, "cudaEventCreateWithFlags: unknown flags, or a null pointer for the event");
    }
    if (shared) fail(cudaErrorNotSupported, "cudaEventCreateWithFlags: events to share are not emulated");
    *event = new CUevent_st{.timing = timing};
    add_handle(kEvent, *event);
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return api_of_release([&] {
    resolve(event, "cudaEventDestroy");
    remove_handle(kEvent, event);
    delete event;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t on) {
  return api([&] {
    CUevent_st& event = resolve(handle, "cudaEventRecord");
    CUstream_st& stream = resolve(on, "cudaEventRecord");
    if (is_legacy(stream)) forbid_legacy_during_capture("cudaEventRecord");
    if (stream.capture) return capture_record(stream, event);
    event.capture = nullptr;
    event.seconds = std::make_shared<double>(0);
    enqueue(stream, "event", [seconds = event.seconds](const Place&) {
      *seconds = now();
      return true;
    });
    event.point = stream.queue->end();
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t on, cudaEvent_t handle, unsigned int flags) {
  return api([&] {
    if (flags == cudaEventWaitExternal) {
      fail(cudaErrorNotSupported, "cudaStreamWaitEvent: nodes that wait for an event are not emulated");
    }
    if (flags != cudaEventWaitDefault) fail(cudaErrorInvalidValue, "cudaStreamWaitEvent: unknown flags");
    CUstream_st& stream = resolve(on, "cudaStreamWaitEvent");
    CUevent_st& event = resolve(handle, "cudaStreamWaitEvent");
    if (is_legacy(stream)) forbid_legacy_during_capture("cudaStreamWaitEvent");
    if (stream.capture || event.capture) return capture_wait(stream, event);
    if (event.point.queue) enqueue(stream, "wait for an event", nullptr, {event.point});
  });
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return api([&] {
    CUevent_st& event = resolve(handle, "cudaEventQuery");
    forbid_captured_event(event, "cudaEventQuery");
    forbid_during_capture("cudaEventQuery");
    query(event.point, "cudaEventQuery");
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return api([&] {
    CUevent_st& event = resolve(handle, "cudaEventSynchronize");
    forbid_captured_event(event, "cudaEventSynchronize");
    forbid_during_capture("cudaEventSynchronize");
    run_until(event.point);
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t first, cudaEvent_t last) {
  return api([&] {
    for (const cudaEvent_t handle : {first, last}) {
      CUevent_st& event = resolve(handle, "cudaEventElapsedTime");
      forbid_captured_event(event, "cudaEventElapsedTime");
      if (!event.timing || !event.point.queue) {
        fail(cudaErrorInvalidResourceHandle, "cudaEventElapsedTime: an event without timing, or never recorded");
      }
      query(event.point, "cudaEventElapsedTime");
    }
    *milliseconds = static_cast<float>(1e3 * (*last->seconds - *first->seconds));
  });
}
}
