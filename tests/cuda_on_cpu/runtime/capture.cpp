#include "tests/cuda_on_cpu/runtime/capture.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "tests/cuda_on_cpu/runtime/error.h"
#include "tests/cuda_on_cpu/runtime/graph.h"
#include "tests/cuda_on_cpu/runtime/handles.h"
#include "tests/cuda_on_cpu/runtime/stream.h"

namespace cuda_on_cpu {
namespace {

std::vector<std::shared_ptr<Capture>> under_way;
void (*watcher)(const char* node) = nullptr;

[[noreturn]] void break_capture(Capture& capture, cudaError_t code, std::string why) {
  if (capture.broken.empty()) capture.broken = why;
  fail(code, std::move(why));
}

void expect_whole(const Capture& capture) {
  if (!capture.broken.empty()) {
    fail(cudaErrorStreamCaptureInvalidated, fmt::format("the capture was invalidated: {}", capture.broken));
  }
}

// Whether a member has captured work that was not joined to the origin. Such work would be lost.
bool has_unjoined_work(const Capture& capture) {
  const std::vector<bool> joined = capture.graph->at_or_before(capture.origin->frontier);
  return std::any_of(capture.members.begin(), capture.members.end(), [&](const CUstream_st* member) {
    return std::any_of(member->frontier.begin(), member->frontier.end(),
                       [&](std::size_t node) { return !joined[node]; });
  });
}

void begin(cudaStream_t handle, cudaStreamCaptureMode mode, const char* call,
           const std::function<void(CUstream_st&, Capture&)>& choose_graph) {
  CUstream_st& stream = resolve(handle, call);
  if (is_legacy(stream)) {
    fail(cudaErrorStreamCaptureUnsupported, fmt::format("{}: the legacy stream cannot be captured", call));
  }
  if (stream.capture) fail(cudaErrorIllegalState, fmt::format("{}: the stream is capturing already", call));
  static unsigned long long captures = 0;
  auto capture = std::make_shared<Capture>();
  capture->origin = &stream;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->id = ++captures;
  capture->members.insert(&stream);
  stream.frontier.clear();
  choose_graph(stream, *capture);
  stream.capture = capture;
  under_way.push_back(std::move(capture));
}

void add_to_frontier(CUstream_st& stream, const std::vector<std::size_t>& nodes) {
  for (const std::size_t node : nodes) {
    if (std::find(stream.frontier.begin(), stream.frontier.end(), node) == stream.frontier.end()) {
      stream.frontier.push_back(node);
    }
  }
}

cudaStreamCaptureStatus status_of(const CUstream_st& stream) {
  if (!stream.capture) return cudaStreamCaptureStatusNone;
  return stream.capture->broken.empty() ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusInvalidated;
}

void end(Capture& capture) {
  for (CUstream_st* member : capture.members) {
    member->frontier.clear();
    if (member != capture.origin) member->capture.reset();
  }
  capture.ended = true;
  std::erase_if(under_way, [&](const auto& other) { return other.get() == &capture; });
  capture.origin->capture.reset();
}

}  // namespace

void capture_node(CUstream_st& stream, CUgraphNode_st node) {
  expect_whole(*stream.capture);
  node.after = stream.frontier;
  const CUgraphNode_st& added = stream.capture->graph->add(std::move(node));
  stream.frontier = {added.number};
  if (watcher != nullptr) {
    watcher(fmt::format(R"({{"name": "{}", "number": {}, "after": [{}]{}}})", added.name, added.number,
                        fmt::join(added.after, ", "), added.launch)
                .c_str());
  }
}

void capture_record(CUstream_st& stream, CUevent_st& event) {
  expect_whole(*stream.capture);
  event.capture = stream.capture;
  event.frontier = stream.frontier;
}

void capture_wait(CUstream_st& stream, CUevent_st& event) {
  if (event.capture && event.capture->ended) {
    fail(cudaErrorCapturedEvent, "cudaStreamWaitEvent: the event was recorded last in a capture that has ended");
  }
  if (stream.capture) {
    expect_whole(*stream.capture);
    if (!event.capture) {
      if (!event.point.queue) return;  // never recorded, so it waits for nothing
      break_capture(*stream.capture, cudaErrorStreamCaptureIsolation,
                    "cudaStreamWaitEvent: a capturing stream waits for work from before the capture");
    }
    if (stream.capture != event.capture) {
      break_capture(*stream.capture, cudaErrorStreamCaptureMerge,
                    "cudaStreamWaitEvent: the event was recorded in another capture");
    }
  } else if (is_legacy(stream)) {
    break_capture(*event.capture, cudaErrorStreamCaptureImplicit,
                  "cudaStreamWaitEvent: the legacy stream cannot join a capture");
  }
  expect_whole(*event.capture);
  stream.capture = event.capture;
  stream.capture->members.insert(&stream);
  add_to_frontier(stream, event.frontier);
}

void forbid_during_capture(const char* call) {
  for (const auto& capture : under_way) {
    const bool concerns_us =
        capture->mode == cudaStreamCaptureModeGlobal ||
        (capture->mode == cudaStreamCaptureModeThreadLocal && capture->thread == std::this_thread::get_id());
    if (concerns_us) {
      break_capture(*capture, cudaErrorStreamCaptureUnsupported,
                    fmt::format("{} during a capture that is not relaxed", call));
    }
  }
}

void forbid_in_own_capture(const char* call) {
  for (const auto& capture : under_way) {
    if (capture->thread == std::this_thread::get_id()) {
      break_capture(*capture, cudaErrorStreamCaptureUnsupported, fmt::format("{} during a capture", call));
    }
  }
  forbid_during_capture(call);
}

void forbid_wait_during_capture(CUstream_st* stream, const char* call) {
  if (stream != nullptr && is_legacy(*stream)) forbid_legacy_during_capture(call);
  for (const auto& capture : under_way) {
    if (stream == nullptr || stream->capture == capture) {
      break_capture(*capture, cudaErrorStreamCaptureUnsupported, fmt::format("{} during a capture", call));
    }
  }
  forbid_during_capture(call);
}

void forbid_legacy_during_capture(const char* call) {
  for (const auto& capture : under_way) {
    const bool blocks = std::any_of(capture->members.begin(), capture->members.end(),
                                    [](const CUstream_st* member) { return member->queue->blocking(); });
    if (blocks) {
      break_capture(*capture, cudaErrorStreamCaptureImplicit,
                    fmt::format("{} on the legacy stream, while a stream that it waits for is capturing", call));
    }
  }
}

void forbid_captured_event(CUevent_st& event, const char* call) {
  if (!event.capture) return;
  const std::string why = fmt::format("{}: the event was recorded in a capture", call);
  if (event.capture->ended) fail(cudaErrorCapturedEvent, why);
  break_capture(*event.capture, cudaErrorCapturedEvent, why);
}

bool is_captured_into(const CUgraph_st& graph) {
  return std::any_of(under_way.begin(), under_way.end(), [&](const auto& capture) {
    const CUgraph_st* into = capture->graph;
    while (into != nullptr && into != &graph) into = into->parent;
    return into != nullptr;
  });
}

void leave_capture(CUstream_st& stream) {
  if (!stream.capture) return;
  Capture& capture = *stream.capture;
  if (capture.broken.empty()) capture.broken = "cudaStreamDestroy of a capturing stream";
  const std::shared_ptr<Capture> kept = stream.capture;
  if (capture.origin == &stream) {
    end(capture);
    if (capture.owns_graph) destroy(capture.graph);
  } else {
    capture.members.erase(&stream);
  }
}

}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

