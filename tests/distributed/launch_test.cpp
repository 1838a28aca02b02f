#include "distributed/internal/launch.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "distributed/internal/executable.h"
#include "tests/expect_error.h"

namespace giro::detail {
namespace {

using Variables = std::map<std::string, std::string>;

Launch launch(const Variables& variables) {
  return read_launch([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

const Variables kTorchrun{{"RANK", "5"}, {"WORLD_SIZE", "8"}};

TEST(Launch, ByHandIsAlone) {
  EXPECT_EQ(launch({}).by, Launch::By::hand);
  EXPECT_EQ(launch({{"RANK", "0"}}).by, Launch::By::hand);
  EXPECT_EQ(launch({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}).by, Launch::By::hand) << "a script of sbatch";
}

TEST(Launch, ByMpi) {
  EXPECT_EQ(launch({{"OMPI_COMM_WORLD_SIZE", "4"}}).size, 4);
  EXPECT_EQ(launch({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}).size, 2);
  EXPECT_EQ(launch({{"PMIX_RANK", "0"}}).size, 0);
  const Launch slurm = launch({{"PMIX_RANK", "0"}, {"SLURM_STEP_NUM_TASKS", "3"}, {"SLURM_PROCID", "0"}});
  EXPECT_EQ(slurm.by, Launch::By::mpi);
  EXPECT_EQ(slurm.size, 3);
  Variables both = kTorchrun;
  both["OMPI_COMM_WORLD_SIZE"] = "8";
  EXPECT_EQ(launch(both).by, Launch::By::mpi);
}

TEST(Launch, ByWhatGiroDoesNotKnow) {
  const Launch torchrun = launch(kTorchrun);
  EXPECT_EQ(torchrun.by, Launch::By::other);
  EXPECT_EQ(torchrun.launcher, "torchrun");
  EXPECT_EQ(torchrun.size, 8);
  EXPECT_EQ(launch({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).by, Launch::By::hand);
  const Launch slurm = launch({{"SLURM_PROCID", "3"}, {"SLURM_STEP_NUM_TASKS", "4"}});
  EXPECT_EQ(slurm.by, Launch::By::other);
  EXPECT_EQ(slurm.launcher, "srun");
  EXPECT_EQ(slurm.size, 4);
}

TEST(Launch, ErrorsNameTheVariable) {
  const auto expect = [](std::initializer_list<std::string> words, const Variables& variables) {
    test::expect_error(ErrorCode::invalid_argument, words, [&] { (void)launch(variables); });
  };
  expect({"WORLD_SIZE", "\"many\""}, {{"RANK", "0"}, {"WORLD_SIZE", "many"}});
  expect({"WORLD_SIZE", "\"0\""}, {{"RANK", "0"}, {"WORLD_SIZE", "0"}});
  expect({"OMPI_COMM_WORLD_SIZE", "\"2x\""}, {{"OMPI_COMM_WORLD_SIZE", "2x"}});
}

TEST(Executable, HasAnIdThatStays) {
  EXPECT_EQ(executable_id(), executable_id());
  EXPECT_GT(executable_id().size(), 7u);
}

}  // namespace
}  // namespace giro::detail
