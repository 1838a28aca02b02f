#include "kernels/host_device/batch_indices.h"

#include <type_traits>

#include "kernels/cuda/kernel_launch.cuh"
#include "kernels/host_device/fault.h"
#include "kernels/host_device/storage.h"
#include "kernels/ops.h"

namespace giro::cuda {
namespace {

// Copies rows in units of 16, 4 or 1 bytes, the largest that divides the rows and their addresses.
template <class Unit, class Index>
struct GatherRows {
  Unit* out;
  const Unit* src;
  const Index* indices;
  std::int64_t row_units, count, size;  // count, size: rows of out and of src per outer index
  bool has_outer;                       // whether there are axes before the gathered one
  std::uint64_t missing;                // eight bytes that stand for an index out of range
  host_device::Fault fault;
  GIRO_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t row = i / row_units, outer = has_outer ? row / count : 0;
    const auto index = static_cast<std::int64_t>(indices[row - outer * count]);
    if (index >= 0 && index < size) {
      out[i] = src[(outer * size + index) * row_units + (i - row * row_units)];
      return;
    }
    if (row < count && i == row * row_units) fault(row, index);
    if constexpr (sizeof(Unit) == sizeof(uint4)) {
      const auto low = static_cast<unsigned int>(missing), high = static_cast<unsigned int>(missing >> 32);
      out[i] = Unit{low, high, low, high};
    } else {
      constexpr int kUnits = sizeof(missing) / sizeof(Unit);
      out[i] = static_cast<Unit>(missing >> (8 * sizeof(Unit) * (i % kUnits)));
    }
  }
};

}  // namespace

void run(const ops::GatherRows& op, const Stream& stream) {
  if (op.out.count() == 0) return;
  const std::int64_t count = op.indices.count(), outer = op.outer();
  const std::size_t row_bytes = op.out.bytes() / static_cast<std::size_t>(outer * count);
  const std::uintptr_t together =
      reinterpret_cast<std::uintptr_t>(op.out.raw()) | reinterpret_cast<std::uintptr_t>(op.src.raw()) | row_bytes;
  host_device::with_integer(op.indices.dtype(), [&]<class Index>(host_device::Type<Index>) {
    with_unit(together, [&]<class Unit>(Unit) {
      for_each(stream, static_cast<std::int64_t>(op.out.bytes() / sizeof(Unit)),
               GatherRows<Unit, Index>{static_cast<Unit*>(op.out.raw()), static_cast<const Unit*>(op.src.raw()),
                                       op.indices.data<Index>(), static_cast<std::int64_t>(row_bytes / sizeof(Unit)),
                                       count, op.src.shape().begin()[op.axis], outer > 1,
                                       host_device::missing(op.src.dtype()), host_device::Fault(op.fault)});
    });
  });
}

void run(const ops::BatchIndices& op, const Stream& stream) {
  for_each(
      stream, op.indices.count(),
      host_device::BatchIndices{op.indices.data<std::int64_t>(), host_device::CurrentSlot(op.positions()), op.order});
}

namespace {

constexpr int kGatherThreads = 256;

// GatheredArrays in a form that kernels take by value.
struct GatheredRows {
  struct Array {
    void* out;
    const void* src;
    std::int64_t bytes;  // per row of src
    float factor;
    DType dtype;      // of out if it differs from src's; else u8
    bool is_aligned;  // to four elements
  };
  Array arrays[ops::GatherBatch::kMax];
  int count;
};

// Factor times each byte of a row or, as bytes, the row itself. Four at a time if aligned.
template <class T>
__device__ void copy_row(std::int64_t r, const unsigned char* row, const GatheredRows::Array& array) {
  T* const out = static_cast<T*>(array.out) + r * array.bytes;
  const auto scaled = [&](unsigned char byte) {
    if constexpr (std::is_same_v<T, unsigned char>) {
      return byte;
    } else {
      return T(array.factor * static_cast<float>(byte));
    }
  };
  if (array.is_aligned) {
    for (std::int64_t i = threadIdx.x; i < array.bytes / 4; i += kGatherThreads) {
      const uchar4 bytes = reinterpret_cast<const uchar4*>(row)[i];
      reinterpret_cast<host_device::Pack<T, 4>*>(out)[i] = {scaled(bytes.x), scaled(bytes.y), scaled(bytes.z),
                                                            scaled(bytes.w)};
    }
  } else {
    for (std::int64_t i = threadIdx.x; i < array.bytes; i += kGatherThreads) out[i] = scaled(row[i]);
  }
}

// One block per row of the batch.
__global__ void gather_batch_kernel(GatheredRows rows, host_device::CurrentSlot position, RowOrder order) {
  __shared__ std::int64_t index;
  const std::int64_t r = blockIdx.x;
  if (threadIdx.x == 0) index = order(*reinterpret_cast<const std::int64_t*>(position()) + r);
  __syncthreads();
  for (int a = 0; a < rows.count; ++a) {
    const GatheredRows::Array& array = rows.arrays[a];
    const auto* const row = static_cast<const unsigned char*>(array.src) + index * array.bytes;
    if (array.dtype == DType::f32) {
      copy_row<float>(r, row, array);
    } else if (array.dtype == DType::bf16) {
      copy_row<BFloat16>(r, row, array);
    } else if (array.dtype == DType::f16) {
      copy_row<Float16>(r, row, array);
    } else {
      copy_row<unsigned char>(r, row, array);
    }
  }
}

}  // namespace

void run(const ops::GatherBatch& op, const Stream& stream) {
  const std::int64_t count = op.arrays.front().out.shape()[0];
  if (count == 0) return;
  GatheredRows rows{};
  for (const auto& [out, src, factor] : op.arrays) {
    const std::size_t bytes = static_cast<std::size_t>(out.count() / count) * size_of(src.dtype());
    const std::uintptr_t together =
        reinterpret_cast<std::uintptr_t>(out.raw()) | reinterpret_cast<std::uintptr_t>(src.raw()) | bytes;
    const bool converts = out.dtype() != src.dtype();
    const bool out_is_aligned =
        !converts || reinterpret_cast<std::uintptr_t>(out.raw()) % (4 * size_of(out.dtype())) == 0;
    rows.arrays[rows.count++] = {out.raw(),
                                 src.raw(),
                                 static_cast<std::int64_t>(bytes),
                                 factor,
                                 converts ? out.dtype() : DType::u8,
                                 together % 4 == 0 && out_is_aligned};
  }
  gather_batch_kernel<<<blocks_for(count, 1), kGatherThreads, 0, handle(stream)>>>(
      rows, host_device::CurrentSlot(op.positions()), op.order);
  check_launch("gather_batch_kernel");
}

}  // namespace giro::cuda
