// Tests that the emulated NCCL behaves like NCCL, and reports a rank that goes wrong. Each rank is a process.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "tests/cuda_on_cpu/runtime_test/kernels.h"

namespace cuda_on_cpu::test {
namespace {

#define EXPECT_CUDA(code, call) EXPECT_EQ(call, code) << cudaGetErrorString(cudaPeekAtLastError())
#define EXPECT_OK(call) EXPECT_CUDA(cudaSuccess, call)
#define EXPECT_NCCL(code, call) EXPECT_EQ(call, code) << ncclGetLastError(nullptr)
#define EXPECT_NCCL_OK(call) EXPECT_NCCL(ncclSuccess, call)

constexpr unsigned int kCount = 8;

bool says(const std::string& text, const char* part) { return text.find(part) != text.npos; }
std::string last_error() { return cudaGetErrorString(cudaPeekAtLastError()); }

// A signal from one rank to all others.
class Signal {
 public:
  Signal() { EXPECT_EQ(pipe(ends_.data()), 0); }
  void give() { (void)!write(ends_[1], "................................", 32); }
  void wait() {
    char byte;
    EXPECT_EQ(read(ends_[0], &byte, 1), 1);
  }

 private:
  std::array<int, 2> ends_{};
};

cudaStream_t new_stream() {
  cudaStream_t stream;
  EXPECT_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

// One rank: a communicator, a stream, and two buffers of ranks * kCount floats.
struct Rank {
  Rank(int own_rank, int all_ranks, const ncclUniqueId& id) : rank(own_rank), ranks(all_ranks) {
    EXPECT_NCCL_OK(ncclCommInitRank(&comm, ranks, id, rank));
    allocate();
  }
  Rank(int own_rank, int all_ranks, ncclComm_t own) : rank(own_rank), ranks(all_ranks), comm(own) { allocate(); }

  void allocate() {
    stream = new_stream();
    for (float** data : {&x, &y}) EXPECT_OK(cudaMalloc(reinterpret_cast<void**>(data), bytes()));
    EXPECT_OK(cudaHostAlloc(reinterpret_cast<void**>(&host), bytes(), cudaHostAllocDefault));
  }
  void release() {
    for (float* data : {x, y}) (void)cudaFree(data);
    (void)cudaFreeHost(host);
    (void)cudaStreamDestroy(stream);
  }
  void finish() {
    EXPECT_NCCL_OK(ncclCommDestroy(comm));
    release();
  }

  std::size_t bytes() const { return static_cast<std::size_t>(ranks) * kCount * sizeof(float); }
  void fill(float* data, float value) {
    for (int part = 0; part < ranks; ++part) set(data + part * static_cast<int>(kCount), value, kCount, 0, stream);
  }
  // Waits for the stream.
  const float* read(const float* data) {
    EXPECT_OK(cudaMemcpyAsync(host, data, bytes(), cudaMemcpyDeviceToHost, stream));
    EXPECT_OK(cudaStreamSynchronize(stream));
    return host;
  }

  int rank, ranks;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  float *x = nullptr, *y = nullptr, *host = nullptr;
};

void destroy(cudaGraph_t graph, cudaGraphExec_t exec) {
  EXPECT_OK(cudaGraphExecDestroy(exec));
  EXPECT_OK(cudaGraphDestroy(graph));
}

// Returns the exit statuses of the ranks' processes.
std::vector<int> run_processes(int ranks, const std::function<void(int rank, const ncclUniqueId&)>& body) {
  ncclUniqueId id;
  EXPECT_NCCL_OK(ncclGetUniqueId(&id));
  std::fflush(nullptr);
  std::vector<pid_t> processes;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t process = fork();
    if (process == 0) {
      alarm(60);
      body(rank, id);
      std::exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    processes.push_back(process);
  }
  std::vector<int> statuses;
  for (const pid_t process : processes) {
    int status = 0;
    waitpid(process, &status, 0);
    statuses.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
  }
  return statuses;
}

void run_ranks(int ranks, const std::function<void(Rank&)>& body) {
  const auto statuses = run_processes(ranks, [&](int rank, const ncclUniqueId& id) {
    Rank own(rank, ranks, id);
    body(own);
  });
  EXPECT_EQ(statuses, std::vector<int>(static_cast<std::size_t>(ranks), 0));
}

// Runs the body as the first of two ranks. The other one does nothing until the body is over.
void run_while_the_other_waits(const std::function<void(Rank&)>& body) {
  Signal over;
  run_ranks(2, [&](Rank& r) {
    if (r.rank == 1) {
      over.wait();
      return r.finish();
    }
    body(r);
    r.release();
    over.give();
  });
}

class NcclOnCpu : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, NcclOnCpu, ::testing::Values(2, 4));

TEST_P(NcclOnCpu, Reductions) {
  run_ranks(GetParam(), [](Rank& r) {
    // If the values were added one by one in float, the ones would be lost.
    const auto value = [](int rank) { return std::array{1e8f, 1.f, -1e8f, 1.f}[static_cast<std::size_t>(rank)]; };
    double sum = 0, product = 1;
    for (int rank = 0; rank < r.ranks; ++rank) {
      sum += value(rank);
      product *= value(rank);
    }
    const std::array<std::pair<ncclRedOp_t, double>, 5> expected{{{ncclSum, sum},
                                                                  {ncclProd, product},
                                                                  {ncclMax, 1e8},
                                                                  {ncclMin, r.ranks == 2 ? 1 : -1e8},
                                                                  {ncclAvg, sum / r.ranks}}};
    for (const auto& [op, result] : expected) {
      r.fill(r.x, value(r.rank));
      EXPECT_NCCL_OK(ncclAllReduce(r.x, r.y, kCount, ncclFloat, op, r.comm, r.stream));
      EXPECT_NCCL_OK(ncclAllReduce(r.x, r.x, kCount, ncclFloat, op, r.comm, r.stream)) << "in place";
      EXPECT_NCCL_OK(ncclAllReduce(r.x + kCount, r.y + kCount, kCount * static_cast<unsigned>(r.ranks - 1), ncclFloat,
                                   op, r.comm, r.stream));
      for (const float* data : {r.x, r.y}) EXPECT_EQ(r.read(data)[kCount - 1], static_cast<float>(result)) << op;
    }
    r.finish();
  });
}

TEST_P(NcclOnCpu, MaxAndMinDropNaN) {
  run_ranks(GetParam(), [](Rank& r) {
    const auto own = static_cast<float>(r.rank);
    for (const int with_nan : {0, 1}) {
      r.fill(r.x, r.rank == with_nan ? std::numeric_limits<float>::quiet_NaN() : own);
      EXPECT_NCCL_OK(ncclAllReduce(r.x, r.y, kCount, ncclFloat, ncclMax, r.comm, r.stream));
      EXPECT_EQ(r.read(r.y)[0], static_cast<float>(r.ranks == 2 ? 1 - with_nan : r.ranks - 1));
      EXPECT_NCCL_OK(ncclAllReduce(r.x, r.y, kCount, ncclFloat, ncclMin, r.comm, r.stream));
      EXPECT_EQ(r.read(r.y)[0], static_cast<float>(1 - with_nan));
    }
    r.finish();
  });
}

TEST(NcclOnCpuProcesses, AverageMultipliesByTheRoundedReciprocal) {
  run_ranks(3, [](Rank& r) {
    r.fill(r.x, std::bit_cast<float>(0x3fc23fc2u));  // 1.515625 twice, in bfloat16
    EXPECT_NCCL_OK(ncclAllReduce(r.x, r.y, 2 * kCount, ncclBfloat16, ncclAvg, r.comm, r.stream));
    EXPECT_EQ(std::bit_cast<std::uint32_t>(r.read(r.y)[0]), 0x3fc33fc3u) << "not what all ranks have had";
    r.finish();
  });
}

TEST(NcclOnCpuProcesses, EmptyCollectivesDoNotWait) {
  Signal over;
  run_ranks(2, [&](Rank& r) {
    if (r.rank == 1) over.wait();
    if (r.rank == 0) {
      EXPECT_NCCL_OK(ncclAllReduce(r.x, r.x, 0, ncclFloat, ncclSum, r.comm, r.stream));
      EXPECT_NCCL(ncclInvalidArgument, ncclBroadcast(r.x, r.x, 0, ncclFloat, 2, r.comm, r.stream));
      EXPECT_OK(cudaStreamSynchronize(r.stream));
      over.give();
    }
    r.finish();
  });
}

TEST(NcclOnCpuProcesses, GroupWithARejectedCallDoesNothing) {
  run_ranks(2, [](Rank& r) {
    r.fill(r.x, 1);
    EXPECT_NCCL_OK(ncclGroupStart());
    EXPECT_NCCL_OK(ncclAllReduce(r.x, r.x, kCount, ncclFloat, ncclSum, r.comm, r.stream));
    EXPECT_NCCL(ncclInvalidArgument, ncclBroadcast(r.x, r.x, kCount, ncclFloat, 2, r.comm, r.stream));
    EXPECT_NCCL(ncclInvalidArgument, ncclGroupEnd());
    EXPECT_EQ(r.read(r.x)[0], 1);
    EXPECT_NCCL_OK(ncclGroupStart());
    EXPECT_NCCL_OK(ncclAllReduce(r.x, r.x, kCount, ncclFloat, ncclSum, r.comm, r.stream));
    EXPECT_NCCL_OK(ncclGroupEnd());
    EXPECT_EQ(r.read(r.x)[0], 2);
    r.finish();
  });
}

TEST_P(NcclOnCpu, IntegersWrapAround) {
  run_ranks(GetParam(), [](Rank& r) {
    EXPECT_OK(cudaMemsetAsync(r.x, r.rank == 0 ? 200 : 100, r.bytes(), r.stream));
    EXPECT_NCCL_OK(ncclAllReduce(r.x, r.y, 4 * kCount, ncclUint8, ncclSum, r.comm, r.stream));
    EXPECT_NCCL_OK(ncclAllReduce(r.x, r.y + kCount, 4 * kCount, ncclInt8, ncclMax, r.comm, r.stream));
    const auto* bytes = reinterpret_cast<const unsigned char*>(r.read(r.y));
    EXPECT_EQ(bytes[0], (200 + 100 * (r.ranks - 1)) % 256);
    EXPECT_EQ(bytes[4 * kCount], 100) << "200 is negative";
    r.finish();
  });
}

TEST_P(NcclOnCpu, MovesData) {
  run_ranks(GetParam(), [](Rank& r) {
    const auto own = static_cast<float>(r.rank);
    const int last = r.ranks - 1;
    r.fill(r.x, own);
    r.fill(r.y, -1);
    EXPECT_NCCL_OK(ncclBroadcast(r.x, r.y, kCount, ncclFloat, last, r.comm, r.stream));
    EXPECT_EQ(r.read(r.y)[kCount - 1], static_cast<float>(last));
    EXPECT_EQ(r.read(r.y)[kCount], -1) << "and no further";
    EXPECT_NCCL_OK(ncclAllGather(r.x, r.y, kCount, ncclFloat, r.comm, r.stream));
    for (int rank = 0; rank < r.ranks; ++rank) {
      EXPECT_EQ(r.read(r.y)[rank * static_cast<int>(kCount)], static_cast<float>(rank));
    }
    EXPECT_NCCL_OK(ncclReduceScatter(r.y, r.x, kCount, ncclFloat, ncclSum, r.comm, r.stream));
    EXPECT_EQ(r.read(r.x)[0], own * static_cast<float>(r.ranks)) << "all had the same";
    r.fill(r.y, -1);
    EXPECT_NCCL_OK(ncclReduce(r.x, r.y, kCount, ncclFloat, ncclSum, 1, r.comm, r.stream));
    EXPECT_EQ(r.read(r.y)[0], r.rank == 1 ? static_cast<float>(r.ranks * last * r.ranks) / 2 : -1);

    int count = 0, rank = -1, device = -1, version = 0;
    EXPECT_NCCL_OK(ncclCommCount(r.comm, &count));
    EXPECT_NCCL_OK(ncclCommUserRank(r.comm, &rank));
    EXPECT_NCCL_OK(ncclCommCuDevice(r.comm, &device));
    EXPECT_NCCL_OK(ncclGetVersion(&version));
    EXPECT_EQ(count, r.ranks);
    EXPECT_EQ(rank, r.rank);
    EXPECT_EQ(device, 0);
    EXPECT_EQ(version, NCCL_VERSION_CODE);
    EXPECT_NCCL_OK(ncclCommFinalize(r.comm));
    EXPECT_NCCL(ncclInvalidUsage, ncclAllReduce(r.x, r.y, kCount, ncclFloat, ncclSum, r.comm, r.stream));
    EXPECT_NCCL(ncclInvalidArgument, ncclCommFinalize(r.comm)) << "twice";
    r.finish();
  });
}

TEST_P(NcclOnCpu, AllReduceIsCapturedAndReplayed) {
  run_ranks(GetParam(), [](Rank& r) {
    cudaGraph_t step, ladder;
    cudaGraphNode_t nodes[2];
    cudaGraphExec_t exec;
    r.fill(r.x, static_cast<float>(r.rank + 1));
    r.fill(r.y, 0);
    EXPECT_OK(cudaStreamSynchronize(r.stream));
    EXPECT_OK(cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeThreadLocal));
    axpy(r.y, r.x, 1, kCount, r.stream);
    EXPECT_NCCL_OK(ncclAllReduce(r.y, r.y, kCount, ncclFloat, ncclAvg, r.comm, r.stream));
    EXPECT_OK(cudaStreamEndCapture(r.stream, &step));
    EXPECT_OK(cudaGraphCreate(&ladder, 0));
    EXPECT_OK(cudaGraphAddChildGraphNode(&nodes[0], ladder, nullptr, 0, step));
    EXPECT_OK(cudaGraphAddChildGraphNode(&nodes[1], ladder, &nodes[0], 1, step));
    EXPECT_OK(cudaGraphInstantiate(&exec, ladder, 0));
    EXPECT_EQ(r.read(r.y)[0], 0) << "only captured";
    const float mean = static_cast<float>(r.ranks + 1) / 2;
    for (const int steps : {2, 4, 6}) {
      EXPECT_OK(cudaGraphLaunch(exec, r.stream));
      EXPECT_EQ(r.read(r.y)[kCount - 1], mean * static_cast<float>(steps));
    }
    EXPECT_OK(cudaGraphExecDestroy(exec));
    for (const cudaGraph_t graph : {step, ladder}) EXPECT_OK(cudaGraphDestroy(graph));
    r.finish();
  });
}

TEST_P(NcclOnCpu, CollectivesOnManyStreamsMatchInHostOrder) {
  run_ranks(GetParam(), [](Rank& r) {
    const cudaStream_t other = new_stream();
    r.fill(r.x, 1);
    r.fill(r.y, 2);
    EXPECT_OK(cudaStreamSynchronize(r.stream));
    EXPECT_NCCL_OK(ncclAllReduce(r.x, r.x, kCount, ncclFloat, ncclSum, r.comm, r.stream));
    EXPECT_NCCL_OK(ncclAllReduce(r.y, r.y, kCount, ncclFloat, ncclMax, r.comm, other));
    EXPECT_OK(cudaStreamSynchronize(r.rank == 0 ? other : r.stream));
    EXPECT_OK(cudaDeviceSynchronize());
    EXPECT_EQ(r.read(r.x)[0], static_cast<float>(r.ranks));
    EXPECT_EQ(r.read(r.y)[0], 2);
    EXPECT_OK(cudaStreamDestroy(other));
    r.finish();
  });
}

TEST_P(NcclOnCpu, RingOfMessages) {
  run_ranks(GetParam(), [](Rank& r) {
    const int next = (r.rank + 1) % r.ranks, before = (r.rank + r.ranks - 1) % r.ranks;
    r.fill(r.x, static_cast<float>(r.rank));
    EXPECT_NCCL_OK(ncclGroupStart());
    for (const unsigned int offset : {0u, kCount}) {
      EXPECT_NCCL_OK(ncclSend(r.x + offset, kCount, ncclFloat, next, r.comm, r.stream));
      EXPECT_NCCL_OK(ncclRecv(r.y + offset, kCount, ncclFloat, before, r.comm, r.stream));
    }
    EXPECT_NCCL_OK(ncclGroupEnd());
    EXPECT_EQ(r.read(r.y)[2 * kCount - 1], static_cast<float>(before));
    r.finish();
  });
}

TEST_P(NcclOnCpu, UnorderedAccessIsARace) {
  run_ranks(GetParam(), [](Rank& r) {
    const cudaStream_t other = new_stream();
    r.fill(r.x, 1);
    EXPECT_NCCL_OK(ncclAllReduce(r.x, r.x, kCount, ncclFloat, ncclSum, r.comm, r.stream));
    EXPECT_OK(cudaStreamSynchronize(r.stream));
    EXPECT_NCCL_OK(ncclAllReduce(r.x, r.x, kCount, ncclFloat, ncclSum, r.comm, r.stream));
    axpy(r.x, r.x, 1, kCount, other);
    EXPECT_NE(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_TRUE(says(last_error(), "race")) << last_error();
    EXPECT_NCCL_OK(ncclCommAbort(r.comm));
    (void)cudaStreamDestroy(other);
    r.release();
  });
}

TEST_P(NcclOnCpu, MismatchedCallsAreReportedOnEachRank) {
  run_ranks(GetParam(), [](Rank& r) {
    r.fill(r.x, 1);
    const unsigned int count = r.rank == 1 ? kCount - 1 : kCount;
    EXPECT_NCCL_OK(ncclAllReduce(r.x, r.x, count, ncclFloat, ncclSum, r.comm, r.stream));
    EXPECT_CUDA(cudaErrorLaunchFailure, cudaStreamSynchronize(r.stream));
    EXPECT_TRUE(says(last_error(), "7 float32")) << last_error();
    EXPECT_TRUE(says(last_error(), "8 float32")) << last_error();
    EXPECT_TRUE(says(last_error(), "on rank 1")) << last_error();
    ncclResult_t error;
    EXPECT_NCCL_OK(ncclCommGetAsyncError(r.comm, &error));
    EXPECT_EQ(error, ncclInternalError);
    EXPECT_TRUE(says(ncclGetLastError(r.comm), "7 float32"));
    EXPECT_NCCL(ncclInternalError, ncclCommDestroy(r.comm)) << "only aborting ends one that has failed";
    EXPECT_NCCL_OK(ncclCommAbort(r.comm));
    r.release();
  });
}

TEST(NcclOnCpuProcesses, MessageOfWrongTypeIsReportedToTheReceiver) {
  run_ranks(2, [](Rank& r) {
    r.fill(r.x, 1);
    if (r.rank == 0) {
      EXPECT_NCCL_OK(ncclSend(r.x, kCount, ncclFloat, 1, r.comm, r.stream));
      EXPECT_OK(cudaStreamSynchronize(r.stream));
    } else {
      EXPECT_NCCL_OK(ncclRecv(r.y, kCount, ncclInt32, 0, r.comm, r.stream));
      EXPECT_CUDA(cudaErrorLaunchFailure, cudaStreamSynchronize(r.stream));
      EXPECT_TRUE(says(last_error(), "rank 1 receives 8 int32, rank 0 sends 8 float32")) << last_error();
    }
    (void)ncclCommAbort(r.comm);
    r.release();
  });
}

TEST(NcclOnCpuProcesses, QueryDoesNotWaitForOtherRanks) {
  Signal asked;
  run_ranks(2, [&](Rank& r) {
    r.fill(r.x, 1);
    if (r.rank == 1) asked.wait();
    EXPECT_NCCL_OK(ncclAllReduce(r.x, r.y, kCount, ncclFloat, ncclSum, r.comm, r.stream));
    if (r.rank == 0) {
      for (int i = 0; i < 100; ++i) EXPECT_EQ(cudaStreamQuery(r.stream), cudaErrorNotReady);
      asked.give();
      while (cudaStreamQuery(r.stream) == cudaErrorNotReady) continue;
    }
    EXPECT_EQ(r.read(r.y)[0], 2);
    r.finish();
  });
}

TEST(NcclOnCpuProcesses, OtherThreadsContinueWhileOneWaitsForRanks) {
  Signal worked;
  run_ranks(2, [&](Rank& r) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    EXPECT_OK(cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeRelaxed));
    r.fill(r.x, 1);
    EXPECT_NCCL_OK(ncclAllReduce(r.x, r.x, kCount, ncclFloat, ncclSum, r.comm, r.stream));
    EXPECT_OK(cudaStreamEndCapture(r.stream, &graph));
    EXPECT_OK(cudaGraphInstantiate(&exec, graph, 0));
    if (r.rank == 1) worked.wait();
    EXPECT_OK(cudaGraphLaunch(exec, r.stream));
    std::thread other([&] {
      if (r.rank == 1) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // by now the first thread is most likely waiting
      set(r.y, 7, kCount, 0, cudaStreamPerThread);
      EXPECT_OK(cudaStreamSynchronize(cudaStreamPerThread));
      EXPECT_CUDA(cudaErrorNotReady, cudaStreamQuery(r.stream));
      worked.give();
    });
    EXPECT_OK(cudaStreamSynchronize(r.stream));
    other.join();
    EXPECT_EQ(r.read(r.x)[0], 2);
    if (r.rank == 0) {
      EXPECT_EQ(r.read(r.y)[0], 7);
    }
    destroy(graph, exec);
    r.finish();
  });
}

