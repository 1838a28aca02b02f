#include "runtime/cuda/stream.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <array>

#include <giro/runtime/error.h>

#include "runtime/cuda/check.h"
#include "runtime/cuda/check_libraries.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/handle.h"
#include "runtime/internal/arena.h"

namespace giro::cuda {
namespace {

CudaStream& cuda_stream(detail::StreamImpl& stream) {
  if (!stream.device.is_cuda()) {
    throw Error(ErrorCode::device_mismatch, "a stream of a CUDA device is needed, found one of the cpu");
  }
  make_current(stream.device);
  return static_cast<CudaStream&>(stream);
}

// Memory of the host that CUDA does not know, and so may read or write after a call has returned.
bool is_pageable(const void* data) {
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, data), "cudaPointerGetAttributes");
  return attributes.type == cudaMemoryTypeUnregistered;
}

class CudaEvent final : public detail::EventImpl {
 public:
  CudaEvent() { check(cudaEventCreateWithFlags(event_.out(), cudaEventDisableTiming), "cudaEventCreateWithFlags"); }

  void record(detail::StreamImpl& stream) override {
    check(cudaEventRecord(event_, cuda_stream(stream).handle()), "cudaEventRecord");
  }
  bool query() const override {
    const cudaError_t status = cudaEventQuery(event_);
    if (status == cudaErrorNotReady) {
      (void)cudaGetLastError();
      return false;
    }
    check(status, "cudaEventQuery");
    return true;
  }
  void synchronize() const override { check(cudaEventSynchronize(event_), "cudaEventSynchronize"); }

  cudaEvent_t handle() const noexcept { return event_; }

 private:
  Handle<cudaEvent_t, cudaEventDestroy> event_;
};

class CudaGraph final : public detail::GraphImpl {
 public:
  // `recorder` lives on with the graph, whose nodes may point into memory of its library handles.
  CudaGraph(Handle<cudaGraph_t, cudaGraphDestroy> graph, std::shared_ptr<CudaStream> recorder)
      : recorder_(std::move(recorder)), graph_(std::move(graph)) {
    check(cudaGraphGetNodes(graph_, nullptr, &num_nodes_), "cudaGraphGetNodes");
    check(cudaGraphInstantiate(ladder_[0].out(), graph_, 0), "cudaGraphInstantiate");
  }

  void replay(detail::StreamImpl& stream, std::int64_t times) override {
    if (stream.device != recorder_->device) {
      throw Error(ErrorCode::device_mismatch, fmt::format("a graph recorded on {} cannot be replayed on {}",
                                                          to_string(recorder_->device), to_string(stream.device)));
    }
    const cudaStream_t handle = cuda_stream(stream).handle();
    for (std::size_t rung = ladder_.size(); rung-- > 0;) {
      const std::int64_t repetitions = std::int64_t{1} << rung;
      for (; times >= repetitions; times -= repetitions) {
        check(cudaGraphLaunch(rung_of(rung), handle), "cudaGraphLaunch");
      }
    }
  }
  std::size_t num_nodes() const override { return num_nodes_; }

 private:
  // 2^rung repetitions of the recorded work, one after the other.
  cudaGraphExec_t rung_of(std::size_t rung) {
    if (ladder_[rung] != nullptr) return ladder_[rung];
    Handle<cudaGraph_t, cudaGraphDestroy> repeated;
    check(cudaGraphCreate(repeated.out(), 0), "cudaGraphCreate");
    cudaGraphNode_t before = nullptr;
    for (std::int64_t i = 0; i < std::int64_t{1} << rung; ++i) {
      cudaGraphNode_t node = nullptr;
      check(cudaGraphAddChildGraphNode(&node, repeated, &before, i == 0 ? 0 : 1, graph_), "cudaGraphAddChildGraphNode");
      before = node;
    }
    check(cudaGraphInstantiate(ladder_[rung].out(), repeated, 0), "cudaGraphInstantiate");
    return ladder_[rung];
  }

  std::shared_ptr<CudaStream> recorder_;
  Handle<cudaGraph_t, cudaGraphDestroy> graph_;
  std::array<Handle<cudaGraphExec_t, cudaGraphExecDestroy>, 8> ladder_;
  std::size_t num_nodes_ = 0;
};

}  // namespace

struct CudaStream::Handles {
  Handle<cudaStream_t, cudaStreamDestroy> stream;
  Handle<cublasLtHandle_t, cublasLtDestroy> cublaslt;
  Handle<cudnnHandle_t, cudnnDestroy> cudnn;
};

