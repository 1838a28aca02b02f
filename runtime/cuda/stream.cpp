#include "runtime/cuda/stream.h"

#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <fmt/format.h>

#include <exception>
#include <mutex>
#include <source_location>

#include <giro/runtime/buffer.h>
#include <giro/runtime/error.h>
#include <giro/runtime/span.h>

#include "runtime/arena.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/cublaslt.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/graph.h"
#include "runtime/cuda/handle.h"
#include "runtime/throw_error.h"

namespace giro::cuda {

// Not static: a class with a member of such a type must not be local to a file.
cublasStatus_t close_cublaslt(cublasLtHandle_t handle) { return CublasLt::instance().destroy(handle); }

// The CUDA objects of a stream.
struct StreamHandles {
  Handle<cudaStream_t, cudaStreamDestroy> stream;
  Handle<cudaGraph_t, cudaGraphDestroy> captured;     // the recording so far
  Handle<cublasLtHandle_t, close_cublaslt> cublaslt;  // null until used, like cudnn
  Handle<cudnnHandle_t, cudnnDestroy> cudnn;
  Buffer arrivals;  // counters, CudaStream::arrivals

  std::unique_ptr<StreamHandles> next;  // in the list of handles to be closed
};

namespace {

// Counts the captures in progress in all threads. Closing a library waits for the whole device, which would break a
// capture, so handles released during a capture are closed when the last capture has ended.
class Captures {
 public:
  static Captures& instance() {
    static Captures captures;
    return captures;
  }

  void begin() {
    const std::lock_guard lock(mutex_);
    num_active_ += 1;
  }
  void end() noexcept {
    // Closed under the lock, so that no capture begins in the meantime.
    const std::lock_guard lock(mutex_);
    num_active_ -= 1;
    close_waiting();
  }
  void close(std::unique_ptr<StreamHandles> handles) noexcept {
    const std::lock_guard lock(mutex_);
    handles->next = std::move(waiting_);
    waiting_ = std::move(handles);
    close_waiting();
  }

 private:
  void close_waiting() noexcept {
    while (num_active_ == 0 && waiting_) waiting_ = std::move(waiting_->next);
  }

  std::mutex mutex_;
  int num_active_ = 0;
  std::unique_ptr<StreamHandles> waiting_;  // head of a list
};

// Like check() for the runtime's own calls (check.h). Error(unsupported) for a call that cuDNN does not support.
void check_cudnn(cudnnStatus_t status, const char* call, std::source_location where = std::source_location::current()) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  (void)cudaGetLastError();
  const bool memory = status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
                      status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
  const bool declined = CUDNN_STATUS_CATEGORY(static_cast<int>(status)) == CUDNN_STATUS_NOT_SUPPORTED;
  const ErrorCode code = memory ? ErrorCode::out_of_memory : declined ? ErrorCode::unsupported : ErrorCode::device;
  throw Error(code, fmt::format("cuDNN: {}: {}", call, cudnnGetErrorString(status)), where);
}

// Host memory that CUDA does not know, which it may read or write after a call has returned.
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
  void synchronize() const override {
    const Span span("wait", "wait for an event");
    check(cudaEventSynchronize(event_), "cudaEventSynchronize");
  }

  cudaEvent_t handle() const noexcept { return event_; }

 private:
  Handle<cudaEvent_t, cudaEventDestroy> event_;
};

}  // namespace

CudaStream& cuda_stream(detail::StreamImpl& stream) {
  if (!stream.device.is_cuda()) {
    throw Error(ErrorCode::device_mismatch, "expected a stream on a CUDA device, found one on the CPU");
  }
  make_current(stream.device);
  return static_cast<CudaStream&>(stream);
}