TEST(NcclOnCpuProcesses, AbortEndsTheWait) {
  run_while_the_other_waits([](Rank& r) {
    for (float* data : {r.x, r.y}) r.fill(data, 1);
    EXPECT_NCCL_OK(ncclAllReduce(r.x, r.y, kCount, ncclFloat, ncclSum, r.comm, r.stream));
    std::atomic<bool> waiting = false;
    std::thread watchdog([&] {
      while (!waiting) std::this_thread::yield();
      ncclResult_t error;
      EXPECT_NCCL_OK(ncclCommGetAsyncError(r.comm, &error));
      EXPECT_EQ(error, ncclSuccess);
      EXPECT_NCCL_OK(ncclCommAbort(r.comm));
    });
    waiting = true;
    EXPECT_OK(cudaStreamSynchronize(r.stream));
    watchdog.join();
    EXPECT_NCCL(ncclInvalidArgument, ncclAllReduce(r.x, r.y, kCount, ncclFloat, ncclSum, r.comm, r.stream));
    axpy(r.x, r.y, 1, kCount, r.stream);
    EXPECT_NE(cudaStreamSynchronize(r.stream), cudaSuccess) << "what an abort leaves is not to be used";
    EXPECT_TRUE(says(last_error(), "uninitialised")) << last_error();
  });
}

