// Programs with one bug each, of a kind that usually goes unnoticed on a GPU. The emulation ends them with the reason,
// and names the kernel's line if a kernel is involved. Bugs within kernels are in engine_test.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "tests/cuda_on_cpu/runtime/injection.h"
#include "tests/cuda_on_cpu/runtime_test/kernels.h"

namespace cuda_on_cpu::test {
namespace {

constexpr unsigned int kCount = 100;
constexpr std::size_t kBytes = kCount * sizeof(float);

// Returns "kernels.cu:12" for the line that contains the text.
std::string line_of(const std::string& text) {
  std::ifstream file(GIRO_RUNTIME_TEST_KERNELS_CU);
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.find(text) != std::string::npos) return "kernels.cu:" + std::to_string(number) + "\\b";
  }
  ADD_FAILURE() << text << " is not in kernels.cu";
  return {};
}
const std::string kSet = line_of("y[threadIdx.x] = value"), kAxpy = line_of("y[i] += a * x[i]");

#define EXPECT_OK(call) EXPECT_EQ(call, cudaSuccess)

// What each program has: two streams without an order between them, and memory. x and y are initialised.
struct Program {
  cudaStream_t s{}, t{};
  cudaEvent_t event{};
  float *x = nullptr, *y = nullptr, *fresh = nullptr, *pinned = nullptr;

  Program() {
    for (cudaStream_t* stream : {&s, &t}) EXPECT_OK(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
    EXPECT_OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    for (float** data : {&x, &y, &fresh}) EXPECT_OK(cudaMalloc(reinterpret_cast<void**>(data), kBytes));
    EXPECT_OK(cudaMallocHost(reinterpret_cast<void**>(&pinned), kBytes));
    for (float* data : {x, y}) set(data, 1, kCount, 0, s);
    EXPECT_OK(cudaStreamSynchronize(s));
  }

  // Waits for everything and ends the process, with status 3 and the reason if the wait fails.
  [[noreturn]] void wait() const {
    const cudaError_t code = cudaDeviceSynchronize();
    std::fprintf(stderr, "%s\n", cudaGetErrorString(code));
    std::_Exit(code == cudaSuccess ? 0 : 3);
  }
  // Destroys everything. A program sets to null what it has already destroyed.
  void end() const {
    for (float* data : {x, y, fresh}) EXPECT_OK(cudaFree(data));
    EXPECT_OK(cudaFreeHost(pinned));
    if (event != nullptr) {
      EXPECT_OK(cudaEventDestroy(event));
    }
    for (cudaStream_t stream : {s, t}) EXPECT_OK(cudaStreamDestroy(stream));
  }
};

cudaGraphExec_t recorded(cudaStream_t stream, void (*work)(float* y, float* x, cudaStream_t stream), float* y,
                         float* x) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  EXPECT_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  work(y, x, stream);
  EXPECT_OK(cudaStreamEndCapture(stream, &graph));
  EXPECT_OK(cudaGraphInstantiate(&exec, graph, 0));
  EXPECT_OK(cudaGraphDestroy(graph));
  return exec;
}
void add_x(float* y, float* x, cudaStream_t stream) { axpy(y, x, 1, kCount, stream); }
void set_x(float*, float* x, cudaStream_t stream) { set(x, 2, kCount, 0, stream); }

struct Bug {
  const char* name;
  void (*program)(Program& p);
  std::string report;  // a regular expression, its parts in the order of the report
};
std::ostream& operator<<(std::ostream& out, const Bug& bug) { return out << bug.name; }

// Expects a process that runs the bug's program, and then `end`, to exit with that status and the bug's report.
void expect_exit(int status, const Bug& bug, void (*end)(Program& p)) {
  EXPECT_EXIT(
      {
        Program program;
        bug.program(program);
        end(program);
      },
      testing::ExitedWithCode(status), bug.report);
}

class CudaBugInWork : public testing::TestWithParam<Bug> {};

TEST_P(CudaBugInWork, LosesTheDeviceAndIsReported) {
  expect_exit(3, GetParam(), [](Program& p) { p.wait(); });
}

// The seed draws which of two goes first. The report comes from the later one and names both.
std::string race(const std::string& a, const std::string& b) {
  return "(" + a + ".*race.*" + b + "|" + b + ".*race.*" + a + "|race.*" + a + ".*" + b + "|race.*" + b + ".*" + a +
         ")";
}

Bug race_of_kernels(const char* name, void (*program)(Program& p)) { return {name, program, race(kSet, kAxpy)}; }

