#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <typeindex>
#include <utility>
#include <vector>

#include <giro/runtime/stream.h>

#include "runtime/backend.h"

struct CUgraphNode_st;
struct cublasLtContext;
struct cudnnContext;

namespace giro::cuda {

struct StreamHandles;

// A CUDA stream, and the state of the libraries for it: their handles, and their choices for each shape.
class CudaStream final : public detail::StreamImpl, public std::enable_shared_from_this<CudaStream> {
 public:
  explicit CudaStream(Device device);
  ~CudaStream() override;

  CUstream_st* handle() const noexcept;
  cublasLtContext* cublaslt();
  cudnnContext* cudnn();  // set to this stream
  // Counters that the blocks of a kernel increment as they finish: kArrivals of them, 0 before and after each kernel.
  // Recordings use other counters than work that runs at once, because a recording may be replayed concurrently with
  // it.
  static constexpr unsigned int kArrivals = 1024;
  unsigned int* arrivals() const noexcept;

  // A Plan is what a kernel sets up once per shape (an algorithm, its descriptors). It is reused, so that the result is
  // the same whether the work is recorded or not. `make` returns a Plan.
  template <class Plan, class Make>
  Plan& plan(std::vector<std::int64_t> key, Make&& make) {
    std::shared_ptr<void>& slot = plans_[{typeid(Plan), std::move(key)}];
    if (!slot) slot = std::make_shared<Plan>(make());
    return *static_cast<Plan*>(slot.get());
  }
  template <class Plan>
  bool has_plan(const std::vector<std::int64_t>& key) const {
    return plans_.contains({typeid(Plan), key});
  }

  // Calls open(), which may wait for the device, e.g. to open a library; a capture does not allow that. The capture is
  // interrupted and then continues, unless the recording has events.
  void outside_capture(const std::function<void()>& open);

  void copy(void* dst, const void* src, std::size_t bytes) override;
  void fill(void* dst, unsigned char value, std::size_t bytes) override;
  void synchronize() override;
  double time(const std::function<void()>& queue) override;
  void wait(const detail::EventImpl& event) override;
  std::shared_ptr<detail::EventImpl> create_event() override;

  void begin_recording() override;
  std::shared_ptr<detail::GraphImpl> end_recording() override;
  void abandon_recording() noexcept override;
  std::shared_ptr<detail::StreamImpl> side_stream() override;

 private:
  void begin_capture(const std::vector<CUgraphNode_st*>& after);
  void end_capture();
  std::unique_ptr<StreamHandles> handles_;
  bool capturing_ = false;
  std::shared_ptr<CudaStream> side_stream_;  // null until it is used
  std::map<std::pair<std::type_index, std::vector<std::int64_t>>, std::shared_ptr<void>> plans_;
};

// Like the next function, but without the check that work may be queued.
CudaStream& cuda_stream(detail::StreamImpl& stream);

// The stream behind the handle; its device becomes the current one. Error(device_mismatch) for a CPU stream.
CudaStream& cuda_stream(const Stream& stream);

}  // namespace giro::cuda