// A graph that sums r.x over the ranks, and its executable graph.
struct SumInGraph {
  explicit SumInGraph(Rank& r) {
    r.fill(r.x, 1);
    EXPECT_OK(cudaStreamSynchronize(r.stream));
    EXPECT_OK(cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeThreadLocal));
    EXPECT_NCCL_OK(ncclAllReduce(r.x, r.x, kCount, ncclFloat, ncclSum, r.comm, r.stream));
    EXPECT_OK(cudaStreamEndCapture(r.stream, &graph));
    EXPECT_OK(cudaGraphInstantiate(&exec, graph, 0));
  }
  // Checks that a wait for the graphs does not end before both are destroyed.
  void destroy_while(const std::atomic<bool>& is_over) {
    EXPECT_FALSE(is_over) << "there are the graph and what was instantiated";
    EXPECT_OK(cudaGraphDestroy(graph));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(is_over) << "there is what was instantiated";
    EXPECT_OK(cudaGraphExecDestroy(exec));
  }
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
};

TEST(NcclOnCpuProcesses, AbortWaitsForGraphsAndEndsTheirReplays) {
  Signal over;
  run_ranks(2, [&](Rank& r) {
    SumInGraph sum(r);
    std::atomic<bool> is_over = false;
    EXPECT_OK(cudaGraphLaunch(sum.exec, r.stream));
    if (r.rank == 0) {
      std::thread aborting([&] {
        EXPECT_NCCL_OK(ncclCommAbort(r.comm));
        is_over = true;
      });
      EXPECT_OK(cudaStreamSynchronize(r.stream));
      EXPECT_OK(cudaGraphLaunch(sum.exec, r.stream));
      EXPECT_OK(cudaStreamSynchronize(r.stream));
      sum.destroy_while(is_over);
      aborting.join();
      over.give();
    } else {
      over.wait();
      std::thread aborting([&] { EXPECT_NCCL_OK(ncclCommAbort(r.comm)); });
      EXPECT_OK(cudaStreamSynchronize(r.stream));
      EXPECT_OK(cudaGraphDestroy(sum.graph));
      EXPECT_OK(cudaGraphExecDestroy(sum.exec));
      aborting.join();
    }
    r.release();
  });
}

