#pragma once

#include <omp.h>

#include <oneapi/dnnl/dnnl.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include <giro/runtime/error.h>
#include <giro/runtime/tensor.h>

#include "kernels/cpu/wait_policy.h"
#include "runtime/cpu/stream.h"

namespace giro::cpu::one_dnn {

using Arguments = std::unordered_map<int, dnnl::memory>;

// One for all: what a primitive works with has to be of its own engine.
inline const dnnl::engine& engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

// oneDNN's name for f32, bf16 and f16.
inline dnnl::memory::data_type data_type(DType dtype) {
  return dtype == DType::bf16  ? dnnl::memory::data_type::bf16
         : dtype == DType::f16 ? dnnl::memory::data_type::f16
                               : dnnl::memory::data_type::f32;
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

// What a primitive needs while it runs it is given by giro, so that one may run in several places at a time.
inline const dnnl::primitive_attr& attributes() {
  static const dnnl::primitive_attr attributes = [] {
    dnnl::primitive_attr made;
    made.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return made;
  }();
  return attributes;
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

// A primitive and what describes it, which says what it needs.
template <class Primitive>
struct Kernel {
  explicit Kernel(typename Primitive::primitive_desc described) : desc(std::move(described)), primitive(desc) {}
  typename Primitive::primitive_desc desc;
  Primitive primitive;
};

// Kernel(key), or the one that was made for an equal key before, by this thread and for as many threads as now: to make
// one costs as much as a small op. A thread keeps the last few.
template <class Kernel, class Key>
std::shared_ptr<const Kernel> kernel_of(const Key& key) {
  struct Known {
    Key key;
    int threads;
    std::shared_ptr<const Kernel> kernel;
  };
  constexpr std::size_t kMost = 64;
  thread_local std::deque<Known> known;
  const int threads = omp_get_max_threads();
  for (const Known& each : known) {
    if (each.threads == threads && each.key == key) return each.kernel;
  }
  if (known.size() == kMost) known.pop_back();
  known.push_front({key, threads, std::make_shared<const Kernel>(key)});
  return known.front().kernel;
}

// Queues a kernel that was made under ThreadLimit(work). The call owns what it needs: primitive and memories.
template <class Primitive>
void submit(const Stream& stream, const char* what, std::int64_t work, const Kernel<Primitive>& kernel,
            Arguments arguments) {
  const dnnl::memory::desc needed = kernel.desc.scratchpad_desc();
  Buffer workspace;
  if (needed.get_size() > 0) {
    workspace = stream.allocate(needed.get_size());
    arguments.emplace(DNNL_ARG_SCRATCHPAD, dnnl::memory(needed, engine(), workspace.data()));
  }
  cpu::submit(stream, [what, work, queue = dnnl::stream(engine()), primitive = kernel.primitive,
                       arguments = std::move(arguments)] {
    const ThreadLimit limit(work);
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
  const auto work = static_cast<std::int64_t>(from.get_desc().get_size() / sizeof(float));
  const ThreadLimit limit(work);
  submit(stream, "reorder", work, *kernel_of<Reorder>(Reorder::Key{from.get_desc(), to.get_desc()}),
         {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

// A memory in the layout that a primitive asks for, which may be one of its own.
struct Laid {
  Laid(const Stream& stream, const dnnl::memory& given, const dnnl::memory::desc& wanted)
      : is_own(given.get_desc() != wanted), memory(given) {
    if (!is_own) return;
    storage = stream.allocate(wanted.get_size());
    memory = dnnl::memory(wanted, engine(), storage.data());
  }
  bool is_own;
  Buffer storage;
  dnnl::memory memory;
};

// What a primitive reads, in its layout: a copy that is made before each run unless `given` has that.
inline Laid in_layout(const Stream& stream, const dnnl::memory& given, const dnnl::memory::desc& wanted) {
  Laid laid(stream, given, wanted);
  if (laid.is_own) reorder(stream, given, laid.memory);
  return laid;
}

}  // namespace giro::cpu::one_dnn
