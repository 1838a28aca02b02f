#pragma once

#include <cstddef>
#include <string>

#include <giro/runtime/state.h>

namespace giro {

struct ParameterOverviewOptions {
  std::string prefix = "params";  // the leaves below it; "": all
  bool stats = true;              // the columns Mean and Std, which need the listed leaves copied to the host
  bool sharding = false;          // the column Sharding: which elements of the whole leaf a piece has
  std::size_t max_rows = 0;       // "[...]" stands for the rest; 0: all rows
};

// A table of a state's leaves in the order of the tree, like CLU's get_parameter_overview. It does not end with a line
// break:
//   +-------------+--------------+-------+------+------+------+
//   | Name        | Shape        | Dtype | Size | Mean | Std  |
//   +-------------+--------------+-------+------+------+------+
//   | conv/kernel | (3, 3, 3, 2) | f32   | 54   | 1.0  | 0.0  |
//   | conv/bias   | (2,)         | f32   | 2    | 1.75 | 0.75 |
//   +-------------+--------------+-------+------+------+------+
//   Total: 56 -- 224 bytes
// The standard deviation is the population's. Waits for the device. Error(not_found) if no leaf is below the prefix.
std::string parameter_overview(const State& state, const ParameterOverviewOptions& options = {});

}  // namespace giro
