#pragma once

// Streams and events. Work is queued and runs late: only when a call waits for it, and only as much as that call must
// wait for. So work that a program has not waited for has not happened yet.

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

// The end of an entry of a queue, and what is done by then. An empty point counts as reached.
struct Point {
  std::shared_ptr<Queue> queue;
  std::uint64_t entry = 0;
  Clock clock;
};

// The work of one stream, first in, first out.
class Queue : public std::enable_shared_from_this<Queue> {
 public:
  // Receives its place, for run_operation. Device memory can be opened while it runs. Returns false if it waits for
  // another process and must be called again.
  using Work = std::function<bool(const Place&)>;

  explicit Queue(bool blocking);

  void push(std::string name, Work work, std::vector<Point> after);
  Point end() const { return {std::const_pointer_cast<Queue>(shared_from_this()), queued_, latest_}; }
  bool is_done(std::uint64_t entry) const { return done_ >= entry; }
  bool is_idle() const { return pending_.empty(); }
  bool blocking() const { return blocking_; }  // the legacy stream and this one wait for each other

  // Runs one entry, after everything that it waits for in other queues, as far as possible without waiting for another
  // process. Returns whether it is done. Throws nothing: a failure loses the device.
  bool try_next();
  // Runs one entry to its end.
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
  bool running_ = false;  // whether a thread runs the front entry and may nap
  std::uint64_t queued_ = 0, done_ = 0;
  Clock latest_;  // at the end of the last entry
};

// Queues the work, or adds it as a node of this type to the graph that the stream is capturing. `launch` is the node's
// field. Throws CudaError.
void submit(cudaStream_t stream, std::string name, std::function<void()> work,
            cudaGraphNodeType type = cudaGraphNodeTypeKernel, bool touches_pageable_memory = false,
            std::string launch = "");

// The ends of all work that has not run.
std::vector<Point> all_pending();

// The entries of all queues are numbered in one sequence, from 1: the last entry, and the one that this thread is
// running, or 0.
std::uint64_t last_entry();
std::uint64_t current_entry();

// The host's waits: for a point, or for everything queued on the device.
void run_until(const Point& point);
void run_everything();

// Runs the work that nothing has waited for, as far as possible without other processes.
void run_remaining_work();

}  // namespace cuda_on_cpu

struct CUstream_st {
  std::shared_ptr<cuda_on_cpu::Queue> queue = {};
  std::shared_ptr<cuda_on_cpu::Capture> capture = {};  // null while not capturing
  std::vector<std::size_t> frontier = {};              // the captured nodes that the next one comes after
  std::vector<cudaGraphNode_t> dependencies = {};      // the same, as cudaStreamGetCaptureInfo last returned it
};

struct CUevent_st {
  bool timing = true;
  cuda_on_cpu::Point point = {};                       // where it was last recorded
  std::shared_ptr<double> seconds = {};                // when that point was reached
  std::shared_ptr<cuda_on_cpu::Capture> capture = {};  // the capture it was recorded in, if any, and after which nodes
  std::vector<std::size_t> frontier = {};
};

namespace cuda_on_cpu {

// The stream of the handle, or the legacy stream for null. Throws CudaError(cudaErrorInvalidResourceHandle).
CUstream_st& resolve(cudaStream_t stream, const char* call);

bool is_legacy(const CUstream_st& stream);

// Queues the work on a stream that is not capturing. It also waits for the points in `after`.
void enqueue(CUstream_st& stream, std::string name, Queue::Work work, std::vector<Point> after = {});

// The same for work that other processes take part in. Across all streams, it runs in the order in which the host
// queues it, which is the same in all processes. For the race check this does not count as an order.
void enqueue_collective(CUstream_st& stream, std::string name, Queue::Work work, std::vector<Point> after = {});

// Pauses between polls of another process. Other threads can make their calls meanwhile.
void nap();

}  // namespace cuda_on_cpu
