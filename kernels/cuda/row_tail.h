#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/publish_op.h"

namespace giro::cuda {

// The last block of a generated kernel publishes part of a row of scalars once all other blocks are done.

// Adds everything that the tail's source depends on.
void add_to_key(const ops::Publish& row, std::vector<std::int64_t>& key);

// The parameters of the kernel, and the code after its elements.
std::string tail_parameters(const ops::Publish& row);
std::string tail_source(const ops::Publish& row);
// The arguments, in the order of the parameters: addresses, and numbers cast to pointers.
std::vector<void*> tail_arguments(const ops::Publish& row, unsigned int* arrivals);

}  // namespace giro::cuda
