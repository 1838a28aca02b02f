#pragma once

// Stream capture and what CUDA forbids while one is under way.

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
  bool owns_graph = true;  // until it has ended: cudaStreamBeginCapture, not cudaStreamBeginCaptureToGraph
  CUstream_st* origin = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  unsigned long long id = 0;
  std::set<CUstream_st*> members;  // the origin, and the streams that forked from it
  std::string broken;              // what invalidated it
  bool ended = false;
};

// Adds the node to the stream's capture, after what the stream has captured so far. Throws CudaError if the
// capture is invalidated.
void capture_node(CUstream_st& stream, CUgraphNode_st node);

// The event stands for what the stream has captured so far.
void capture_record(CUstream_st& stream, CUevent_st& event);

// The stream, capturing, meets an event of the same or another capture, or of none.
void capture_wait(CUstream_st& stream, CUevent_st& event);

// For calls that CUDA counts as unsafe (they may wait for work that was queued earlier): forbidden during a
// global capture of any thread, and a thread-local one of the calling thread. Throws CudaError and
// invalidates the capture.
void forbid_during_capture(const char* call);

// For calls that CUDA does not say to be safe in a capture of any mode: forbidden during one of the calling thread.
void forbid_in_own_capture(const char* call);

// For waiting: for this stream if it is not null, else for the whole device. Forbidden in every mode.
void forbid_wait_during_capture(CUstream_st* stream, const char* call);

// For work on the legacy stream, which would have to wait for every stream that is not cudaStreamNonBlocking.
void forbid_legacy_during_capture(const char* call);

// For waiting for, or asking about, an event that was recorded in a capture.
void forbid_captured_event(CUevent_st& event, const char* call);

// Whether a capture adds to this graph, or to one within a node of it.
bool is_captured_into(const CUgraph_st& graph);

// A stream that goes in the middle of a capture.
void leave_capture(CUstream_st& stream);

}  // namespace cuda_on_cpu
