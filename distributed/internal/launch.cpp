#include "distributed/internal/launch.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include <giro/runtime/error.h>

#include "runtime/internal/text.h"

namespace giro::detail {
namespace {

int positive(const char* name, std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && number > 0) return number;
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("World: the environment variable {} is {}, expected a number of processes", name, printable(text)));
}

}  // namespace

Launch read_launch(const std::function<const char*(const char*)>& variable) {
  using By = Launch::By;
  const auto has = [&](const char* name) { return variable(name) != nullptr; };
  const auto size_of = [&](const char* name) { return positive(name, variable(name)); };
  // A script of sbatch that runs outside of srun is in no step, and alone.
  const char* const slurm = "SLURM_STEP_NUM_TASKS";
  const bool in_slurm_step = has(slurm) && has("SLURM_PROCID");

  // Open MPI's mpirun; MPICH's and Intel's; a PMIx server, as Slurm can be one.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    if (has(name)) return {By::mpi, "mpirun", size_of(name)};
  }
  if (has("PMIX_RANK") || has("PMI_RANK")) return {By::mpi, "mpirun or srun", in_slurm_step ? size_of(slurm) : 0};
  if (has("RANK") && has("WORLD_SIZE") && size_of("WORLD_SIZE") > 1) {
    return {By::other, "torchrun", size_of("WORLD_SIZE")};
  }
  if (in_slurm_step && size_of(slurm) > 1) return {By::other, "srun", size_of(slurm)};
  return {};
}

}  // namespace giro::detail
