#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <giro/runtime/error.h>
#include <giro/runtime/tensor.h>

#include "kernels/cpu/for_each.h"
#include "kernels/cpu/hold_signals.h"
#include "runtime/cpu/stream.h"

namespace giro::cpu::one_dnn {

using Arguments = std::unordered_map<int, dnnl::memory>;

// One per process: a primitive and its memories must share it. Never destroyed, because threads may still use it while
// the program ends.
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

// nullopt for an empty tensor, which an optional argument may be.
inline std::optional<DType> dtype_of(const Tensor& tensor) {
  return tensor ? std::optional(tensor.dtype()) : std::nullopt;
}

inline dnnl::memory::dims dims_of(const dnnl::memory::desc& desc) {
#if DNNL_VERSION_MAJOR >= 3
  return desc.get_dims();
#else
  return desc.dims();
#endif
}

// Images are NHWC, as everywhere in giro; oneDNN lists their axes as N, C, H, W.
inline dnnl::memory::desc images(const Shape& shape, DType dtype) {
  return {{shape[0], shape[3], shape[1], shape[2]}, data_type(dtype), dnnl::memory::format_tag::nhwc};
}

inline dnnl::memory memory(const Tensor& tensor, const dnnl::memory::desc& desc) {
  return dnnl::memory(desc, engine(), tensor.raw());
}

// Runs a oneDNN build or execution step and converts its exception to giro's.
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

// Runs oneDNN's computation `f` on this thread alone. `borrows_stack`: whether f may use the stack pointer as a
// register.
template <class F>
void compute(const char* what, bool borrows_stack, F&& f) {
  const ThreadLimit limit(1);
  const HoldSignals hold(borrows_stack);
  checked(what, f);
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

// Goes on to the first implementation for which skips(name) is false, or to the last one. oneDNN 2 looks for the next
// one by the addresses of the operation descriptor and of the forward one, which must still be there.
template <class Described, class Skips>
void pass_over(Described& desc, const Skips& skips) {
  while (skips(std::string_view(desc.impl_info_str())) && desc.next_impl()) {
  }
}

inline bool skips_none(std::string_view) { return false; }

// The primitive descriptor of an operation, and of its backward pass given the forward one. oneDNN 3 takes the
// arguments directly; oneDNN 2 first makes an operation descriptor from them.
template <class Primitive, class Skips, class... Args>
typename Primitive::primitive_desc describe(const Skips& skips, const Args&... args) {
#if DNNL_VERSION_MAJOR >= 3
  typename Primitive::primitive_desc desc(engine(), args..., attributes());
#else
  const typename Primitive::desc operation(args...);
  typename Primitive::primitive_desc desc(operation, attributes(), engine());
#endif
  pass_over(desc, skips);
  return desc;
}

template <class Primitive, class Skips, class Forward, class... Args>
typename Primitive::primitive_desc describe_backward(const Skips& skips, const Forward& forward, const Args&... args) {
#if DNNL_VERSION_MAJOR >= 3
  typename Primitive::primitive_desc desc(engine(), args..., forward, attributes());
#else
  const typename Primitive::desc operation(args...);
  typename Primitive::primitive_desc desc(operation, attributes(), engine(), forward);
#endif
  pass_over(desc, skips);
  return desc;
}

// Pooling with a dilation argument, the only kind in oneDNN 3.
#if DNNL_VERSION_MAJOR >= 3
using PoolingForward = dnnl::pooling_forward;
using PoolingBackward = dnnl::pooling_backward;
#else
using PoolingForward = dnnl::pooling_v2_forward;
using PoolingBackward = dnnl::pooling_v2_backward;
#endif

// The number of an op's `count` rows or columns in each part, a multiple of `unit`. One thread computes a part. `work`
// is the op's number of multiplications or element moves. The size depends only on the shape, so the bits of the result
// do not depend on the number of threads.
inline std::int64_t part_size(std::int64_t count, std::int64_t work, std::int64_t max_parts = 64,
                              std::int64_t unit = 1) {
  constexpr std::int64_t kMinWork = std::int64_t{1} << 23;
  const auto clamped = std::clamp<std::int64_t>(work / kMinWork, 1, max_parts);
  const auto parts = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(clamped)));
  const std::int64_t even = (count + parts - 1) / parts;
  return (even + unit - 1) / unit * unit;
}

// A primitive and its descriptor, which has its layouts and the size of its scratchpad.
template <class Primitive>
struct Kernel {
  explicit Kernel(typename Primitive::primitive_desc described)
      : desc(std::move(described)),
        primitive(desc),
        borrows_stack(std::string_view(desc.impl_info_str()).find("gemm:") != std::string_view::npos) {}
  typename Primitive::primitive_desc desc;
  Primitive primitive;
  bool borrows_stack;  // those by way of sgemm do: "gemm:jit", "x64:gemm:jit"
};