TEST(NcclOnCpuProcesses, DestroyingWaitsForGraphs) {
  run_ranks(2, [](Rank& r) {
    SumInGraph sum(r);
    std::atomic<bool> is_over = false;
    std::thread destroying([&] {
      EXPECT_NCCL_OK(ncclCommDestroy(r.comm));
      is_over = true;
    });
    sum.destroy_while(is_over);
    destroying.join();
    r.release();
  });
}

TEST(NcclOnCpuProcesses, NonBlockingCommunicatorIsFinalizedAfterItsGraphs) {
  const auto statuses = run_processes(2, [&](int rank, const ncclUniqueId& id) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t comm;
    ncclResult_t state = ncclInProgress;
    EXPECT_NCCL(ncclInProgress, ncclCommInitRankConfig(&comm, 2, id, rank, &config));
    const auto wait = [&] {
      do EXPECT_NCCL_OK(ncclCommGetAsyncError(comm, &state));
      while (state == ncclInProgress);
      EXPECT_EQ(state, ncclSuccess);
    };
    wait();
    Rank r(rank, 2, comm);
    cudaGraph_t graph;
    EXPECT_OK(cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeThreadLocal));
    EXPECT_NCCL(ncclInProgress, ncclAllReduce(r.x, r.x, kCount, ncclFloat, ncclSum, comm, r.stream));
    wait();
    EXPECT_OK(cudaStreamEndCapture(r.stream, &graph));
    EXPECT_NCCL(ncclInProgress, ncclCommFinalize(comm));
    for (int i = 0; i < 100; ++i) {
      EXPECT_NCCL_OK(ncclCommGetAsyncError(comm, &state));
      EXPECT_EQ(state, ncclInProgress);
    }
    EXPECT_OK(cudaGraphDestroy(graph));
    wait();
    r.finish();
  });
  EXPECT_EQ(statuses, (std::vector<int>{0, 0}));
}

