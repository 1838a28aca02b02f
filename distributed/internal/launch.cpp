#include "distributed/internal/launch.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <string_view>

#include <giro/runtime/error.h>

#include "runtime/internal/text.h"

namespace giro::detail {
namespace {

class Environment {
 public:
  explicit Environment(const std::function<const char*(const char*)>& variable) : variable_(variable) {}

  bool has(const char* name) const { return variable_(name) != nullptr; }

  std::string text(const char* name, const std::string& launcher) const {
    const char* const value = variable_(name);
    if (value == nullptr || *value == '\0') {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("World: {} started the program, and {} is not set", launcher, name));
    }
    return value;
  }

  int number(const char* name, int least, int most) const {
    const char* const value = variable_(name);
    const std::string_view text = value == nullptr ? "" : value;
    int number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number < least || number > most) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("World: the environment variable {} is {}, expected a number from {} to {}", name,
                              value == nullptr ? "not set" : printable(text), least, most));
    }
    return number;
  }

 private:
  const std::function<const char*(const char*)>& variable_;
};

constexpr int kMostRanks = 1 << 24;

Launch of_ranks(const Environment& environment, const char* launcher, const char* size, const char* rank,
                const char* local_rank) {
  Launch launch{.by = Launch::By::ranks, .launcher = launcher};
  launch.size = environment.number(size, 1, kMostRanks);
  launch.rank = environment.number(rank, 0, launch.size - 1);
  if (launch.size == 1) return {};
  launch.local_rank = environment.number(local_rank, 0, launch.size - 1);
  launch.address =
      fmt::format("{}:{}", environment.text("MASTER_ADDR", launcher), environment.number("MASTER_PORT", 1, 65535));
  return launch;
}

}  // namespace

Launch read_launch(const std::function<const char*(const char*)>& variable) {
  const Environment environment(variable);
  const bool in_slurm_step = environment.has("SLURM_STEP_NUM_TASKS") && environment.has("SLURM_PROCID");

  // Open MPI's mpirun; MPICH's and Intel's; a PMIx server, as Slurm can be one.
  for (const char* size : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    if (environment.has(size)) {
      return {.by = Launch::By::mpi, .launcher = "mpirun", .size = environment.number(size, 1, kMostRanks)};
    }
  }
  if (environment.has("PMIX_RANK") || environment.has("PMI_RANK")) {
    const int size = in_slurm_step ? environment.number("SLURM_STEP_NUM_TASKS", 1, kMostRanks) : 0;
    return {.by = Launch::By::mpi, .launcher = "mpirun or srun", .size = size};
  }
  if (environment.has("RANK") && environment.has("WORLD_SIZE")) {
    Launch launch = of_ranks(environment, "torchrun", "WORLD_SIZE", "RANK", "LOCAL_RANK");
    if (environment.has("LOCAL_WORLD_SIZE")) {
      launch.local_size = environment.number("LOCAL_WORLD_SIZE", launch.local_rank + 1, launch.size);
    }
    return launch;
  }
  // A script of sbatch that runs outside of srun is in no step, and alone.
  if (in_slurm_step) return of_ranks(environment, "srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_LOCALID");
  return {};
}

}  // namespace giro::detail
