#include "kernels/functors/gather.h"

#include "kernels/cuda/for_each.cuh"
#include "kernels/functors/dtype_dispatch.h"
#include "kernels/internal/backends.h"

namespace giro::cuda {
namespace {

// Copies rows in units of 16, 4 or 1 bytes, whichever divides the rows and their addresses.
template <class Unit, class Index>
struct GatherRows {
  Unit* out;
  const Unit* src;
  const Index* indices;
  std::int64_t row_units;
  GIRO_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = i / row_units;
    out[i] = src[static_cast<std::int64_t>(indices[row]) * row_units + (i - row * row_units)];
  }
};

}  // namespace

void gather_rows(const Tensor& out, const Tensor& src, const Tensor& indices, const Stream& stream) {
  if (out.count() == 0) return;
  const std::size_t row_bytes = out.bytes() / static_cast<std::size_t>(indices.count());
  const std::uintptr_t together =
      reinterpret_cast<std::uintptr_t>(out.raw()) | reinterpret_cast<std::uintptr_t>(src.raw()) | row_bytes;
  functors::with_integer(indices.dtype(), [&]<class Index>(functors::Type<Index>) {
    const auto copy_in = [&]<class Unit>(Unit) {
      ForEach{stream}(
          static_cast<std::int64_t>(out.bytes() / sizeof(Unit)),
          GatherRows<Unit, Index>{static_cast<Unit*>(out.raw()), static_cast<const Unit*>(src.raw()),
                                  indices.data<Index>(), static_cast<std::int64_t>(row_bytes / sizeof(Unit))});
    };
    if (together % sizeof(uint4) == 0) {
      copy_in(uint4{});
    } else if (together % sizeof(std::uint32_t) == 0) {
      copy_in(std::uint32_t{});
    } else {
      copy_in(std::uint8_t{});
    }
  });
}

void batch_indices(const Tensor& indices, const SlotRing& positions, const RowOrder& order, const Stream& stream) {
  functors::batch_indices(ForEach{stream}, indices, positions, order);
}

}  // namespace giro::cuda