INSTANTIATE_TEST_SUITE_P(
    Bugs, CudaBugInWork,
    testing::Values(Bug{"a_copy_does_not_wait_for_a_kernel",
                        [](Program& p) {
                          set(p.x, 2, kCount, 0, p.s);
                          EXPECT_OK(cudaMemcpyAsync(p.pinned, p.x, kBytes, cudaMemcpyDefault, p.t));
                        },
                        race(kSet, "cudaMemcpyAsync")},
                    Bug{"a_kernel_does_not_wait_for_a_copy",
                        [](Program& p) {
                          EXPECT_OK(cudaMemcpyAsync(p.x, p.pinned, kBytes, cudaMemcpyDefault, p.s));
                          axpy(p.y, p.x, 1, kCount, p.t);
                        },
                        race(kAxpy, "cudaMemcpyAsync")},
                    race_of_kernels("two_kernels_write_the_same",
                                    [](Program& p) {
                                      set(p.x, 2, kCount, 0, p.s);
                                      axpy(p.x, p.y, 1, kCount, p.t);
                                    }),
                    Bug{"a_fill_does_not_wait_for_a_reader",
                        [](Program& p) {
                          axpy(p.y, p.x, 1, kCount, p.s);
                          EXPECT_OK(cudaMemsetAsync(p.x, 0, kBytes, p.t));
                        },
                        race(kAxpy, "cudaMemsetAsync")},
                    race_of_kernels("a_kernel_writes_what_another_stream_still_reads",
                                    [](Program& p) {
                                      axpy(p.y, p.x, 1, kCount, p.s);
                                      EXPECT_OK(cudaMemcpyAsync(p.pinned, p.x, kBytes, cudaMemcpyDefault, p.t));
                                      set(p.x, 2, kCount, 0, p.t);
                                    }),
                    Bug{"two_copies_meet_in_pageable_memory",
                        [](Program& p) {
                          static float pageable[kCount];
                          EXPECT_OK(cudaMemcpyAsync(pageable, p.x, kBytes, cudaMemcpyDefault, p.s));
                          EXPECT_OK(cudaMemcpyAsync(p.y, pageable, kBytes, cudaMemcpyDefault, p.t));
                        },
                        "cudaMemcpyAsync, in pageable memory: race"},
                    race_of_kernels("an_event_is_recorded_too_early",
                                    [](Program& p) {
                                      EXPECT_OK(cudaEventRecord(p.event, p.s));
                                      set(p.x, 2, kCount, 0, p.s);
                                      EXPECT_OK(cudaStreamWaitEvent(p.t, p.event, 0));
                                      axpy(p.y, p.x, 1, kCount, p.t);
                                    }),
                    race_of_kernels("an_event_is_never_recorded",
                                    [](Program& p) {
                                      set(p.x, 2, kCount, 0, p.s);
                                      EXPECT_OK(cudaStreamWaitEvent(p.t, p.event, 0));
                                      axpy(p.y, p.x, 1, kCount, p.t);
                                    }),
                    race_of_kernels("the_wrong_stream_waits",
                                    [](Program& p) {
                                      set(p.x, 2, kCount, 0, p.s);
                                      EXPECT_OK(cudaEventRecord(p.event, p.s));
                                      EXPECT_OK(cudaStreamWaitEvent(p.s, p.event, 0));
                                      axpy(p.y, p.x, 1, kCount, p.t);
                                    }),
                    race_of_kernels("a_recording_forgets_to_fork",
                                    [](Program& p) {
                                      EXPECT_OK(cudaStreamBeginCapture(p.s, cudaStreamCaptureModeRelaxed));
                                      set(p.x, 2, kCount, 0, p.s);
                                      axpy(p.y, p.x, 1, kCount, p.t);  // is not captured, so it runs immediately
                                      cudaGraph_t graph = nullptr;
                                      cudaGraphExec_t exec = nullptr;
                                      EXPECT_OK(cudaStreamEndCapture(p.s, &graph));
                                      EXPECT_OK(cudaGraphInstantiate(&exec, graph, 0));
                                      EXPECT_OK(cudaGraphLaunch(exec, p.s));
                                    }),
                    race_of_kernels("two_graphs_share_a_buffer",
                                    [](Program& p) {
                                      EXPECT_OK(cudaGraphLaunch(recorded(p.s, add_x, p.y, p.x), p.s));
                                      EXPECT_OK(cudaGraphLaunch(recorded(p.s, set_x, p.y, p.x), p.t));
                                    }),
                    Bug{"a_kernel_reads_what_nothing_wrote", [](Program& p) { axpy(p.y, p.fresh, 1, kCount, p.s); },
                        kAxpy},
                    Bug{"a_copy_is_too_short",
                        [](Program& p) {
                          EXPECT_OK(cudaMemcpyAsync(p.fresh, p.pinned, kBytes - 1, cudaMemcpyDefault, p.s));
                          axpy(p.y, p.fresh, 1, kCount, p.s);
                        },
                        kAxpy},
                    Bug{"a_kernel_goes_one_too_far", [](Program& p) { axpy(p.y, p.x, 1, kCount + 1, p.s); },
                        kAxpy + ".* after an allocation of 400 bytes"},
                    Bug{"a_kernel_uses_what_was_freed",
                        [](Program& p) {
                          EXPECT_OK(cudaFree(p.x));
                          axpy(p.y, p.x, 1, kCount, p.s);
                        },
                        kAxpy + ".*freed"},
                    Bug{"a_graph_outlives_its_memory",
                        [](Program& p) {
                          const cudaGraphExec_t exec = recorded(p.s, add_x, p.y, p.x);
                          EXPECT_OK(cudaFree(p.x));
                          EXPECT_OK(cudaGraphLaunch(exec, p.s));
                        },
                        kAxpy + ".*freed"},
                    Bug{"a_kernel_uses_pageable_memory",
                        [](Program& p) {
                          static float local[kCount];
                          axpy(p.y, local, 1, kCount, p.s);
                        },
                        kAxpy}),
    [](const auto& info) { return std::string(info.param.name); });

