#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <giro/distributed/communicator.h>
#include <giro/runtime/dtype.h>

namespace giro::test {

// A rank's input, which every rank can compute.
std::vector<double> input(DType dtype, std::int64_t count, int rank, unsigned seed);

// The reduction of all ranks' inputs, computed sequentially in double, and bounds on the rounding error of a rank.
struct Expected {
  std::vector<double> values, bounds;
};
Expected reduced(DType dtype, std::int64_t count, Reduction reduction, int ranks, unsigned seed);
void expect_reduced(const std::vector<double>& found, const Expected& expected, const std::string& what);

}  // namespace giro::test
