#pragma once

#include <omp.h>

#include <oneapi/dnnl/dnnl.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include <giro/runtime/error.h>
#include <giro/runtime/tensor.h>

#include "kernels/cpu/wait_policy.h"
#include "runtime/cpu/stream.h"

namespace giro::cpu::one_dnn {

using Arguments = std::unordered_map<int, dnnl::memory>;

// One for the process: a primitive and its memories must share it. It is never destroyed, as threads may still use it
// while the program ends.
inline const dnnl::engine& engine() {
  static const auto* const engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

// oneDNN's name for f32, bf16 and f16.
inline dnnl::memory::data_type data_type(DType dtype) {
  return dtype == DType::bf16  ? dnnl::memory::data_type::bf16
         : dtype == DType::f16 ? dnnl::memory::data_type::f16
                               : dnnl::memory::data_type::f32;
}

// Of an argument that may be left out.
inline std::optional<DType> dtype_of(const Tensor& tensor) {
  return tensor ? std::optional(tensor.dtype()) : std::nullopt;
}

// A memory over a tensor's elements.
inline dnnl::memory memory(const Tensor& tensor, const dnnl::memory::desc& desc) {
  return dnnl::memory(desc, engine(), tensor.raw());
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

// giro gives each run its scratchpad, so that one primitive may run on several threads at once.
inline const dnnl::primitive_attr& attributes() {
  static const auto* const attributes = [] {
    auto* const made = new dnnl::primitive_attr;
    made->set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return made;
  }();
  return *attributes;
}

// The primitive descriptor of an operation, and of its way back given that of the way there. oneDNN 3 takes at once
// what oneDNN 2 first made an operation descriptor of.
template <class Primitive, class... Args>
typename Primitive::primitive_desc describe(const Args&... args) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine(), args..., attributes()};
#else
  return {typename Primitive::desc(args...), attributes(), engine()};
#endif
}

template <class Primitive, class Forward, class... Args>
typename Primitive::primitive_desc describe_backward(const Forward& forward, const Args&... args) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine(), args..., forward, attributes()};
#else
  return {typename Primitive::desc(args...), attributes(), engine(), forward};
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

// Threads for so much work.
inline int threads_for(std::int64_t work) { return work < kParallelFrom ? 1 : omp_get_max_threads(); }

// While it lives, oneDNN works with so many threads. A primitive must be made and run with the same number: the share
// of each thread is fixed when it is made.
class ThreadLimit {
 public:
  explicit ThreadLimit(int threads) : before_(omp_get_max_threads()) {
    omp_set_num_threads(threads);
    if (threads > 1) adapt_wait_policy();
  }
  ~ThreadLimit() { omp_set_num_threads(before_); }
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;

 private:
  int before_;
};

// A primitive and what describes it, which says what it needs.
template <class Primitive>
struct Kernel {
  explicit Kernel(typename Primitive::primitive_desc described) : desc(std::move(described)), primitive(desc) {}
  typename Primitive::primitive_desc desc;
  Primitive primitive;
};

// Made(key), or the one that was made for an equal key before, by this thread and for as many threads as now: to make
// one costs as much as a small op. A thread keeps the newest 64 of each kind.
template <class Made, class Key>
std::shared_ptr<const Made> kernel_of(const Key& key) {
  struct Known {
    Key key;
    int threads;
    std::shared_ptr<const Made> kernel;
  };
  constexpr std::size_t kMost = 64;
  thread_local std::deque<Known> known;
  const int threads = omp_get_max_threads();
  for (const Known& each : known) {
    if (each.threads == threads && each.key == key) return each.kernel;
  }
  if (known.size() == kMost) known.pop_back();
  known.push_front({key, threads, std::make_shared<const Made>(key)});
  return known.front().kernel;
}

// Queues a kernel, under the limit that it was made under. The scratchpad is given back before it runs, which is right:
// a recording's arena keeps the memory, and outside of recordings the kernel has run when this returns.
template <class Primitive>
void submit(const Stream& stream, const char* what, const Kernel<Primitive>& kernel, Arguments arguments) {
  const dnnl::memory::desc needed = kernel.desc.scratchpad_desc();
  Buffer scratchpad;
  if (needed.get_size() > 0) {
    scratchpad = stream.allocate(needed.get_size());
    arguments.emplace(DNNL_ARG_SCRATCHPAD, dnnl::memory(needed, engine(), scratchpad.data()));
  }
  cpu::submit(stream, [what, threads = omp_get_max_threads(), queue = dnnl::stream(engine()),
                       primitive = kernel.primitive, arguments = std::move(arguments)] {
    const ThreadLimit limit(threads);
    checked(what, [&] { primitive.execute(queue, arguments); });
  });
}

struct Reorder : Kernel<dnnl::reorder> {
  struct Key {
    dnnl::memory::desc from, to;
    bool operator==(const Key&) const = default;
  };
  explicit Reorder(const Key& key)
      : Kernel(dnnl::reorder::primitive_desc(engine(), key.from, engine(), key.to, attributes())) {}
};

inline void reorder(const Stream& stream, const dnnl::memory& from, const dnnl::memory& to) {
  const ThreadLimit limit(threads_for(static_cast<std::int64_t>(from.get_desc().get_size() / sizeof(float))));
  submit(stream, "reorder", *kernel_of<Reorder>(Reorder::Key{from.get_desc(), to.get_desc()}),
         {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

// `given` in the layout that a primitive asks for: itself, or a copy that is made before each run. The copy has memory
// of its own, not of the stream: where the layout has padding oneDNN writes to it at once, while other work may run.
inline dnnl::memory in_layout(const Stream& stream, const dnnl::memory& given, const dnnl::memory::desc& wanted) {
  if (given.get_desc() == wanted) return given;
  dnnl::memory copy(wanted, engine());
  reorder(stream, given, copy);
  return copy;
}

}  // namespace giro::cpu::one_dnn
