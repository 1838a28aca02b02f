#pragma once

#include <mpi.h>

#include <giro/distributed/communicator.h>
#include <giro/runtime/dtype.h>

namespace giro::mpi {

// MPI's type of a dtype's elements, and its operation for a reduction of them, `sum` standing for `mean` as well. Those
// of f16 and bf16 are giro's own. To be called while MPI is there.
MPI_Datatype type_of(DType dtype);
MPI_Op op_of(DType dtype, Reduction reduction);

}  // namespace giro::mpi
