#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/op_cost.h"
#include "runtime/faults.h"

namespace giro::ops {

// out[..., r, ...] = src[..., indices[r], ...] along an axis. Where an index is outside of the axis, the result is NaN,
// or 0 if it is not floating.
struct GatherRows {
  static constexpr const char* kName = "gather_rows";
  Out out{};
  In src{}, indices{};
  std::size_t axis = 0;
  Fault fault{};

  const detail::OpSignature& arguments() const {
    static_assert(Shape::kMaxRank == 6);
    static const detail::OpSignature along[]{
        detail::OpSignature("src: t([n]...), indices: i(r), call?: i64() -> out: t(r...)"),
        detail::OpSignature("src: t(a[n]...), indices: i(r), call?: i64() -> out: t(ar...)"),
        detail::OpSignature("src: t(ab[n]...), indices: i(r), call?: i64() -> out: t(abr...)"),
        detail::OpSignature("src: t(abc[n]...), indices: i(r), call?: i64() -> out: t(abcr...)"),
        detail::OpSignature("src: t(abcd[n]...), indices: i(r), call?: i64() -> out: t(abcdr...)"),
        detail::OpSignature("src: t(abcde[n]), indices: i(r), call?: i64() -> out: t(abcder)"),
    };
    return along[axis];
  }
  // The product of the axes before it.
  std::int64_t outer() const { return Shape(std::span(src.shape().begin(), axis)).count(); }
  std::int64_t bytes() const { return 2 * bytes_of(out) + bytes_of(indices); }
};

}  // namespace giro::ops