TEST(NcclOnCpuProcesses, ExitOfARankIsARemoteError) {
  run_ranks(2, [&](Rank& r) {
    if (r.rank == 1) _exit(0);
    r.fill(r.x, 1);
    EXPECT_NCCL_OK(ncclAllReduce(r.x, r.y, kCount, ncclFloat, ncclSum, r.comm, r.stream));
    std::thread watchdog([&] {
      ncclResult_t error = ncclSuccess;
      while (error == ncclSuccess) EXPECT_NCCL_OK(ncclCommGetAsyncError(r.comm, &error));
      EXPECT_EQ(error, ncclRemoteError);
      EXPECT_TRUE(says(ncclGetLastError(r.comm), "rank 1"));
      EXPECT_NCCL_OK(ncclCommAbort(r.comm));
    });
    EXPECT_OK(cudaStreamSynchronize(r.stream));
    watchdog.join();
    r.release();
  });
}

TEST(NcclOnCpuProcesses, WaitingForeverTimesOut) {
  run_while_the_other_waits([](Rank& r) {
    setenv("GIRO_CUDA_ON_CPU_NCCL_TIMEOUT", "0", 1);
    r.fill(r.x, 1);
    EXPECT_NCCL_OK(ncclAllReduce(r.x, r.y, kCount, ncclFloat, ncclSum, r.comm, r.stream));
    EXPECT_CUDA(cudaErrorLaunchTimeout, cudaStreamSynchronize(r.stream));
    EXPECT_TRUE(says(last_error(), "rank 0 has waited for rank 1")) << last_error();
    EXPECT_NCCL_OK(ncclCommAbort(r.comm));
  });
}