CudaStream::CudaStream(Device on)
    : StreamImpl(on, std::make_shared<Arena>(on, Arena::Kind::stream)), handles_(std::make_unique<StreamHandles>()) {
  Captures::instance();  // constructed first, so it outlives this stream
  make_current(device);
  check(cudaStreamCreateWithFlags(handles_->stream.out(), cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  handles_->arrivals = Buffer::allocate(device, 2 * kArrivals * sizeof(unsigned int));
  fill(handles_->arrivals.data(), 0, handles_->arrivals.size());
  synchronize();
}

CudaStream::~CudaStream() {
  abandon_recording();
  (void)cudaSetDevice(device.index());
  Captures::instance().close(std::move(handles_));
}

cudaStream_t CudaStream::handle() const noexcept { return handles_->stream; }

unsigned int* CudaStream::arrivals() const noexcept {
  return static_cast<unsigned int*>(handles_->arrivals.data()) + (is_recording() ? kArrivals : 0);
}

cublasLtHandle_t CudaStream::cublaslt() {
  if (handles_->cublaslt == nullptr) {
    make_current(device);
    outside_capture([&] { check(CublasLt::instance().create(handles_->cublaslt.out()), "cublasLtCreate"); });
  }
  return handles_->cublaslt;
}

cudnnHandle_t CudaStream::cudnn() {
  if (handles_->cudnn == nullptr) {
    make_current(device);
    Handle<cudnnHandle_t, cudnnDestroy> opened;
    outside_capture([&] {
      check_cudnn(cudnnCreate(opened.out()), "cudnnCreate");
      check_cudnn(cudnnSetStream(opened, handle()), "cudnnSetStream");
    });
    handles_->cudnn = std::move(opened);
  }
  return handles_->cudnn;
}

void CudaStream::copy(void* dst, const void* src, std::size_t bytes) {
  make_current(device);
  const bool pageable = is_pageable(src) || is_pageable(dst);
  if (pageable && is_recording()) {
    throw Error(ErrorCode::unsupported,
                "a recording on a CUDA device cannot copy from or to host memory that is not pinned");
  }
  check(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, handle()), "cudaMemcpyAsync");
  // CUDA may stage pageable memory, or read it later if the device can access all host memory.
  if (pageable) synchronize();
}

void CudaStream::fill(void* dst, unsigned char value, std::size_t bytes) {
  make_current(device);
  check(cudaMemsetAsync(dst, value, bytes, handle()), "cudaMemsetAsync");
}

void CudaStream::synchronize() {
  const Span span("wait", "wait for the stream");
  check(cudaStreamSynchronize(handle()), "cudaStreamSynchronize");
}

double CudaStream::time(const std::function<void()>& queue) {
  make_current(device);
  Handle<cudaEvent_t, cudaEventDestroy> begin, end;
  for (auto* event : {&begin, &end}) check(cudaEventCreate(event->out()), "cudaEventCreate");
  check(cudaEventRecord(begin, handle()), "cudaEventRecord");
  queue();
  check(cudaEventRecord(end, handle()), "cudaEventRecord");
  check(cudaEventSynchronize(end), "cudaEventSynchronize");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
  return 1e-3 * double{milliseconds};
}

void CudaStream::wait(const detail::EventImpl& event) {
  // Work on the CPU is done when it is queued, so there is nothing to wait for.
  if (const auto* cuda_event = dynamic_cast<const CudaEvent*>(&event)) {
    make_current(device);
    check(cudaStreamWaitEvent(handle(), cuda_event->handle(), 0), "cudaStreamWaitEvent");
  }
}

std::shared_ptr<detail::EventImpl> CudaStream::create_event() {
  make_current(device);
  return std::make_shared<CudaEvent>();
}

void CudaStream::begin_recording() {
  make_current(device);
  check(cudaGraphCreate(handles_->captured.out(), 0), "cudaGraphCreate");
  begin_capture({});
}

std::shared_ptr<detail::GraphImpl> CudaStream::end_recording() {
  make_current(device);
  end_capture();
  std::shared_ptr<CudaGraph> graph = recorded_graph(device, std::move(handles_->captured));
  graph->owned.kept.push_back(shared_from_this());  // nodes may point into memory of the library handles
  return graph;
}

void CudaStream::abandon_recording() noexcept {
  if (capturing_) {
    capturing_ = false;
    cudaGraph_t graph = nullptr;
    (void)cudaStreamEndCapture(handle(), &graph);
    (void)cudaGetLastError();
    Captures::instance().end();
  }
  handles_->captured = {};
}

// Opens all libraries of both streams first: none can be opened while the capture extends to the second stream.
std::shared_ptr<detail::StreamImpl> CudaStream::side_stream() {
  if (!side_stream_ && !(capturing_ && detail::StreamRecording::current()->has_events)) {
    try {
      cublaslt();
      cudnn();
      outside_capture([&] {
        const auto opened = std::make_shared<CudaStream>(device);
        opened->cublaslt();
        opened->cudnn();
        side_stream_ = opened;
      });
    } catch (const Error& error) {
      // For example if memory is short: then all ops stay in one chain.
      if (error.code() != ErrorCode::out_of_memory) throw;
    }
  }
  return side_stream_;
}

// Relaxed mode, since a recording's arena allocates its chunks during the capture.
void CudaStream::begin_capture(const std::vector<cudaGraphNode_t>& after) {
  Captures::instance().begin();
  const cudaError_t status = cudaStreamBeginCaptureToGraph(handle(), handles_->captured, after.data(), nullptr,
                                                           after.size(), cudaStreamCaptureModeRelaxed);
  capturing_ = status == cudaSuccess;
  if (!capturing_) Captures::instance().end();
  check(status, "cudaStreamBeginCaptureToGraph");
}

void CudaStream::end_capture() {
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(handle(), &graph), "cudaStreamEndCapture");
  capturing_ = false;
  Captures::instance().end();
}

// Opening a library may wait for the device, which would break the capture. So the capture ends, and continues after
// its last nodes. Events that stand for some of the nodes belong to the current capture, which then must not end.
void CudaStream::outside_capture(const std::function<void()>& open) {
  if (!capturing_ || detail::StreamRecording::current()->has_events) return open();
  cudaStreamCaptureStatus status{};
  const cudaGraphNode_t* last = nullptr;
  std::size_t count = 0;
  check(cudaStreamGetCaptureInfo(handle(), &status, nullptr, nullptr, &last, nullptr, &count),
        "cudaStreamGetCaptureInfo");
  const std::vector<cudaGraphNode_t> after(last, last + count);
  end_capture();
  std::exception_ptr failure;
  try {
    open();
  } catch (...) {
    failure = std::current_exception();
  }
  begin_capture(after);
  if (failure) std::rethrow_exception(failure);
}

CudaStream& cuda_stream(const Stream& stream) {
  stream.impl().check_usable("a kernel");
  return cuda_stream(stream.impl());
}

cudaStream_t handle(const Stream& stream) { return cuda_stream(stream).handle(); }

void check_queued(const std::string& what, const Stream& stream) {
  check(cudaGetLastError(), what.c_str());
  if (!stream.is_recording()) return;
  cudaStreamCaptureStatus status{};
  check(cudaStreamIsCapturing(handle(stream), &status), "cudaStreamIsCapturing");
  if (status != cudaStreamCaptureStatusActive) {
    throw_error(ErrorCode::unsupported, "{} did something that cannot be recorded, such as waiting for the stream",
                what);
  }
}

std::shared_ptr<detail::StreamImpl> create_stream(Device device) { return std::make_shared<CudaStream>(device); }

}  // namespace giro::cuda