extern "C" void cuda_on_cpu_watch_captures(void (*seen)(const char* node)) { watcher = seen; }

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return api([&] {
    begin(stream, mode, "cudaStreamBeginCapture",
          [](CUstream_st&, Capture& capture) { capture.graph = create_graph(); });
  });
}

cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                          const cudaGraphEdgeData* edges, std::size_t count,
                                          cudaStreamCaptureMode mode) {
  return api([&] {
    const char* const call = "cudaStreamBeginCaptureToGraph";
    begin(stream, mode, call, [&](CUstream_st& origin, Capture& capture) {
      capture.graph = &resolve(graph, call);
      capture.owns_graph = false;
      origin.frontier = numbers(*graph, dependencies, edges, count, call);
    });
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  return api([&] {
    CUstream_st& stream = resolve(handle, "cudaStreamEndCapture");
    const std::shared_ptr<Capture> capture = stream.capture;
    if (graph != nullptr) *graph = nullptr;
    if (!capture) fail(cudaErrorIllegalState, "cudaStreamEndCapture: the stream is not capturing");
    if (graph == nullptr) fail(cudaErrorInvalidValue, "cudaStreamEndCapture: a null pointer for the graph");
    if (capture->origin != &stream) {
      break_capture(*capture, cudaErrorStreamCaptureUnmatched,
                    "cudaStreamEndCapture: the capture began on another stream");
    }
    if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id()) {
      break_capture(*capture, cudaErrorStreamCaptureWrongThread,
                    "cudaStreamEndCapture: the capture began on another thread");
    }
    const bool unjoined = has_unjoined_work(*capture);
    end(*capture);
    if (capture->owns_graph && (unjoined || !capture->broken.empty())) destroy(capture->graph);
    expect_whole(*capture);
    if (unjoined) {
      fail(cudaErrorStreamCaptureUnjoined,
           "cudaStreamEndCapture: work of a stream that forked from this one was not joined by an event");
    }
    *graph = capture->graph;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return api([&] {
    const CUstream_st& stream = resolve(handle, "cudaStreamIsCapturing");
    *status = status_of(stream);
  });
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
                                     const cudaGraphEdgeData** edges, std::size_t* count) {
  return api([&] {
    CUstream_st& stream = resolve(handle, "cudaStreamGetCaptureInfo");
    if (is_legacy(stream)) forbid_legacy_during_capture("cudaStreamGetCaptureInfo");
    if (status == nullptr) fail(cudaErrorInvalidValue, "cudaStreamGetCaptureInfo: a null pointer for the status");
    *status = status_of(stream);
    if (*status != cudaStreamCaptureStatusActive) return;
    if (id != nullptr) *id = stream.capture->id;
    if (graph != nullptr) *graph = stream.capture->graph;
    stream.dependencies.clear();
    for (const std::size_t node : stream.frontier) {
      stream.dependencies.push_back(&stream.capture->graph->nodes[node]);
    }
    if (dependencies != nullptr) *dependencies = stream.dependencies.data();
    if (edges != nullptr) *edges = nullptr;  // all edges are ordinary ones
    if (count != nullptr) *count = stream.dependencies.size();
  });
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t handle, cudaGraphNode_t* dependencies,
                                                const cudaGraphEdgeData* edges, std::size_t count, unsigned int flags) {
  return api([&] {
    const char* const call = "cudaStreamUpdateCaptureDependencies";
    CUstream_st& stream = resolve(handle, call);
    if (!stream.capture) fail(cudaErrorIllegalState, fmt::format("{}: the stream is not capturing", call));
    expect_whole(*stream.capture);
    const std::vector<std::size_t> nodes = numbers(*stream.capture->graph, dependencies, edges, count, call);
    if (flags == cudaStreamSetCaptureDependencies) stream.frontier.clear();
    add_to_frontier(stream, nodes);
  });
}
}
