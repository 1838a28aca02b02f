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

const Variables kTorchrun{{"RANK", "5"},
                          {"WORLD_SIZE", "8"},
                          {"LOCAL_RANK", "1"},
                          {"LOCAL_WORLD_SIZE", "4"},
                          {"MASTER_ADDR", "node0"},
                          {"MASTER_PORT", "29500"}};

Variables with(Variables variables, const std::string& name, const std::string& value) {
  variables[name] = value;
  return variables;
}

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

TEST(Launch, ByTorchrun) {
  const Launch found = launch(kTorchrun);
  EXPECT_EQ(found.by, Launch::By::ranks);
  EXPECT_EQ(found.rank, 5);
  EXPECT_EQ(found.size, 8);
  EXPECT_EQ(found.local_rank, 1);
  EXPECT_EQ(found.local_size, 4);
  EXPECT_EQ(found.address, "node0:29500");
  EXPECT_EQ(launch({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).by, Launch::By::hand);
}

TEST(Launch, BySlurm) {
  const Launch found = launch({{"SLURM_PROCID", "3"},
                               {"SLURM_STEP_NUM_TASKS", "4"},
                               {"SLURM_LOCALID", "1"},
                               {"MASTER_ADDR", "10.0.0.1"},
                               {"MASTER_PORT", "1234"}});
  EXPECT_EQ(found.by, Launch::By::ranks);
  EXPECT_EQ(found.rank, 3);
  EXPECT_EQ(found.size, 4);
  EXPECT_EQ(found.local_rank, 1);
  EXPECT_EQ(found.address, "10.0.0.1:1234");
}

TEST(Launch, ErrorsNameTheVariable) {
  const auto expect = [](std::initializer_list<std::string> words, const Variables& variables) {
    test::expect_error(ErrorCode::invalid_argument, words, [&] { (void)launch(variables); });
  };
  expect({"RANK", "\"8\"", "from 0 to 7"}, with(kTorchrun, "RANK", "8"));
  expect({"WORLD_SIZE", "\"many\""}, with(kTorchrun, "WORLD_SIZE", "many"));
  expect({"WORLD_SIZE", "\"0\""}, with(kTorchrun, "WORLD_SIZE", "0"));
  expect({"MASTER_PORT", "\"70000\""}, with(kTorchrun, "MASTER_PORT", "70000"));
  expect({"MASTER_ADDR", "not set", "torchrun"}, with(kTorchrun, "MASTER_ADDR", ""));
  expect({"OMPI_COMM_WORLD_SIZE", "\"2x\""}, {{"OMPI_COMM_WORLD_SIZE", "2x"}});
  Variables without_local = kTorchrun;
  without_local.erase("LOCAL_RANK");
  expect({"LOCAL_RANK", "not set"}, without_local);
}

TEST(Executable, HasAnIdThatStays) {
  EXPECT_EQ(executable_id(), executable_id());
  EXPECT_GT(executable_id().size(), 7u);
}

}  // namespace
}  // namespace giro::detail