CudaStream::CudaStream(Device on)
    : StreamImpl(on, std::make_shared<Arena>(on, Arena::Of::stream)), handles_(std::make_unique<Handles>()) {
  make_current(device);
  check(cudaStreamCreateWithFlags(handles_->stream.out(), cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
}

CudaStream::~CudaStream() {
  abandon_recording();
  (void)cudaSetDevice(device.index());
}

cudaStream_t CudaStream::handle() const noexcept { return handles_->stream; }

cublasLtHandle_t CudaStream::cublaslt() {
  if (handles_->cublaslt == nullptr) {
    make_current(device);
    check(cublasLtCreate(handles_->cublaslt.out()), "cublasLtCreate");
  }
  return handles_->cublaslt;
}

cudnnHandle_t CudaStream::cudnn() {
  if (handles_->cudnn == nullptr) {
    make_current(device);
    Handle<cudnnHandle_t, cudnnDestroy> opened;
    check(cudnnCreate(opened.out()), "cudnnCreate");
    check(cudnnSetStream(opened, handle()), "cudnnSetStream");
    handles_->cudnn = std::move(opened);
  }
  return handles_->cudnn;
}

void CudaStream::copy(void* dst, const void* src, std::size_t bytes) {
  make_current(device);
  const bool pageable = is_pageable(src) || is_pageable(dst);
  if (pageable && recording_) {
    throw Error(ErrorCode::unsupported,
                "a recording on a CUDA device cannot copy from or to memory of the host that is not pinned");
  }
  check(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, handle()), "cudaMemcpyAsync");
  // CUDA may stage pageable memory, or, where the device reaches all of the host's memory, read it later on.
  if (pageable) synchronize();
}

void CudaStream::fill(void* dst, unsigned char value, std::size_t bytes) {
  make_current(device);
  check(cudaMemsetAsync(dst, value, bytes, handle()), "cudaMemsetAsync");
}

void CudaStream::synchronize() { check(cudaStreamSynchronize(handle()), "cudaStreamSynchronize"); }

void CudaStream::wait(const detail::EventImpl& event) {
  // Work on the CPU is done when it is queued: its events leave nothing to wait for.
  if (const auto* cuda_event = dynamic_cast<const CudaEvent*>(&event)) {
    make_current(device);
    check(cudaStreamWaitEvent(handle(), cuda_event->handle(), 0), "cudaStreamWaitEvent");
  }
}

std::unique_ptr<detail::EventImpl> CudaStream::create_event() {
  make_current(device);
  return std::make_unique<CudaEvent>();
}

void CudaStream::begin_recording() {
  // Opening a library may wait for the device, which nothing may do during a capture.
  cublaslt();
  cudnn();
  make_current(device);
  // Relaxed: the recording's arena allocates its chunks while the capture runs.
  check(cudaStreamBeginCapture(handle(), cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
  recording_ = true;
}

std::unique_ptr<detail::GraphImpl> CudaStream::end_recording() {
  recording_ = false;
  make_current(device);
  Handle<cudaGraph_t, cudaGraphDestroy> graph;
  check(cudaStreamEndCapture(handle(), graph.out()), "cudaStreamEndCapture");
  return std::make_unique<CudaGraph>(std::move(graph), shared_from_this());
}

void CudaStream::abandon_recording() noexcept {
  if (!std::exchange(recording_, false)) return;
  Handle<cudaGraph_t, cudaGraphDestroy> graph;
  (void)cudaStreamEndCapture(handle(), graph.out());
  (void)cudaGetLastError();
}

CudaStream& cuda_stream(const Stream& stream) { return cuda_stream(stream.impl()); }

cudaStream_t handle(const Stream& stream) { return cuda_stream(stream).handle(); }

void check_queued(const std::string& what, const Stream& stream) {
  check(cudaGetLastError(), what.c_str());
  if (!stream.is_recording()) return;
  cudaStreamCaptureStatus status{};
  check(cudaStreamIsCapturing(handle(stream), &status), "cudaStreamIsCapturing");
  if (status != cudaStreamCaptureStatusActive) {
    throw Error(ErrorCode::unsupported,
                fmt::format("{} did what a recording cannot hold, such as waiting for the stream", what));
  }
}

std::shared_ptr<detail::StreamImpl> create_stream(Device device) { return std::make_shared<CudaStream>(device); }

}  // namespace giro::cuda
