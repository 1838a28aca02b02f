// Tests that several processes run at once, each as a rank: mpirun -n 4 distributed_ranks [--gtest_...]. With `fault
// NAME`, a rank fails in a way that the others must notice (faults_test.py). With `train DIR ...`, the ranks train a
// small model (train.cpp).

#include <gtest/gtest.h>
#include <mpi.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include <unistd.h>

#include <giro/runtime/program/graph.h>

#include "tests/distributed/ranks/ranks.h"

namespace giro::test {
namespace {

World* the_world = nullptr;

// Hangs for longer than any test.
void hang() { std::this_thread::sleep_for(std::chrono::seconds(100)); }

// Rank 1 fails; the others take part in collectives until they notice.
int fault(const std::string& name) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const bool by_program = name == "initialized_by_program";
  if (by_program) MPI_Init(nullptr, nullptr);
  const bool short_timeout = name.starts_with("absent") || name == "stopped";
  {
    World world({.timeout = short_timeout ? 3.0 : 60.0});  // a loaded machine takes over 1 s to start the ranks
    the_world = &world;
    std::printf("rank %d is there\n", world.rank());
    Device device = test_device();
    if (name == "mixed" && world.rank() == 0) device = Device::cpu();
    if (name == "no_gpu" && world.rank() == 1) device = Device::cuda(5);
    const Communicator communicator = world.communicator(device);
    const Stream stream(device);
    const Elements value(DType::f32, {}, stream);
    value.set({1});
    communicator.all_reduce(value.tensor(), Reduction::sum, stream);
    if (value.get()[0] != world.size()) return 2;
    if (name == "later_step") misuse();
    const auto reduce = [&] { communicator.all_reduce(value.tensor(), Reduction::max, stream); };
    const Graph recorded = Graph::record(stream, reduce);
    if (world.rank() == 1) {
      if (name.starts_with("absent")) hang();
      if (name == "throws") throw std::runtime_error("rank 1 has had enough");
      if (name == "set_failed") {
        world.set_failed();
        return 3;
      }
      if (name == "killed") std::raise(SIGKILL);
      if (name == "stopped") std::raise(SIGSTOP);
      if (name == "exits") _exit(0);
    }
    const auto begin = std::chrono::steady_clock::now();
    while (name != "ends" && !by_program) {
      try {
        if (name == "absent_in_replay") {
          recorded.replay(stream, 2);
        } else if (name == "absent_from_decision") {
          recorded.replay(stream);  // the GPU is in the collective while the host waits for the other hosts
          world.host().barrier(Stream(Device::cpu()));
        } else {
          reduce();
        }
        stream.synchronize();
      } catch (const std::exception& error) {
        const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
        std::printf("after %.1f s: %s\n", waited.count(), error.what());
        for (const bool replays : {false, true}) {
          try {
            if (replays) {
              recorded.replay(stream);
            } else {
              communicator.barrier(stream);
            }
          } catch (const std::exception& later) {
            std::printf("then: %s\n", later.what());
          }
        }
        throw;
      }
    }
  }
  if (by_program) {
    int finalized = 1;
    MPI_Finalized(&finalized);
    if (finalized) return 4;
    MPI_Finalize();
  }
  return 0;
}

}  // namespace

World& world() { return *the_world; }

Device test_device(const World& of) {
  const char* const name = std::getenv("GIRO_TEST_DEVICE");
  return name != nullptr && std::string(name) == "cuda" ? of.device() : Device::cpu();
}

}  // namespace giro::test

int main(int count, char** arguments) {
  using namespace giro::test;
  const std::string mode = count >= 3 ? arguments[1] : "";
  if (mode == "fault" || mode == "train") {
    if (std::string(arguments[2]) == "throws") return fault("throws");  // deliberately uncaught
    try {
      return mode == "train" ? train({arguments + 2, arguments + count}) : fault(arguments[2]);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      return 1;
    }
  }
  testing::InitGoogleTest(&count, arguments);
  giro::World world({.timeout = 20});
  the_world = &world;
  const int status = RUN_ALL_TESTS();
  if (status != 0) world.set_failed();  // the other ranks may be at another test
  return status;
}