TEST_P(NcclOnCpu, NonBlockingCallsProgressWhenPolled) {
  const int ranks = GetParam();
  const auto statuses = run_processes(ranks, [&](int rank, const ncclUniqueId& id) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t comm;
    ncclResult_t state;
    EXPECT_NCCL(ncclInProgress, ncclCommInitRankConfig(&comm, ranks, id, rank, &config));
    EXPECT_NCCL_OK(ncclCommGetAsyncError(comm, &state));
    EXPECT_EQ(state, ncclInProgress);
    EXPECT_NCCL(ncclInvalidArgument, ncclCommFinalize(comm)) << "too early";
    EXPECT_NCCL(ncclInvalidArgument, ncclCommDestroy(comm));
    const auto wait = [&] {
      do EXPECT_NCCL_OK(ncclCommGetAsyncError(comm, &state));
      while (state == ncclInProgress);
      EXPECT_EQ(state, ncclSuccess);
    };
    wait();
    Rank r(rank, ranks, comm);
    r.fill(r.x, 1);
    EXPECT_NCCL(ncclInProgress, ncclAllReduce(r.x, r.x, kCount, ncclFloat, ncclSum, comm, r.stream));
    EXPECT_NCCL(ncclInvalidArgument, ncclAllReduce(r.x, r.x, kCount, ncclFloat, ncclSum, comm, r.stream));
    EXPECT_EQ(r.read(r.x)[0], 1) << "not even queued";
    wait();
    EXPECT_EQ(r.read(r.x)[0], static_cast<float>(ranks));
    EXPECT_NCCL_OK(ncclGroupStart());
    EXPECT_NCCL_OK(ncclAllReduce(r.x, r.x, kCount, ncclFloat, ncclSum, comm, r.stream));
    EXPECT_NCCL(ncclInProgress, ncclGroupEnd());
    wait();
    EXPECT_NCCL(ncclInProgress, ncclCommFinalize(comm));
    wait();
    r.finish();
  });
  EXPECT_EQ(statuses, std::vector<int>(static_cast<std::size_t>(ranks), 0));
}

