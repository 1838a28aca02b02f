#include "distributed/mpi/elements.h"

#include <cstddef>

#include <giro/runtime/float16.h>

namespace giro::mpi {
namespace {

// Two opaque bytes. giro's own operations do not look at the type, so one type serves both formats.
MPI_Datatype sixteen_bits() {
  static const MPI_Datatype type = [] {
    MPI_Datatype made = MPI_DATATYPE_NULL;
    MPI_Type_contiguous(2, MPI_BYTE, &made);
    MPI_Type_commit(&made);
    return made;
  }();
  return type;
}

template <class T, Reduction kReduction>
void reduce(void* in, void* in_out, int* count, MPI_Datatype*) {
  const T* const a = static_cast<const T*>(in);
  T* const b = static_cast<T*>(in_out);
  for (int i = 0; i < *count; ++i) {
    const float x = a[i], y = b[i];
    if constexpr (kReduction == Reduction::sum) b[i] = T(x + y);
    if constexpr (kReduction == Reduction::max) b[i] = T(x > y ? x : y);
    if constexpr (kReduction == Reduction::min) b[i] = T(x < y ? x : y);
  }
}

template <class T, Reduction kReduction>
MPI_Op custom_op() {
  static const MPI_Op op = [] {
    MPI_Op made = MPI_OP_NULL;
    MPI_Op_create(reduce<T, kReduction>, /*commute=*/1, &made);
    return made;
  }();
  return op;
}

template <class T>
MPI_Op custom_op(Reduction reduction) {
  if (reduction == Reduction::max) return custom_op<T, Reduction::max>();
  if (reduction == Reduction::min) return custom_op<T, Reduction::min>();
  return custom_op<T, Reduction::sum>();
}

}  // namespace

MPI_Datatype type_of(DType dtype) {
  const MPI_Datatype in_order_of_dtype[] = {MPI_FLOAT,   sixteen_bits(), sixteen_bits(), MPI_DOUBLE,
                                            MPI_INT32_T, MPI_INT64_T,    MPI_UINT8_T,    MPI_UINT8_T};
  return in_order_of_dtype[static_cast<std::size_t>(dtype)];
}

MPI_Op op_of(DType dtype, Reduction reduction) {
  if (dtype == DType::bf16) return custom_op<BFloat16>(reduction);
  if (dtype == DType::f16) return custom_op<Float16>(reduction);
  if (reduction == Reduction::max) return MPI_MAX;
  if (reduction == Reduction::min) return MPI_MIN;
  return MPI_SUM;
}

}  // namespace giro::mpi
