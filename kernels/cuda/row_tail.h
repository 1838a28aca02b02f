#pragma once

#include <string>
#include <vector>

#include <giro/kernels/publish.h>
#include <giro/runtime/stream.h>

#include "kernels/functors/publish.h"

namespace giro::cuda {

// A part of a row of scalars (giro/kernels/publish.h), which the last block of a generated kernel publishes once all
// others are done.
struct RowTail {
  RowRing ring;
  Tensor row;
  RowPart part;

  // What a source depends on.
  void add_to(std::vector<std::int64_t>& key) const;
};

// The parameters of the kernel, and what follows after its elements.
std::string tail_parameters(const RowPart& part);
std::string tail_source(const RowPart& part);
// The arguments, in the order of the parameters: addresses and, as wide as these, numbers.
std::vector<void*> tail_arguments(const RowTail& tail, unsigned int* arrivals);

}  // namespace giro::cuda