TEST(NcclOnCpuProcesses, BadCallsAreRejectedAtOnce) {
  run_ranks(2, [](Rank& r) {
    r.fill(r.x, 1);
    float pageable[kCount];
    const auto all_reduce = [&](const void* send, void* receive, std::size_t count, ncclDataType_t type = ncclFloat) {
      return ncclAllReduce(send, receive, count, type, ncclSum, r.comm, r.stream);
    };
    EXPECT_NCCL(ncclInvalidArgument, all_reduce(r.x, pageable, kCount));
    EXPECT_NCCL(ncclInvalidArgument, all_reduce(r.x, r.y, 2 * kCount + 1)) << "out of bounds";
    EXPECT_NCCL(ncclInvalidArgument, all_reduce(r.x, r.x + 1, kCount)) << "neither apart nor in place";
    EXPECT_NCCL(ncclInvalidArgument, all_reduce(r.x, r.y, 1, ncclFloat8e4m3));
    EXPECT_TRUE(says(ncclGetLastError(nullptr), "not emulated"));
    EXPECT_NCCL(ncclInvalidArgument, ncclBroadcast(r.x, r.y, 1, ncclFloat, 2, r.comm, r.stream));
    EXPECT_NCCL(ncclInvalidArgument, ncclSend(r.x, 1, ncclFloat, -1, r.comm, r.stream));
    EXPECT_NCCL(ncclInvalidUsage, ncclGroupEnd());
    ncclUniqueId id;
    ncclComm_t second;
    EXPECT_NCCL_OK(ncclGetUniqueId(&id));
    EXPECT_NCCL(ncclInvalidArgument, ncclCommInitRank(&second, 2, id, 2));
    id.internal[0] = '?';
    EXPECT_NCCL(ncclSystemError, ncclCommInitRank(&second, 2, id, 0));
    const ncclComm_t gone = r.comm;
    r.finish();
    EXPECT_NCCL(ncclInvalidArgument, ncclCommDestroy(gone));
  });
}

