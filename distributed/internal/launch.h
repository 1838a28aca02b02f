#pragma once

#include <functional>
#include <string>

namespace giro::detail {

// What the environment says of how the program was started.
struct Launch {
  enum class By {
    hand,   // alone
    mpi,    // mpirun or its like: MPI tells the rest
    ranks,  // torchrun or Slurm: variables name rank and place of each process
  };
  By by = By::hand;
  std::string launcher;                          // for messages: "torchrun"
  int size = 1;                                  // 0: the environment does not say
  int rank = 0, local_rank = 0, local_size = 1;  // of `ranks`
  std::string address;                           // "host:port" where rank 0 of `ranks` can be reached
};

// `variable` gives the value of an environment variable, or null. Error(invalid_argument) for values that cannot be:
// those say that there are other processes.
Launch read_launch(const std::function<const char*(const char*)>& variable);

}  // namespace giro::detail
