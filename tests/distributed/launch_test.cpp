#include "distributed/launch.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/support/expect_error.h"

namespace giro::detail {
namespace {

using Variables = std::map<std::string, std::string>;

Launch launch(const Variables& variables, bool has_mpi = true) {
  return read_launch(
      [&](const char* name) {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
      },
      has_mpi);
}

const Variables kTorchrun{
    {"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"MASTER_ADDR", "node0"}, {"MASTER_PORT", "29500"}};
const Variables kSrun{{"SLURM_PROCID", "3"},   {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_LOCALID", "2"},
                      {"SLURM_JOB_ID", "100"}, {"SLURM_STEP_ID", "3"},        {"SLURM_STEP_NUM_NODES", "1"}};

Variables with(Variables variables, const Variables& others) {
  for (const auto& [name, value] : others) variables[name] = value;
  return variables;
}
Variables without(Variables variables, const std::string& name) {
  EXPECT_EQ(variables.erase(name), 1u);
  return variables;
}

void expect_environment(const Launch& launch, const std::string& launcher, const std::string& place) {
  EXPECT_EQ(launch.method, Launch::Method::environment);
  EXPECT_EQ(launch.launcher, launcher);
  EXPECT_EQ(
      fmt::format("rank {} of {}, {} on its host, {}", launch.rank, launch.size, launch.local_rank, launch.address),
      place);
}

TEST(Launch, ByHandIsASingleProcess) {
  EXPECT_EQ(launch({}).method, Launch::Method::manual);
  EXPECT_EQ(launch({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).method, Launch::Method::manual);
  EXPECT_EQ(launch({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}).method, Launch::Method::manual)
      << "a script of sbatch";
  EXPECT_EQ(launch({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}).method, Launch::Method::manual);
}

TEST(Launch, ByMpi) {
  EXPECT_EQ(launch({{"OMPI_COMM_WORLD_SIZE", "4"}}).size, 4);
  EXPECT_EQ(launch({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}).size, 2);
  EXPECT_EQ(launch({{"PMIX_RANK", "0"}}).size, 0);
  const Launch slurm = launch(with(kSrun, {{"PMIX_RANK", "3"}}));
  EXPECT_EQ(slurm.method, Launch::Method::mpi);
  EXPECT_EQ(slurm.size, 4);
  EXPECT_EQ(launch(with(kTorchrun, {{"OMPI_COMM_WORLD_SIZE", "8"}})).method, Launch::Method::mpi);
  EXPECT_EQ(launch({{"OMPI_COMM_WORLD_SIZE", "8"}, {"RANK", "5"}}).size, 8) << "whatever else is half said";
}

TEST(Launch, WithoutMpiByEnvironmentVariables) {
  EXPECT_EQ(launch(with(kSrun, {{"PMIX_RANK", "3"}}), false).launcher, "srun");
  EXPECT_EQ(launch(with(kTorchrun, {{"PMI_RANK", "5"}}), false).launcher, "torchrun");
  EXPECT_EQ(launch({{"OMPI_COMM_WORLD_SIZE", "8"}}, false).method, Launch::Method::mpi) << "which is an error";
}

TEST(Launch, ByTorchrun) {
  expect_environment(launch(with(kTorchrun, kSrun)), "torchrun", "rank 5 of 8, 1 on its host, node0:29500");
  EXPECT_EQ(launch(with(kTorchrun, {{"MASTER_ADDR", "fe80::1"}})).address, "[fe80::1]:29500");
  EXPECT_EQ(launch(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}})).address, "node0:29501");
  EXPECT_EQ(launch(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}})).address, "node0:29500");
  EXPECT_EQ(launch(with(kTorchrun, {{"PMIX_RANK", "0"}, {"TORCHELASTIC_RUN_ID", "1"}})).launcher, "torchrun");
  const Launch one = launch(with(kTorchrun, {{"RANK", "0"}, {"LOCAL_RANK", "0"}, {"WORLD_SIZE", "1"}}));
  EXPECT_EQ(one.method, Launch::Method::environment);
  EXPECT_EQ(one.size, 1);
}

TEST(Launch, BySlurm) {
  expect_environment(launch(kSrun), "srun", "rank 3 of 4, 2 on its host, 127.0.0.1:21603");
  EXPECT_EQ(launch(with(kSrun, {{"SLURM_JOB_ID", "4294967295"}})).address, "127.0.0.1:31283");
  const Variables two_nodes = with(kSrun, {{"SLURM_STEP_NUM_NODES", "2"}});
  EXPECT_EQ(launch(with(two_nodes, {{"MASTER_ADDR", "node0"}, {"MASTER_PORT", "29500"}})).address, "node0:29500");
}

TEST(Launch, ErrorsNameTheVariable) {
  const auto expect = [](std::initializer_list<std::string> words, const Variables& variables) {
    test::expect_error(ErrorCode::invalid_argument, words, [&] { (void)launch(variables); });
  };
  expect({"WORLD_SIZE", "\"many\""}, with(kTorchrun, {{"WORLD_SIZE", "many"}}));
  expect({"WORLD_SIZE", "\"0\"", "from 1"}, with(kTorchrun, {{"WORLD_SIZE", "0"}}));
  expect({"OMPI_COMM_WORLD_SIZE", "\"2x\""}, {{"OMPI_COMM_WORLD_SIZE", "2x"}});
  expect({"variable RANK", "\"8\"", "from 0 to 7"}, with(kTorchrun, {{"RANK", "8"}}));
  expect({"variable RANK", "\"-1\""}, with(kTorchrun, {{"RANK", "-1"}}));
  expect({"LOCAL_RANK", "\"8\"", "from 0 to 7"}, with(kTorchrun, {{"LOCAL_RANK", "8"}}));
  expect({"MASTER_PORT", "\"65536\""}, with(kTorchrun, {{"MASTER_PORT", "65536"}}));
  expect({"MASTER_PORT", "\"99999999999\""}, with(kTorchrun, {{"MASTER_PORT", "99999999999"}}));
  expect({"MASTER_ADDR", "empty"}, with(kTorchrun, {{"MASTER_ADDR", ""}}));
  for (const auto& [name, value] : kTorchrun) expect({"variable " + name + " is missing"}, without(kTorchrun, name));
  expect({"SLURM_PROCID", "\"4\"", "from 0 to 3"}, with(kSrun, {{"SLURM_PROCID", "4"}}));
  for (const char* name : {"SLURM_LOCALID", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_STEP_NUM_NODES"}) {
    expect({std::string("variable ") + name + " is missing"}, without(kSrun, name));
  }
  expect({"MASTER_ADDR is missing"}, with(kSrun, {{"SLURM_STEP_NUM_NODES", "2"}}));
  expect({"MASTER_PORT is missing"}, with(kSrun, {{"MASTER_ADDR", "node0"}}));
}

TEST(Executable, HasAStableId) {
  EXPECT_EQ(executable_id(), executable_id());
  EXPECT_GT(executable_id().size(), 7u);
}

}  // namespace
}  // namespace giro::detail
