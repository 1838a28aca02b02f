#pragma once

#include <omp.h>

#include <oneapi/dnnl/dnnl.hpp>

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>

#include <giro/runtime/error.h>
#include <giro/runtime/tensor.h>

#include "kernels/cpu/wait_policy.h"
#include "runtime/cpu/stream.h"

namespace giro::cpu::one_dnn {

using Arguments = std::unordered_map<int, dnnl::memory>;

inline dnnl::engine engine() { return dnnl::engine(dnnl::engine::kind::cpu, 0); }

// oneDNN's name for f32, bf16 and f16.
inline dnnl::memory::data_type data_type(DType dtype) {
  return dtype == DType::bf16  ? dnnl::memory::data_type::bf16
         : dtype == DType::f16 ? dnnl::memory::data_type::f16
                               : dnnl::memory::data_type::f32;
}

// A memory over a tensor's elements.
inline dnnl::memory memory(const Tensor& tensor, const dnnl::memory::desc& desc, const dnnl::engine& engine) {
  return dnnl::memory(desc, engine, tensor.raw());
}

// Runs a oneDNN build or execution step, turning its exception into giro's.
template <class F>
auto checked(const char* what, F&& f) {
  try {
    return f();
  } catch (const dnnl::error& error) {
    const bool memory = error.status == dnnl_out_of_memory;
    throw Error(memory ? ErrorCode::out_of_memory : ErrorCode::device,
                std::string("oneDNN failed in ") + what + ": " + error.what());
  }
}

// The primitive descriptor of an operation, and of its way back given that of the way there. oneDNN 3 takes at once
// what oneDNN 2 first made an operation descriptor of.
template <class Primitive, class... Args>
typename Primitive::primitive_desc describe(const dnnl::engine& engine, const Args&... args) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine, args...};
#else
  return {typename Primitive::desc(args...), engine};
#endif
}

template <class Primitive, class Forward, class... Args>
typename Primitive::primitive_desc describe_backward(const dnnl::engine& engine, const Forward& forward,
                                                     const Args&... args) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine, args..., forward};
#else
  return {typename Primitive::desc(args...), engine, forward};
#endif
}

// Pooling with a dilation, which is all there is in oneDNN 3.
#if DNNL_VERSION_MAJOR >= 3
using PoolingForward = dnnl::pooling_forward;
using PoolingBackward = dnnl::pooling_backward;
#else
using PoolingForward = dnnl::pooling_v2_forward;
using PoolingBackward = dnnl::pooling_v2_backward;
#endif

// Below this many multiplications or moves of an element, waking other threads costs more than the work.
constexpr std::int64_t kParallelFrom = std::int64_t{1} << 20;

// While it lives, oneDNN works with one thread if `work` is small. A primitive must be made and run under the same
// limit: the share of each thread is fixed when it is made.
class ThreadLimit {
 public:
  explicit ThreadLimit(std::int64_t work) : before_(omp_get_max_threads()) {
    if (work < kParallelFrom) {
      omp_set_num_threads(1);
    } else {
      adapt_wait_policy();
    }
  }
  ~ThreadLimit() { omp_set_num_threads(before_); }
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;

 private:
  int before_;
};

// Queues a primitive that was made under ThreadLimit(work). The call owns what it needs: primitive, memories and,
// through them, the engine.
inline void submit(const Stream& stream, const char* what, std::int64_t work, const dnnl::engine& engine,
                   dnnl::primitive primitive, Arguments arguments) {
  cpu::submit(stream, [what, work, queue = dnnl::stream(engine), primitive = std::move(primitive),
                       arguments = std::move(arguments)] {
    const ThreadLimit limit(work);
    checked(what, [&] { primitive.execute(queue, arguments); });
  });
}

inline void reorder(const Stream& stream, const dnnl::engine& engine, const dnnl::memory& from,
                    const dnnl::memory& to) {
  const auto work = static_cast<std::int64_t>(from.get_desc().get_size() / sizeof(float));
  const ThreadLimit limit(work);
  submit(stream, "reorder", work, engine, dnnl::reorder(from, to), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

// `given` in the layout that a primitive asked for: itself, or a copy that is made before each run.
inline dnnl::memory in_layout(const Stream& stream, const dnnl::engine& engine, const dnnl::memory& given,
                              const dnnl::memory::desc& wanted) {
  if (given.get_desc() == wanted) return given;
  dnnl::memory copy(wanted, engine);
  reorder(stream, engine, given, copy);
  return copy;
}

}  // namespace giro::cpu::one_dnn
