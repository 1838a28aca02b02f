#pragma once

// Stream capture, and what CUDA forbids during a capture.

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>

struct CUstream_st;
struct CUgraph_st;
struct CUgraphNode_st;

namespace cuda_on_cpu {

struct Capture {
  cudaGraph_t graph = nullptr;
  bool owns_graph = true;  // until it ends; only with cudaStreamBeginCapture, not cudaStreamBeginCaptureToGraph
  CUstream_st* origin = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  unsigned long long id = 0;
  std::set<CUstream_st*> members;  // the origin, and the streams that forked from it
  std::string broken;              // what invalidated it
  bool ended = false;
};

// Adds the node to the stream's capture, after everything that the stream has captured so far. Throws CudaError if the
// capture is invalidated.
void capture_node(CUstream_st& stream, CUgraphNode_st node);

// Records in the event what the stream has captured so far.
void capture_record(CUstream_st& stream, CUevent_st& event);

// Makes the stream wait for the event. At least one of them belongs to a capture.
void capture_wait(CUstream_st& stream, CUevent_st& event);

// For calls that CUDA counts as unsafe because they may wait for earlier work. They are forbidden during a global
// capture of any thread and during a thread-local capture of the calling thread. Throws CudaError and invalidates the
// capture.
void forbid_during_capture(const char* call);

// For calls that CUDA does not declare safe in every capture mode. Also forbidden during any capture of the calling
// thread.
void forbid_in_own_capture(const char* call);

// For calls that wait for this stream, or for the whole device if it is null. Forbidden in every mode.
void forbid_wait_during_capture(CUstream_st* stream, const char* call);

// For work on the legacy stream, which would have to wait for every stream that is not cudaStreamNonBlocking.
void forbid_legacy_during_capture(const char* call);

// For calls that wait for, or query, an event that was recorded in a capture.
void forbid_captured_event(CUevent_st& event, const char* call);

// Whether a capture adds to this graph, or to a graph within one of its nodes.
bool is_captured_into(const CUgraph_st& graph);

// For a stream that is destroyed in the middle of a capture.
void leave_capture(CUstream_st& stream);

}  // namespace cuda_on_cpu

// Makes every capture pass each node that it adds to `seen`, as a JSON object: its name, with a kernel's blocks,
// threads and shared memory; its number; and the numbers of the nodes it comes after. Null stops this. Programs look
// this up with dlsym.
extern "C" void cuda_on_cpu_watch_captures(void (*seen)(const char* node));
