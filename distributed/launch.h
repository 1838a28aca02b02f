#pragma once

#include <functional>
#include <string>

namespace giro::detail {

// How the program was started, according to the environment.
struct Launch {
  enum class Method {
    manual,       // alone
    mpi,          // mpirun or a similar launcher: MPI provides the rest
    environment,  // torchrun, or Slurm without MPI: all fields below are set
  };
  Method method = Method::manual;
  std::string launcher;  // for messages: "torchrun"
  int size = 1;          // processes; 0: unknown from the environment
  int rank = 0, local_rank = 0;
  std::string address = {};  // host:port, where the ranks meet: rank 0 listens there
};

// `variable` returns the value of an environment variable, or null. If giro `has_mpi`, MPI takes precedence, unless
// torchrun was started within its job. Error(invalid_argument), naming the variable, if one is missing or malformed.
Launch read_launch(const std::function<const char*(const char*)>& variable, bool has_mpi);

// Identifies the build of the running program: the linker's build id, or the file size if there is none. Copies of a
// program have the same id.
std::string executable_id();

}  // namespace giro::detail
