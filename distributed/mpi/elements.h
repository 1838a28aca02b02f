#pragma once

#include <mpi.h>

#include <giro/distributed/communicator.h>
#include <giro/runtime/dtype.h>

namespace giro::mpi {

// MPI's type for the elements of a dtype, and its operation for a reduction of them; `sum` also serves `mean`. The
// types and operations for f16 and bf16 are giro's own. Call only while MPI is initialized.
MPI_Datatype type_of(DType dtype);
MPI_Op op_of(DType dtype, Reduction reduction);

}  // namespace giro::mpi