// A Made(key), cached per thread: creating one costs as much as a small op. A thread keeps the newest 64 of each kind.
// The primitive runs on one thread.
template <class Made, class Key>
std::shared_ptr<const Made> kernel_of(const Key& key) {
  struct Known {
    Key key;
    std::shared_ptr<const Made> kernel;
  };
  constexpr std::size_t kMax = 64;
  thread_local std::deque<Known> known;
  for (const Known& each : known) {
    if (each.key == key) return each.kernel;
  }
  const ThreadLimit limit(1);
  if (known.size() == kMax) known.pop_back();
  known.push_front({key, std::make_shared<const Made>(key)});
  return known.front().kernel;
}

// The parts of an op, which may run in any order and concurrently.
class Parts {
 public:
  template <class Primitive>
  void add(const Kernel<Primitive>& kernel, Arguments arguments) {
    parts_.push_back({kernel.primitive, kernel.borrows_stack, std::move(arguments), kernel.desc.scratchpad_desc()});
  }

  // Keeps the memory alive while the parts may run.
  void keep(dnnl::memory memory) { kept_.push_back(std::move(memory)); }

  // Queues the parts. Their scratchpads are released when this returns. That is safe: a recording's arena keeps the
  // memory, and outside of recordings the parts have run by then.
  void submit(const Stream& stream, const char* what) && {
    std::size_t needed = 0;
    for (const Part& part : parts_) needed += padded(part.scratchpad);
    const Buffer scratchpads = needed > 0 ? stream.allocate(needed) : Buffer();
    auto* next = static_cast<char*>(scratchpads.data());
    for (Part& part : parts_) {
      if (part.scratchpad.get_size() == 0) continue;
      part.arguments.emplace(DNNL_ARG_SCRATCHPAD, dnnl::memory(part.scratchpad, engine(), next));
      next += padded(part.scratchpad);
    }
    cpu::submit(stream, [what, kept = std::move(kept_), parts = std::move(parts_), queue = dnnl::stream(engine())] {
      const auto count = static_cast<std::int64_t>(parts.size());
      for_each_part(count, 1, count > 1 ? kParallelFrom : 0, [&](std::int64_t i, std::int64_t) {
        const Part& part = parts[static_cast<std::size_t>(i)];
        compute(what, part.borrows_stack, [&] { part.primitive.execute(queue, part.arguments); });
      });
    });
  }

 private:
  struct Part {
    dnnl::primitive primitive;
    bool borrows_stack;
    Arguments arguments;
    dnnl::memory::desc scratchpad;
  };
  static std::size_t padded(const dnnl::memory::desc& desc) {
    return (desc.get_size() + Buffer::kAlignment - 1) / Buffer::kAlignment * Buffer::kAlignment;
  }
  std::vector<Part> parts_;
  std::vector<dnnl::memory> kept_;
};

struct Reorder : Kernel<dnnl::reorder> {
  struct Key {
    dnnl::memory::desc from, to;
    bool operator==(const Key&) const = default;
  };
  explicit Reorder(const Key& key)
      : Kernel(dnnl::reorder::primitive_desc(engine(), key.from, engine(), key.to, attributes())) {}
};

inline void reorder(const Stream& stream, const dnnl::memory& from, const dnnl::memory& to) {
  constexpr std::int64_t kLayoutBlock = 64;  // a multiple of the blocks of any layout, along the outermost dimension
  const dnnl::memory::dims dims = dims_of(to.get_desc());
  const auto count = static_cast<std::int64_t>(to.get_desc().get_size() / sizeof(float));
  const std::int64_t size = part_size(dims[0], count, 64, kLayoutBlock);
  Parts parts;
  for (std::int64_t begin = 0; begin < dims[0]; begin += size) {
    dnnl::memory::dims part = dims, offset(dims.size(), 0);
    part[0] = std::min(size, dims[0] - begin);
    offset[0] = begin;
    const Reorder::Key key{from.get_desc().submemory_desc(part, offset), to.get_desc().submemory_desc(part, offset)};
    parts.add(*kernel_of<Reorder>(key), {{DNNL_ARG_FROM, dnnl::memory(key.from, engine(), from.get_data_handle())},
                                         {DNNL_ARG_TO, dnnl::memory(key.to, engine(), to.get_data_handle())}});
  }
  parts.keep(from);
  parts.keep(to);
  std::move(parts).submit(stream, "reorder");
}

// `given` in the layout that a primitive requires: itself, or a copy that is made before each run. The copy has its own
// memory, not the stream's: if the layout has padding, oneDNN writes to it immediately, while other work may run.
inline dnnl::memory in_layout(const Stream& stream, const dnnl::memory& given, const dnnl::memory::desc& wanted) {
  if (given.get_desc() == wanted) return given;
  dnnl::memory copy(wanted, engine());
  reorder(stream, given, copy);
  return copy;
}

}  // namespace giro::cpu::one_dnn
