#pragma once

#include <functional>
#include <string>

namespace giro::detail {

// What the environment says of how the program was started.
struct Launch {
  enum class By {
    hand,         // alone
    mpi,          // mpirun or its like: MPI tells the rest
    environment,  // torchrun, or Slurm without MPI: all that follows is known
  };
  By by = By::hand;
  std::string launcher;  // for messages: "torchrun"
  int size = 1;          // processes; 0: the environment does not say
  int rank = 0, local_rank = 0;
  std::string address = {};  // host:port, where the ranks meet: rank 0 listens there
};

// `variable` gives the value of an environment variable, or null. MPI comes first if giro `has_mpi`, unless torchrun
// was started within its job. Error(invalid_argument), naming the variable, for one that is missing or malformed.
Launch read_launch(const std::function<const char*(const char*)>& variable, bool has_mpi);

}  // namespace giro::detail
