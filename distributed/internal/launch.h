#pragma once

#include <functional>
#include <string>

namespace giro::detail {

// What the environment says of how the program was started.
struct Launch {
  enum class By {
    hand,   // alone
    mpi,    // mpirun or its like: MPI tells the rest
    other,  // torchrun, or Slurm without MPI, which giro does not know how to connect
  };
  By by = By::hand;
  std::string launcher;  // for messages: "torchrun"
  int size = 1;          // processes; 0: the environment does not say
};

// `variable` gives the value of an environment variable, or null. Error(invalid_argument) for sizes that cannot be.
Launch read_launch(const std::function<const char*(const char*)>& variable);

}  // namespace giro::detail