TEST(NcclOnCpuProcesses, ConditionalBodiesRejectCollectives) {
  run_ranks(2, [](Rank& r) {
    cudaGraph_t graph, body;
    cudaGraphExec_t exec;
    cudaGraphNode_t node;
    cudaGraphNodeParams parameters{};
    parameters.type = cudaGraphNodeTypeConditional;
    r.fill(r.x, 1);
    EXPECT_OK(cudaStreamSynchronize(r.stream));
    EXPECT_OK(cudaGraphCreate(&graph, 0));
    EXPECT_OK(cudaGraphConditionalHandleCreate(&parameters.conditional.handle, graph, 1, cudaGraphCondAssignDefault));
    parameters.conditional.type = cudaGraphCondTypeIf;
    parameters.conditional.size = 1;
    EXPECT_OK(cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &parameters));
    body = *parameters.conditional.phGraph_out;
    EXPECT_OK(cudaStreamBeginCaptureToGraph(r.stream, body, nullptr, nullptr, 0, cudaStreamCaptureModeRelaxed));
    EXPECT_NCCL_OK(ncclAllReduce(r.x, r.x, kCount, ncclFloat, ncclSum, r.comm, r.stream));
    EXPECT_OK(cudaStreamEndCapture(r.stream, &body));
    EXPECT_CUDA(cudaErrorNotSupported, cudaGraphInstantiate(&exec, graph, 0));
    EXPECT_TRUE(says(last_error(), "NCCL_GRAPH_MIXING_SUPPORT")) << last_error();
    setenv("NCCL_GRAPH_MIXING_SUPPORT", "0", 1);
    EXPECT_OK(cudaGraphInstantiate(&exec, graph, 0));
    EXPECT_OK(cudaGraphLaunch(exec, r.stream));
    EXPECT_EQ(r.read(r.x)[0], 2);
    destroy(graph, exec);
    r.finish();
  });
}

TEST(NcclOnCpuProcesses, RanksMustAgreeOnTheirNumber) {
  Signal over;
  const auto statuses = run_processes(2, [&](int rank, const ncclUniqueId& id) {
    ncclComm_t comm = nullptr;
    if (rank == 0) {
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 0;
      EXPECT_NCCL(ncclInProgress, ncclCommInitRankConfig(&comm, 2, id, 0, &config));
      over.give();
      EXPECT_NCCL_OK(ncclCommAbort(comm));
    } else {
      over.wait();
      EXPECT_NCCL(ncclInvalidArgument, ncclCommInitRank(&comm, 3, id, 1));
      EXPECT_TRUE(says(ncclGetLastError(nullptr), "expects 3 ranks, another 2")) << ncclGetLastError(nullptr);
    }
  });
  EXPECT_EQ(statuses, (std::vector<int>{0, 0}));
}

TEST_P(NcclOnCpu, ConnectsAtTheAddressOfNcclCommId) {
  const int ranks = GetParam();
  const std::string address = "node-" + std::to_string(getpid()) + ":29500";
  const auto statuses = run_processes(ranks, [&](int rank, const ncclUniqueId& other) {
    setenv("NCCL_COMM_ID", address.c_str(), 1);
    ncclUniqueId id;
    EXPECT_NCCL_OK(ncclGetUniqueId(&id));
    ncclComm_t second;
    if (rank == 0) {
      EXPECT_NCCL(ncclSystemError, ncclCommInitRank(&second, ranks, other, rank)) << "made without the address";
    }
    Rank r(rank, ranks, id);
    unsetenv("NCCL_COMM_ID");
    r.fill(r.x, 1);
    EXPECT_NCCL_OK(ncclAllReduce(r.x, r.x, kCount, ncclFloat, ncclSum, r.comm, r.stream));
    EXPECT_EQ(r.read(r.x)[0], static_cast<float>(ranks));
    r.finish();
  });
  EXPECT_EQ(statuses, std::vector<int>(static_cast<std::size_t>(ranks), 0));
}

TEST(NcclOnCpuProcesses, EachRankNeedsItsOwnGpu) {
  const auto statuses = run_processes(2, [&](int rank, const ncclUniqueId& id) {
    setenv("GIRO_CUDA_ON_CPU_UUID", "7", 1);
    ncclComm_t comm = nullptr;
    EXPECT_NCCL(ncclInvalidUsage, ncclCommInitRank(&comm, 2, id, rank));
    EXPECT_TRUE(says(ncclGetLastError(nullptr), "Duplicate GPU detected: rank 0 and rank 1"));
    EXPECT_NCCL_OK(ncclCommAbort(comm));
  });
  EXPECT_EQ(statuses, (std::vector<int>{0, 0}));
}

TEST(NcclOnCpuProcesses, LeakedCommunicatorFailsTheProcess) {
  const auto statuses = run_processes(2, [](int rank, const ncclUniqueId& id) {
    ncclComm_t comm;
    EXPECT_NCCL_OK(ncclCommInitRank(&comm, 2, id, rank));
  });
  EXPECT_EQ(statuses, (std::vector<int>{70, 70}));
}

}  // namespace
}  // namespace cuda_on_cpu::test