class CudaLeak : public testing::TestWithParam<Bug> {};

TEST_P(CudaLeak, FailsTheProcessAtExit) {
  expect_exit(70, GetParam(), [](Program& p) {
    p.end();
    std::exit(0);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Bugs, CudaLeak,
    testing::Values(Bug{"event", [](Program& p) { p.event = nullptr; }, "event: 1 not destroyed"},
                    Bug{"device_memory", [](Program& p) { p.x = nullptr; }, "block of device memory: 1 not destroyed"},
                    Bug{"pinned_memory", [](Program& p) { p.pinned = nullptr; },
                        "block of pinned memory: 1 not destroyed"},
                    Bug{"graph_that_can_run", [](Program& p) { (void)recorded(p.s, add_x, p.y, p.x); },
                        "executable graph: 1 not destroyed"},
                    Bug{"graph",
                        [](Program& p) {
                          cudaGraph_t graph;
                          EXPECT_OK(cudaStreamBeginCapture(p.s, cudaStreamCaptureModeRelaxed));
                          EXPECT_OK(cudaStreamEndCapture(p.s, &graph));
                        },
                        "graph: 1 not destroyed"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(CudaSeededBugs, DestroyedHandlesAreRejected) {
  Program p;
  set(p.x, 2, kCount, 0, p.s);
  EXPECT_OK(cudaStreamSynchronize(p.s));
  EXPECT_OK(cudaStreamDestroy(p.s));
  EXPECT_EQ(cudaStreamDestroy(p.s), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamSynchronize(p.s), cudaErrorInvalidResourceHandle);
  set(p.x, 2, kCount, 0, p.s);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
  EXPECT_OK(cudaEventDestroy(p.event));
  EXPECT_EQ(cudaEventRecord(p.event, p.t), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventDestroy(p.event), cudaErrorInvalidResourceHandle);
  const cudaGraphExec_t exec = recorded(p.t, add_x, p.y, p.x);
  EXPECT_OK(cudaGraphExecDestroy(exec));
  EXPECT_NE(cudaGraphLaunch(exec, p.t), cudaSuccess);
  EXPECT_NE(cudaGraphExecDestroy(exec), cudaSuccess);
  EXPECT_OK(cudaStreamCreateWithFlags(&p.s, cudaStreamNonBlocking));
  p.event = nullptr;
  p.end();
  (void)cudaGetLastError();
}

TEST(CudaInjection, FailsTheNth) {
  Program p;
  void* data = nullptr;
  EXPECT_TRUE(cuda_on_cpu_fail("allocation", 2));
  EXPECT_OK(cudaMalloc(&data, 4));
  EXPECT_OK(cudaFree(data));
  EXPECT_EQ(cudaMalloc(&data, 4), cudaErrorMemoryAllocation);
  EXPECT_TRUE(cuda_on_cpu_fail("copy", 1));
  EXPECT_EQ(cudaMemsetAsync(p.x, 0, 4, p.s), cudaErrorInvalidValue);
  EXPECT_TRUE(cuda_on_cpu_fail("launch", 1));
  (void)cudaGetLastError();
  set(p.x, 2, kCount, 0, p.s);
  EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchOutOfResources);
  EXPECT_FALSE(cuda_on_cpu_fail("synchronisation", 1));
  p.end();
}

}  // namespace
}  // namespace cuda_on_cpu::test
