#pragma once

// Streams and events. Work is queued and runs late: only when a call waits for it, and then only as much as
// that call must wait for. So what a program has not waited for has not happened, every time.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/cuda_on_cpu/runtime/order.h"

namespace cuda_on_cpu {

struct Capture;
class Queue;

// The end of one of a queue's entries, and what is done by then. An empty one is long past.
struct Point {
  std::shared_ptr<Queue> queue;
  std::uint64_t entry = 0;
  Clock clock;
};

// The work of one stream, first come, first served.
class Queue : public std::enable_shared_from_this<Queue> {
 public:
  // Gets its place for run_operation. Device memory is open while it runs. False: it waits for another
  // process, and is to be called again.
  using Work = std::function<bool(const Place&)>;

  explicit Queue(bool blocking);

  void push(std::string name, Work work, std::vector<Point> after);
  Point end() const { return {std::const_pointer_cast<Queue>(shared_from_this()), queued_, latest_}; }
  bool is_done(std::uint64_t entry) const { return done_ >= entry; }
  bool is_idle() const { return pending_.empty(); }
  bool blocking() const { return blocking_; }  // waits for the legacy stream, and the legacy stream for it

  // Runs one entry, after whatever it waits for in other queues, as far as it goes without waiting for
  // another process. Whether it is done. Throws nothing: a failure loses the device.
  bool try_next();
  // The same, to the entry's end.
  void run_next();

 private:
  struct Entry {
    std::string name;
    Work work;
    std::vector<Point> after;
    std::shared_ptr<const Clock> before;
    std::uint64_t number;
  };
  bool try_front();

  std::uint64_t id_;
  bool blocking_;
  std::deque<Entry> pending_;
  bool running_ = false;  // the front entry, in a thread that naps
  std::uint64_t queued_ = 0, done_ = 0;
  Clock latest_;  // of the last entry's end
};

// Queues the work, or adds it as a node of this type to the graph that the stream is capturing. Throws
// CudaError.
void submit(cudaStream_t stream, std::string name, std::function<void()> work,
            cudaGraphNodeType type = cudaGraphNodeTypeKernel, bool touches_pageable_memory = false);

// The ends of all work that has not run.
std::vector<Point> all_pending();

// Entries of all queues are numbered as they come, from 1: the last one's number, and that of the entry that
// this thread runs, or 0.
std::uint64_t last_entry();
std::uint64_t current_entry();

// As the host waits: for a point, for all that is queued on the device.
void run_until(const Point& point);
void run_everything();

// The work that nobody has waited for, as far as it goes without other processes.
void run_what_is_left();

}  // namespace cuda_on_cpu

struct CUstream_st {
  std::shared_ptr<cuda_on_cpu::Queue> queue = {};
  std::shared_ptr<cuda_on_cpu::Capture> capture = {};  // null while not capturing
  std::vector<std::size_t> frontier = {};              // the captured nodes that the next one comes after
  std::vector<cudaGraphNode_t> dependencies = {};      // the same, as cudaStreamGetCaptureInfo last told it
};

struct CUevent_st {
  bool timing = true;
  cuda_on_cpu::Point point = {};                       // where it was recorded last
  std::shared_ptr<double> seconds = {};                // when that point was reached
  std::shared_ptr<cuda_on_cpu::Capture> capture = {};  // if that was in a capture: which, and after which nodes
  std::vector<std::size_t> frontier = {};
};

namespace cuda_on_cpu {

// The stream behind the handle, the legacy one for null. Throws CudaError(cudaErrorInvalidResourceHandle).
CUstream_st& resolve(cudaStream_t stream, const char* call);

bool is_legacy(const CUstream_st& stream);

// Queues the work, after the points too, on a stream that is not capturing.
void enqueue(CUstream_st& stream, std::string name, Queue::Work work, std::vector<Point> after = {});

// The same for work that other processes take part in. It runs in the order in which the host queues it,
// whichever streams it is on: all processes have the same one. That orders nothing for the race check.
void enqueue_collective(CUstream_st& stream, std::string name, Queue::Work work, std::vector<Point> after = {});

// Between two looks at what another process does. Other threads can make their calls in the meantime.
void nap();

}  // namespace cuda_on_cpu
