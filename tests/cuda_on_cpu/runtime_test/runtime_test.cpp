// Tests the runtime: CUDA's promises (CudaTest), which must also pass on a GPU, where tests/gpu.sh runs them; and what
// the emulation exists to find (CudaOnCpu). Written against CUDA's own interface.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "tests/cuda_on_cpu/runtime_test/kernels.h"

namespace cuda_on_cpu::test {
namespace {

#define EXPECT_CUDA(code, call) EXPECT_EQ(call, code) << cudaGetErrorString(cudaPeekAtLastError())
#define EXPECT_OK(call) EXPECT_CUDA(cudaSuccess, call)

constexpr unsigned int kCount = 100;
constexpr std::size_t kBytes = kCount * sizeof(float);

class CudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "no CUDA device";
    for (cudaStream_t* stream : {&s_, &t_}) EXPECT_OK(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
    for (cudaEvent_t* event : {&e_, &f_}) EXPECT_OK(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
    for (float** data : {&x_, &y_}) EXPECT_OK(cudaMalloc(reinterpret_cast<void**>(data), kBytes));
    EXPECT_OK(cudaHostAlloc(reinterpret_cast<void**>(&host_), kBytes, cudaHostAllocMapped));
    for (float* data : {x_, y_}) set(data, 1, kCount, 0, s_);
    EXPECT_OK(cudaStreamSynchronize(s_));
    for (unsigned int i = 0; i < kCount; ++i) host_[i] = 0;
  }
  void TearDown() override {
    if (IsSkipped()) return;
    destroy_all();
    (void)cudaGetLastError();
  }

  void destroy_all() {
    for (float* data : {x_, y_}) (void)cudaFree(data);
    (void)cudaFreeHost(host_);
    for (cudaEvent_t event : {e_, f_}) (void)cudaEventDestroy(event);
    for (cudaStream_t stream : {s_, t_}) (void)cudaStreamDestroy(stream);
  }

  float read(const float* data, cudaStream_t stream) {
    EXPECT_OK(cudaMemcpyAsync(host_, data, sizeof(float), cudaMemcpyDeviceToHost, stream));
    EXPECT_OK(cudaStreamSynchronize(stream));
    return host_[0];
  }

  template <class Record>
  cudaGraph_t capture(Record&& record) {
    cudaGraph_t graph = nullptr;
    EXPECT_OK(cudaStreamBeginCapture(s_, cudaStreamCaptureModeRelaxed));
    record();
    EXPECT_OK(cudaStreamEndCapture(s_, &graph));
    return graph;
  }

  // A graph with several copies of `child`. If `in_order`, each copy comes after the previous one.
  cudaGraph_t chain(cudaGraph_t child, unsigned int copies, bool in_order) {
    cudaGraph_t graph = nullptr;
    cudaGraphNode_t last = nullptr;
    EXPECT_OK(cudaGraphCreate(&graph, 0));
    for (unsigned int i = 0; i < copies; ++i) {
      EXPECT_OK(cudaGraphAddChildGraphNode(&last, graph, &last, in_order && i > 0 ? 1 : 0, child));
    }
    return graph;
  }

  cudaGraph_t empty_graph() {
    cudaGraph_t graph = nullptr;
    EXPECT_OK(cudaGraphCreate(&graph, 0));
    return graph;
  }

  template <class Record>
  void capture_to(cudaGraph_t graph, Record&& record) {
    cudaGraph_t same = nullptr;
    EXPECT_OK(cudaStreamBeginCaptureToGraph(s_, graph, nullptr, nullptr, 0, cudaStreamCaptureModeRelaxed));
    record();
    EXPECT_OK(cudaStreamEndCapture(s_, &same));
    EXPECT_EQ(same, graph);
  }

  cudaGraphConditionalHandle create_condition(cudaGraph_t graph, unsigned int at_launch) {
    cudaGraphConditionalHandle handle = 0;
    EXPECT_OK(cudaGraphConditionalHandleCreate(&handle, graph, at_launch, cudaGraphCondAssignDefault));
    return handle;
  }

  // Adds a conditional node that nothing comes before. Returns its bodies.
  cudaGraph_t* add_conditional(cudaGraph_t graph, cudaGraphConditionalHandle handle, cudaGraphConditionalNodeType type,
                               unsigned int bodies) {
    cudaGraphNodeParams parameters{};
    parameters.type = cudaGraphNodeTypeConditional;
    parameters.conditional = {handle, type, bodies, nullptr};
    cudaGraphNode_t node;
    EXPECT_OK(cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &parameters));
    return parameters.conditional.phGraph_out;
  }

  // while (condition) { condition = ++x < most; y += x; }
  cudaGraph_t loop_to(float most, unsigned int at_launch) {
    const cudaGraph_t graph = empty_graph();
    const cudaGraphConditionalHandle handle = create_condition(graph, at_launch);
    capture_to(*add_conditional(graph, handle, cudaGraphCondTypeWhile, 1), [&] {
      count(x_, most, handle, s_);
      axpy(y_, x_, 1, 1, s_);
    });
    return graph;
  }

  // Launches the graph on s_ and destroys everything.
  void launch_once(cudaGraph_t graph, bool wait = true) {
    cudaGraphExec_t exec = nullptr;
    EXPECT_OK(cudaGraphInstantiate(&exec, graph, 0));
    EXPECT_OK(cudaGraphDestroy(graph));
    EXPECT_OK(cudaGraphLaunch(exec, s_));
    if (wait) {
      EXPECT_OK(cudaStreamSynchronize(s_));
    }
    EXPECT_OK(cudaGraphExecDestroy(exec));
  }

  cudaEvent_t record_behind(cudaStream_t stream) {
    EXPECT_OK(cudaEventRecord(e_, stream));
    return e_;
  }

  static bool last_error_says(const char* text) {
    return std::string(cudaGetErrorString(cudaPeekAtLastError())).find(text) != std::string::npos;
  }

  // Makes a failing call inside a capture of s_ and returns its code. Ends the capture, which must then be invalid.
  template <class Call>
  cudaError_t in_capture(cudaStreamCaptureMode mode, Call&& call) {
    EXPECT_OK(cudaStreamBeginCapture(s_, mode));
    const cudaError_t code = call();
    cudaGraph_t graph = nullptr;
    EXPECT_CUDA(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(s_, &graph));
    EXPECT_EQ(graph, nullptr);
    return code;
  }

  cudaStream_t s_{}, t_{};
  cudaEvent_t e_{}, f_{};
  float *x_ = nullptr, *y_ = nullptr, *host_ = nullptr;
};

// What the emulation finds or does beyond CUDA's promises.
class CudaOnCpu : public CudaTest {};

TEST_F(CudaOnCpu, NothingRunsBeforeAWait) {
  EXPECT_OK(cudaMemcpyAsync(host_, x_, sizeof(float), cudaMemcpyDeviceToHost, s_));
  EXPECT_EQ(host_[0], 0);
  EXPECT_CUDA(cudaSuccess, cudaStreamSynchronize(t_));
  EXPECT_EQ(host_[0], 0) << "the wait was for another stream";
  EXPECT_OK(cudaStreamSynchronize(s_));
  EXPECT_EQ(host_[0], 1);
}

TEST_F(CudaOnCpu, SourceReusedTooEarlyIsCopiedLate) {
  float pageable[1];
  for (float* source : {host_ + 1, pageable}) {
    *source = 2;
    EXPECT_OK(cudaMemcpyAsync(x_, source, sizeof(float), cudaMemcpyHostToDevice, s_));
    *source = 99;
    EXPECT_EQ(read(x_, s_), 99);
  }
}

TEST_F(CudaTest, EventOrdersStreams) {
  set(x_, 5, kCount, 0, s_);
  EXPECT_OK(cudaEventRecord(e_, s_));
  EXPECT_OK(cudaStreamWaitEvent(t_, e_, 0));
  EXPECT_EQ(read(x_, t_), 5);
}

TEST_F(CudaOnCpu, AccessWithoutEventIsARace) {
  set(x_, 5, kCount, 0, s_);
  EXPECT_OK(cudaMemcpyAsync(host_, x_, sizeof(float), cudaMemcpyDeviceToHost, t_));
  EXPECT_OK(cudaStreamSynchronize(t_));
  EXPECT_EQ(host_[0], 1) << "the copy went first";
  EXPECT_NE(cudaStreamSynchronize(s_), cudaSuccess);
  EXPECT_NE(std::string(cudaGetErrorString(cudaPeekAtLastError())).find("race"), std::string::npos)
      << cudaGetErrorString(cudaPeekAtLastError());
}

// Exactly what CUDA documents for each direction ("API synchronization behavior").
TEST_F(CudaTest, CopyWaitsAsItsDirectionRequires) {
  std::vector<float> pageable(kCount, 5);
  EXPECT_OK(cudaMemcpy(x_, pageable.data(), kBytes, cudaMemcpyHostToDevice));
  pageable.assign(kCount, 6);  // it has been read
  EXPECT_EQ(read(x_, nullptr), 5);
  EXPECT_OK(cudaMemcpy(pageable.data(), x_, kBytes, cudaMemcpyDeviceToHost));
  EXPECT_EQ(pageable[0], 5);
  host_[0] = 7;
  EXPECT_OK(cudaMemcpy(y_, host_, sizeof(float), cudaMemcpyHostToDevice));
  axpy(x_, y_, 1, 1, s_);  // y_ was copied from pinned memory, so it has been written
  EXPECT_EQ(read(x_, s_), 12);
  EXPECT_OK(cudaMemset(host_, 0, kBytes));
  EXPECT_EQ(host_[0], 0);
  EXPECT_OK(cudaMemcpyAsync(pageable.data(), host_, kBytes, cudaMemcpyHostToHost, s_));
  EXPECT_EQ(pageable[0], 0) << "within the host it is synchronous";
}

TEST_F(CudaOnCpu, DeviceToDeviceCopyDoesNotWait) {
  EXPECT_OK(cudaMemcpy(y_, x_, kBytes, cudaMemcpyDeviceToDevice));
  axpy(x_, y_, 1, kCount, s_);
  EXPECT_NE(cudaDeviceSynchronize(), cudaSuccess);  // the work that runs second reports it
  EXPECT_TRUE(last_error_says("race"));
}

TEST_F(CudaOnCpu, PageableCopyMayReturnBeforeReachingTheDevice) {
  const std::vector<float> pageable(kCount, 5);
  EXPECT_OK(cudaMemcpy(x_, pageable.data(), kBytes, cudaMemcpyHostToDevice));
  axpy(y_, x_, 1, kCount, s_);
  EXPECT_NE(cudaDeviceSynchronize(), cudaSuccess);  // the work that runs second reports it
  EXPECT_TRUE(last_error_says("race"));
}

TEST_F(CudaOnCpu, WorkOutlivesItsStream) {
  cudaStream_t stream;
  EXPECT_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  set(host_, 3, 1, 0, stream);
  EXPECT_OK(cudaEventRecord(e_, stream));
  EXPECT_OK(cudaStreamDestroy(stream));
  EXPECT_EQ(host_[0], 0);
  EXPECT_OK(cudaEventSynchronize(e_));
  EXPECT_EQ(host_[0], 3);

  EXPECT_OK(cudaStreamCreate(&stream));
  set(x_, 4, 1, 0, stream);
  EXPECT_OK(cudaStreamDestroy(stream));
  EXPECT_EQ(read(x_, nullptr), 4) << "the legacy stream waits for it";

  EXPECT_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  set(host_, 5, 1, 0, stream);
  EXPECT_OK(cudaStreamDestroy(stream));
  EXPECT_OK(cudaDeviceSynchronize());
  EXPECT_EQ(host_[0], 5);
}

TEST_F(CudaOnCpu, FreedMemoryStaysForQueuedWork) {
  float *data, *pinned;
  EXPECT_OK(cudaMalloc(reinterpret_cast<void**>(&data), kBytes));
  EXPECT_OK(cudaMallocHost(reinterpret_cast<void**>(&pinned), kBytes));
  set(data, 2, kCount, 0, s_);
  set(pinned, 3, kCount, 0, s_);
  axpy(x_, data, 1, kCount, s_);
  axpy(x_, pinned, 1, kCount, s_);
  EXPECT_OK(cudaMemcpyAsync(host_, x_, sizeof(float), cudaMemcpyDeviceToHost, s_));
  EXPECT_OK(cudaFree(data));
  EXPECT_OK(cudaFreeHost(pinned));
  EXPECT_EQ(host_[0], 0) << "nobody has waited for it";
  EXPECT_CUDA(cudaErrorInvalidValue, cudaFree(data));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaMemsetAsync(data, 0, kBytes, t_));
  EXPECT_OK(cudaStreamSynchronize(s_));
  EXPECT_EQ(host_[0], 6);
}

// A free of other memory is not a wait.
TEST_F(CudaOnCpu, FreeHidesNoMissingWait) {
  float* other;
  EXPECT_OK(cudaMalloc(reinterpret_cast<void**>(&other), kBytes));
  set(host_, 7, 1, 0, s_);
  EXPECT_OK(cudaFree(other));
  set(y_, 2, 1, 0, t_);
  EXPECT_OK(cudaStreamSynchronize(t_));
  EXPECT_EQ(host_[0], 0);
  EXPECT_OK(cudaStreamSynchronize(s_));
  EXPECT_EQ(host_[0], 7);
}

TEST_F(CudaOnCpu, FreedPinnedMemoryIsKnown) {
  float* pinned;
  EXPECT_OK(cudaMallocHost(reinterpret_cast<void**>(&pinned), kBytes));
  EXPECT_OK(cudaFreeHost(pinned));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaMemcpyAsync(x_, pinned, 4, cudaMemcpyDefault, s_));
}

TEST_F(CudaOnCpu, WorkQueuedAfterAFreeFails) {
  float* data;
  EXPECT_OK(cudaMalloc(reinterpret_cast<void**>(&data), kBytes));
  set(data, 2, kCount, 0, s_);
  EXPECT_OK(cudaFree(data));
  set(data, 3, kCount, 0, t_);
  EXPECT_CUDA(cudaErrorIllegalAddress, cudaStreamSynchronize(t_));
  EXPECT_TRUE(last_error_says("freed"));
}

TEST_F(CudaOnCpu, FreshMemoryIsNotZero) {
  float* pinned;
  EXPECT_OK(cudaMallocHost(reinterpret_cast<void**>(&pinned), kBytes));
  EXPECT_TRUE(std::isnan(pinned[0]));
  EXPECT_OK(cudaFreeHost(pinned));
}

TEST_F(CudaOnCpu, PollingEnds) {
  for (int i = 0; i < 5; ++i) set(x_, 5, kCount, 0, s_);
  EXPECT_OK(cudaEventRecord(e_, s_));
  int polls = 0;
  while (cudaEventQuery(e_) == cudaErrorNotReady) ++polls;
  EXPECT_GT(polls, 0);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady);
  EXPECT_EQ(read(x_, s_), 5);
}

TEST_F(CudaTest, GraphCapturesArgumentsWhenRecorded) {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  EXPECT_OK(cudaStreamBeginCapture(s_, cudaStreamCaptureModeRelaxed));
  axpy(y_, x_, 2, kCount, s_);
  EXPECT_OK(cudaEventRecord(e_, s_));
  EXPECT_OK(cudaStreamWaitEvent(t_, e_, 0));
  EXPECT_OK(cudaMemcpyAsync(host_, y_, kBytes, cudaMemcpyDefault, t_));
  EXPECT_OK(cudaEventRecord(f_, t_));
  EXPECT_OK(cudaStreamWaitEvent(s_, f_, 0));
  EXPECT_OK(cudaStreamEndCapture(s_, &graph));
  std::size_t nodes = 0;
  EXPECT_OK(cudaGraphGetNodes(graph, nullptr, &nodes));
  EXPECT_EQ(nodes, 2u);
  EXPECT_OK(cudaGraphInstantiate(&exec, graph, 0));
  EXPECT_OK(cudaGraphDestroy(graph));
  for (const float expected : {3.f, 5.f, 7.f}) {
    EXPECT_OK(cudaGraphLaunch(exec, s_));
    EXPECT_OK(cudaStreamSynchronize(s_));
    EXPECT_EQ(host_[kCount - 1], expected);
  }
  EXPECT_OK(cudaGraphExecDestroy(exec));
}

TEST_F(CudaTest, ChildGraphsRunInSequence) {
  const cudaGraph_t step = capture([&] {
    axpy(y_, x_, 1, kCount, s_);
    axpy(y_, x_, 2, kCount, s_);
  });
  for (const unsigned int rungs : {2u, 128u}) {
    cudaGraph_t ladder = chain(step, rungs, true), copy;
    std::size_t nodes = 0;
    EXPECT_OK(cudaGraphGetNodes(ladder, nullptr, &nodes));
    EXPECT_EQ(nodes, rungs);
    EXPECT_OK(cudaGraphClone(&copy, ladder));
    EXPECT_OK(cudaGraphDestroy(ladder));
    cudaGraphExec_t exec;
    EXPECT_OK(cudaGraphInstantiate(&exec, copy, 0));
    EXPECT_OK(cudaGraphDestroy(copy));
    set(y_, 0, kCount, 0, s_);
    EXPECT_OK(cudaGraphLaunch(exec, s_));
    EXPECT_EQ(read(y_, s_), 3.f * static_cast<float>(rungs));
    EXPECT_OK(cudaGraphExecDestroy(exec));
  }
  EXPECT_OK(cudaGraphDestroy(step));
}

TEST_F(CudaTest, ChildGraphIsACopy) {
  cudaGraph_t step = capture([&] { axpy(y_, x_, 1, kCount, s_); }), parent = chain(step, 1, true), child;
  cudaGraphNode_t node, added;
  cudaGraphNodeType type;
  std::size_t count = 1;
  EXPECT_OK(cudaGraphAddEmptyNode(&added, step, nullptr, 0));
  EXPECT_OK(cudaGraphGetNodes(parent, &node, &count));
  EXPECT_OK(cudaGraphNodeGetType(node, &type));
  EXPECT_EQ(type, cudaGraphNodeTypeGraph);
  EXPECT_OK(cudaGraphChildGraphNodeGetGraph(node, &child));
  EXPECT_OK(cudaGraphGetNodes(child, nullptr, &count));
  EXPECT_EQ(count, 1u);
  EXPECT_CUDA(cudaErrorInvalidValue, cudaGraphDestroy(child)) << "its parent's";
  EXPECT_CUDA(cudaErrorInvalidValue, cudaGraphAddEmptyNode(&node, step, &node, 1)) << "a node of another graph";
  const cudaGraphNode_t twice[]{added, added};
  EXPECT_CUDA(cudaErrorInvalidValue, cudaGraphAddEmptyNode(&node, step, twice, 2));
  EXPECT_OK(cudaGraphDestroy(parent));
  EXPECT_OK(cudaGraphDestroy(step));
}

TEST_F(CudaOnCpu, ChildGraphIsDestroyedWithItsParent) {
  const cudaGraph_t step = capture([&] { axpy(y_, x_, 1, kCount, s_); }), parent = chain(step, 1, true);
  cudaGraph_t child;
  cudaGraphNode_t node;
  std::size_t count = 1;
  EXPECT_OK(cudaGraphGetNodes(parent, &node, &count));
  EXPECT_OK(cudaGraphChildGraphNodeGetGraph(node, &child));
  EXPECT_OK(cudaGraphDestroy(parent));
  EXPECT_OK(cudaGraphDestroy(step));
  EXPECT_CUDA(cudaErrorInvalidResourceHandle, cudaGraphGetNodes(child, nullptr, &count));
}

TEST_F(CudaOnCpu, ChildGraphsWithoutDependencyRace) {
  const cudaGraph_t step = capture([&] { axpy(y_, x_, 1, kCount, s_); }), parallel = chain(step, 2, false);
  cudaGraphExec_t exec;
  EXPECT_OK(cudaGraphInstantiate(&exec, parallel, 0));
  EXPECT_OK(cudaGraphLaunch(exec, s_));
  EXPECT_NE(cudaStreamSynchronize(s_), cudaSuccess);
  EXPECT_TRUE(last_error_says("race"));
  EXPECT_TRUE(last_error_says("kernels.cu:"));
  EXPECT_OK(cudaGraphExecDestroy(exec));
  for (const cudaGraph_t graph : {step, parallel}) EXPECT_OK(cudaGraphDestroy(graph));
}

TEST_F(CudaTest, LaunchIntoACaptureBecomesAChildGraph) {
  const cudaGraph_t step = capture([&] { axpy(y_, x_, 1, kCount, s_); });
  cudaGraphExec_t exec, outer_exec;
  EXPECT_OK(cudaGraphInstantiate(&exec, step, 0));
  const cudaGraph_t outer = capture([&] {
    EXPECT_OK(cudaGraphLaunch(exec, s_));
    EXPECT_OK(cudaGraphLaunch(exec, s_));
  });
  cudaGraphNode_t nodes[2];
  std::size_t count = 2;
  cudaGraphNodeType type;
  EXPECT_OK(cudaGraphGetNodes(outer, nodes, &count));
  EXPECT_EQ(count, 2u);
  EXPECT_OK(cudaGraphNodeGetType(nodes[1], &type));
  EXPECT_EQ(type, cudaGraphNodeTypeGraph);
  EXPECT_EQ(read(y_, s_), 1) << "only captured";
  EXPECT_OK(cudaGraphInstantiate(&outer_exec, outer, 0));
  EXPECT_OK(cudaGraphLaunch(outer_exec, s_));
  EXPECT_EQ(read(y_, s_), 3);
  for (const cudaGraphExec_t e : {exec, outer_exec}) EXPECT_OK(cudaGraphExecDestroy(e));
  for (const cudaGraph_t graph : {step, outer}) EXPECT_OK(cudaGraphDestroy(graph));
}

TEST_F(CudaTest, WhileNodeRepeatsItsBody) {
  const cudaGraph_t graph = loop_to(5, 1);
  cudaGraphExec_t exec;
  EXPECT_OK(cudaGraphInstantiate(&exec, graph, 0));
  for (const float start : {0.f, 2.f, 7.f}) {
    set(x_, start, kCount, 0, s_);
    set(y_, 0, kCount, 0, s_);
    EXPECT_OK(cudaGraphLaunch(exec, s_));
    float sum = 0, x = start;  // the body runs at least once, because the condition holds at launch
    do sum += ++x;
    while (x < 5);
    EXPECT_EQ(read(y_, s_), sum);
    EXPECT_EQ(read(x_, s_), x);
  }
  EXPECT_OK(cudaGraphExecDestroy(exec));
  EXPECT_OK(cudaGraphDestroy(graph));
}

TEST_F(CudaTest, IfNodeChoosesABody) {
  for (const unsigned int condition : {0u, 1u, 2u}) {
    const cudaGraph_t graph = empty_graph();
    const cudaGraphConditionalHandle handle = create_condition(graph, condition);
    cudaGraph_t* const bodies = add_conditional(graph, handle, cudaGraphCondTypeIf, 2);
    for (const float value : {10.f, 20.f}) {
      capture_to(bodies[value > 10], [&] { set(y_, value, kCount, 0, s_); });
    }
    launch_once(graph);
    EXPECT_EQ(read(y_, s_), condition != 0 ? 10 : 20);
  }
  for (const unsigned int condition : {0u, 1u, 2u}) {
    set(y_, 1, kCount, 0, s_);
    const cudaGraph_t graph = empty_graph();
    cudaGraph_t* const bodies = add_conditional(graph, create_condition(graph, condition), cudaGraphCondTypeSwitch, 2);
    for (const float value : {10.f, 20.f}) {
      capture_to(bodies[value > 10], [&] { set(y_, value, kCount, 0, s_); });
    }
    launch_once(graph);
    EXPECT_EQ(read(y_, s_), condition == 0 ? 10 : condition == 1 ? 20 : 1);
  }
}

TEST_F(CudaTest, ConditionalNodesNest) {
  const cudaGraph_t graph = empty_graph();
  const cudaGraphConditionalHandle outer = create_condition(graph, 1), inner = create_condition(graph, 1);
  const cudaGraph_t body = *add_conditional(graph, outer, cudaGraphCondTypeWhile, 1);
  const cudaGraph_t inner_body = *add_conditional(body, inner, cudaGraphCondTypeIf, 1);
  capture_to(inner_body, [&] { axpy(y_, x_, 1, kCount, s_); });
  cudaGraphNode_t last;
  std::size_t one = 1;
  EXPECT_OK(cudaGraphGetNodes(body, &last, &one));
  EXPECT_OK(cudaStreamBeginCaptureToGraph(s_, body, &last, nullptr, 1, cudaStreamCaptureModeRelaxed));
  count(x_, 4, outer, s_);
  cudaGraph_t same;
  EXPECT_OK(cudaStreamEndCapture(s_, &same));
  EXPECT_EQ(same, body);
  launch_once(graph);
  EXPECT_EQ(read(y_, s_), 1 + 1 + 2 + 3);
}

TEST_F(CudaTest, ConditionalNodeCanBeCaptured) {
  const cudaGraph_t graph = capture([&] {
    set(x_, 0, kCount, 0, s_);
    cudaStreamCaptureStatus status;
    cudaGraph_t into;
    const cudaGraphNode_t* after;
    std::size_t count_after;
    EXPECT_OK(cudaStreamGetCaptureInfo(s_, &status, nullptr, &into, &after, nullptr, &count_after));
    EXPECT_EQ(status, cudaStreamCaptureStatusActive);
    EXPECT_EQ(count_after, 1u);
    const cudaGraphConditionalHandle handle = create_condition(into, 1);
    cudaGraphNodeParams parameters{};
    parameters.type = cudaGraphNodeTypeConditional;
    parameters.conditional = {handle, cudaGraphCondTypeWhile, 1, nullptr};
    cudaGraphNode_t node;
    EXPECT_OK(cudaGraphAddNode(&node, into, after, nullptr, count_after, &parameters));
    EXPECT_OK(cudaStreamUpdateCaptureDependencies(s_, &node, nullptr, 1, cudaStreamSetCaptureDependencies));
    EXPECT_OK(cudaStreamBeginCaptureToGraph(t_, *parameters.conditional.phGraph_out, nullptr, nullptr, 0,
                                            cudaStreamCaptureModeRelaxed));
    count(x_, 3, handle, t_);
    cudaGraph_t body;
    EXPECT_OK(cudaStreamEndCapture(t_, &body));
    axpy(y_, x_, 1, kCount, s_);
  });
  launch_once(graph);
  EXPECT_EQ(read(y_, s_), 1 + 3);
}

TEST_F(CudaTest, GraphsWithConditionalNodesAreRestricted) {
  const cudaGraph_t graph = loop_to(5, 1);
  cudaGraph_t copy;
  cudaGraphNode_t node;
  cudaGraphExec_t exec, second;
  EXPECT_CUDA(cudaErrorInvalidValue, cudaGraphClone(&copy, graph));
  const cudaGraph_t parent = empty_graph();
  EXPECT_CUDA(cudaErrorInvalidValue, cudaGraphAddChildGraphNode(&node, parent, nullptr, 0, graph));
  EXPECT_OK(cudaGraphInstantiate(&exec, graph, 0));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaGraphInstantiate(&second, graph, 0));
  EXPECT_OK(cudaGraphExecDestroy(exec));
  EXPECT_OK(cudaGraphInstantiate(&exec, graph, 0));
  EXPECT_OK(cudaGraphExecDestroy(exec));

  const cudaGraphConditionalHandle handle = create_condition(parent, 1);
  EXPECT_CUDA(cudaErrorInvalidValue, cudaGraphInstantiate(&exec, parent, 0)) << "a handle without a node";
  cudaGraphNodeParams parameters{};
  parameters.type = cudaGraphNodeTypeConditional;
  parameters.conditional = {handle, cudaGraphCondTypeWhile, 2, nullptr};
  EXPECT_CUDA(cudaErrorInvalidValue, cudaGraphAddNode(&node, parent, nullptr, nullptr, 0, &parameters));
  parameters.conditional.size = 1;
  EXPECT_CUDA(cudaErrorInvalidValue, cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &parameters))
      << "another graph's handle";
  EXPECT_OK(cudaGraphAddNode(&node, parent, nullptr, nullptr, 0, &parameters));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaGraphAddNode(&node, parent, nullptr, nullptr, 0, &parameters))
      << "the handle has its node";
  const cudaGraph_t body = *parameters.conditional.phGraph_out;
  EXPECT_CUDA(cudaErrorInvalidValue, cudaGraphInstantiate(&exec, body, 0));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaGraphDestroy(body));
  float pageable = 0;
  capture_to(body, [&] { EXPECT_OK(cudaMemcpyAsync(&pageable, x_, 4, cudaMemcpyDeviceToHost, s_)); });
  EXPECT_CUDA(cudaErrorNotSupported, cudaGraphInstantiate(&exec, parent, 0));
  for (const cudaGraph_t each : {graph, parent}) EXPECT_OK(cudaGraphDestroy(each));
}

TEST_F(CudaOnCpu, UnorderedConditionIsARace) {
  const cudaGraph_t graph = empty_graph();
  const cudaGraphConditionalHandle handle = create_condition(graph, 1);
  capture_to(graph, [&] { count(x_, 5, handle, s_); });
  add_conditional(graph, handle, cudaGraphCondTypeIf, 1);
  launch_once(graph, false);
  EXPECT_NE(cudaStreamSynchronize(s_), cudaSuccess);
  EXPECT_TRUE(last_error_says("race"));
}

TEST_F(CudaOnCpu, ConditionWithoutAValueIsAnError) {
  const cudaGraph_t graph = empty_graph();
  cudaGraphConditionalHandle handle;
  EXPECT_OK(cudaGraphConditionalHandleCreate(&handle, graph, 1, 0));
  add_conditional(graph, handle, cudaGraphCondTypeIf, 1);
  launch_once(graph, false);
  EXPECT_CUDA(cudaErrorLaunchFailure, cudaStreamSynchronize(s_));
  EXPECT_TRUE(last_error_says("no value"));
}

TEST_F(CudaOnCpu, ConditionIsSetOnlyByItsOwnGraph) {
  const cudaGraph_t graph = loop_to(5, 1);
  const cudaGraphConditionalHandle handle = create_condition(graph, 1);
  count(x_, 5, handle, s_);
  EXPECT_CUDA(cudaErrorLaunchFailure, cudaStreamSynchronize(s_));
  EXPECT_TRUE(last_error_says("kernels.cu:"));
  EXPECT_TRUE(last_error_says("not running"));
  EXPECT_OK(cudaGraphDestroy(graph));
}

TEST_F(CudaOnCpu, BodyNodesWithoutDependencyRace) {
  const cudaGraph_t graph = empty_graph();
  const cudaGraphConditionalHandle handle = create_condition(graph, 1);
  const cudaGraph_t body = *add_conditional(graph, handle, cudaGraphCondTypeWhile, 1);
  capture_to(body, [&] { axpy(y_, x_, 1, 1, s_); });
  capture_to(body, [&] { count(x_, 3, handle, s_); });
  launch_once(graph, false);
  EXPECT_NE(cudaStreamSynchronize(s_), cudaSuccess);
  EXPECT_TRUE(last_error_says("race"));
}

TEST_F(CudaTest, CapturesRejectWhatCudaForbids) {
  const auto global = cudaStreamCaptureModeGlobal, relaxed = cudaStreamCaptureModeRelaxed;
  void* data = nullptr;
  EXPECT_EQ(in_capture(global, [&] { return cudaMalloc(&data, 4); }), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(in_capture(relaxed, [&] { return cudaStreamSynchronize(s_); }), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(in_capture(relaxed, [&] { return cudaDeviceSynchronize(); }), cudaErrorStreamCaptureUnsupported);
  EXPECT_OK(cudaEventRecord(e_, t_));
  EXPECT_EQ(in_capture(relaxed, [&] { return cudaStreamWaitEvent(s_, e_, 0); }), cudaErrorStreamCaptureIsolation);
  EXPECT_EQ(in_capture(relaxed,
                       [&] {
                         EXPECT_OK(cudaEventRecord(e_, s_));
                         return cudaEventQuery(e_);
                       }),
            cudaErrorCapturedEvent);
  EXPECT_OK(cudaEventRecord(e_, t_));
  EXPECT_EQ(in_capture(global, [&] { return cudaEventQuery(e_); }), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(in_capture(global, [&] { return cudaEventSynchronize(e_); }), cudaErrorStreamCaptureUnsupported);
  EXPECT_OK(cudaGraphDestroy(capture([&] { EXPECT_OK(cudaEventSynchronize(e_)); }))) << "relaxed";
  EXPECT_EQ(in_capture(global,
                       [&] {
                         (void)cudaMalloc(&data, 4);
                         return cudaEventRecord(e_, s_);
                       }),
            cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(in_capture(relaxed,
                       [&] {
                         EXPECT_OK(cudaEventRecord(e_, s_));
                         EXPECT_OK(cudaStreamWaitEvent(t_, e_, 0));
                         cudaGraph_t graph;
                         return cudaStreamEndCapture(t_, &graph);
                       }),
            cudaErrorStreamCaptureUnmatched);

  cudaGraph_t graph = nullptr;
  EXPECT_CUDA(cudaErrorIllegalState, cudaStreamEndCapture(s_, &graph));
  EXPECT_CUDA(cudaErrorStreamCaptureUnsupported, cudaStreamBeginCapture(nullptr, relaxed));

  EXPECT_OK(cudaStreamBeginCapture(s_, relaxed));
  EXPECT_OK(cudaStreamBeginCapture(t_, relaxed));
  EXPECT_OK(cudaEventRecord(e_, s_));
  EXPECT_CUDA(cudaErrorStreamCaptureMerge, cudaStreamWaitEvent(t_, e_, 0));
  EXPECT_CUDA(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(t_, &graph));
  EXPECT_OK(cudaMalloc(&data, 4)) << "relaxed";
  EXPECT_OK(cudaStreamEndCapture(s_, &graph));
  EXPECT_OK(cudaGraphDestroy(graph));
  EXPECT_OK(cudaFree(data));
}

TEST_F(CudaTest, ForkMustBeJoined) {
  cudaGraph_t graph = nullptr;
  EXPECT_OK(cudaStreamBeginCapture(s_, cudaStreamCaptureModeRelaxed));
  EXPECT_OK(cudaEventRecord(e_, s_));
  EXPECT_OK(cudaStreamWaitEvent(t_, e_, 0));
  set(x_, 2, kCount, 0, t_);
  EXPECT_CUDA(cudaErrorStreamCaptureUnjoined, cudaStreamEndCapture(s_, &graph));
  EXPECT_EQ(read(x_, s_), 1);
}

TEST_F(CudaTest, LegacyStreamCannotWaitForACapture) {
  cudaStream_t blocking;
  cudaGraph_t graph = nullptr;
  EXPECT_OK(cudaStreamCreate(&blocking));
  EXPECT_OK(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed));
  set(x_, 2, kCount, 0, nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaErrorStreamCaptureImplicit);
  EXPECT_CUDA(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(blocking, &graph));
  EXPECT_OK(cudaStreamDestroy(blocking));
}

TEST_F(CudaTest, BadLaunchesAreRejectedAtOnce) {
  set(x_, 2, 0, 0, s_);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  set(x_, 2, 1025, 0, s_);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  set(x_, 2, kCount, 49'153, s_);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(read(x_, s_), 1);
}

TEST_F(CudaTest, BadCopiesAreRejectedAtOnce) {
  EXPECT_CUDA(cudaErrorInvalidValue, cudaMemcpyAsync(x_, y_, kBytes + 1, cudaMemcpyDefault, s_));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaMemcpyAsync(x_, y_, kBytes, cudaMemcpyDeviceToHost, s_));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaMemsetAsync(x_ + kCount, 0, 1, s_));
  EXPECT_CUDA(cudaErrorInvalidMemcpyDirection, cudaMemcpyAsync(x_, y_, 4, static_cast<cudaMemcpyKind>(7), s_));
}

TEST_F(CudaOnCpu, OverlappingCopiesAreRejected) {
  EXPECT_CUDA(cudaErrorInvalidValue, cudaMemcpyAsync(x_ + 1, x_, 8, cudaMemcpyDefault, s_));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaMemcpyAsync(x_, x_ + 1, 8, cudaMemcpyDefault, s_));
  EXPECT_OK(cudaMemcpyAsync(x_ + 1, x_, 4, cudaMemcpyDefault, s_));
}

TEST_F(CudaTest, InvalidFlagsAreRejected) {
  cudaStream_t stream;
  cudaEvent_t event;
  void* data;
  EXPECT_CUDA(cudaErrorInvalidValue, cudaStreamCreateWithFlags(&stream, 2));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaEventCreateWithFlags(&event, 0x80));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaEventCreateWithFlags(&event, cudaEventInterprocess)) << "it has timing";
  EXPECT_CUDA(cudaErrorInvalidValue, cudaHostAlloc(&data, 4, 0xff));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaStreamWaitEvent(s_, e_, 7));
}

TEST_F(CudaOnCpu, KernelOutOfBoundsLosesTheDevice) {
  set(x_, 2, kCount + 1, 0, s_);
  EXPECT_OK(cudaGetLastError()) << "the launch itself is in order";
  EXPECT_CUDA(cudaErrorIllegalAddress, cudaStreamSynchronize(s_));
  EXPECT_NE(std::string(cudaGetErrorString(cudaErrorIllegalAddress)).find("kernels.cu:"), std::string::npos)
      << cudaGetErrorString(cudaErrorIllegalAddress);
  EXPECT_CUDA(cudaErrorIllegalAddress, cudaStreamSynchronize(t_)) << "and stays lost";
}

TEST_F(CudaOnCpu, UseAfterFree) {
  float* data;
  EXPECT_OK(cudaMalloc(reinterpret_cast<void**>(&data), kBytes));
  EXPECT_OK(cudaFree(data));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaFree(data));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaMemsetAsync(data, 0, kBytes, s_));
  set(data, 1, kCount, 0, s_);
  EXPECT_CUDA(cudaErrorIllegalAddress, cudaStreamSynchronize(s_));
}

TEST_F(CudaOnCpu, StreamOrderedMemoryIsValidFromAllocationToFree) {
  float* data;
  EXPECT_OK(cudaMallocAsync(reinterpret_cast<void**>(&data), kBytes, s_));
  set(data, 3, kCount, 0, s_);
  EXPECT_OK(cudaEventRecord(e_, s_));
  EXPECT_OK(cudaStreamWaitEvent(t_, e_, 0));
  axpy(y_, data, 1, kCount, t_);
  EXPECT_OK(cudaFreeAsync(data, t_));
  EXPECT_CUDA(cudaErrorInvalidValue, cudaFreeAsync(data, t_)) << "twice";
  EXPECT_CUDA(cudaErrorInvalidValue, cudaMemsetAsync(data, 0, kBytes, t_)) << "new work with freed memory";
  EXPECT_EQ(read(y_, t_), 4);
  EXPECT_OK(cudaMalloc(reinterpret_cast<void**>(&data), kBytes));
  EXPECT_OK(cudaFreeAsync(data, s_)) << "any device memory can be";
  EXPECT_OK(cudaFreeAsync(nullptr, s_));
}

TEST_F(CudaOnCpu, StreamOrderedMemoryStartsOutUninitialised) {
  float* data;
  EXPECT_OK(cudaMallocAsync(reinterpret_cast<void**>(&data), kBytes, s_));
  axpy(y_, data, 1, kCount, s_);
  EXPECT_OK(cudaFreeAsync(data, s_));
  EXPECT_NE(cudaStreamSynchronize(s_), cudaSuccess);
  EXPECT_TRUE(last_error_says("uninitialised"));
}

TEST_F(CudaOnCpu, UseNotOrderedAfterTheAllocationIsARace) {
  float* data;
  EXPECT_OK(cudaMallocAsync(reinterpret_cast<void**>(&data), kBytes, s_));
  EXPECT_OK(cudaStreamQuery(s_)) << "done, and waited for";
  set(data, 1, kCount, 0, t_);
  EXPECT_OK(cudaStreamSynchronize(t_));
  EXPECT_OK(cudaFreeAsync(data, t_));
  EXPECT_OK(cudaMallocAsync(reinterpret_cast<void**>(&data), kBytes, s_));
  set(data, 1, kCount, 0, t_);
  EXPECT_OK(cudaFreeAsync(data, t_));
  EXPECT_NE(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_TRUE(last_error_says("cudaMallocAsync"));
}

TEST_F(CudaOnCpu, UseNotOrderedBeforeTheFreeIsARace) {
  float* data;
  EXPECT_OK(cudaMallocAsync(reinterpret_cast<void**>(&data), kBytes, s_));
  EXPECT_OK(cudaStreamSynchronize(s_));
  set(data, 1, kCount, 0, t_);
  EXPECT_OK(cudaEventRecord(e_, t_));
  EXPECT_OK(cudaFreeAsync(data, s_));
  EXPECT_CUDA(cudaErrorNotReady, cudaStreamQuery(t_)) << "the kernel has run, the event is left";
  EXPECT_NE(cudaStreamSynchronize(s_), cudaSuccess);
  EXPECT_TRUE(last_error_says("race"));
  EXPECT_TRUE(last_error_says("kernels.cu:"));
}

TEST_F(CudaOnCpu, UseAfterAnOrderedFree) {
  float* data;
  EXPECT_OK(cudaMallocAsync(reinterpret_cast<void**>(&data), kBytes, s_));
  EXPECT_OK(cudaFreeAsync(data, s_));
  set(data, 1, kCount, 0, s_);
  EXPECT_CUDA(cudaErrorIllegalAddress, cudaStreamSynchronize(s_));
  EXPECT_TRUE(last_error_says("freed"));
  EXPECT_TRUE(last_error_says("kernels.cu:"));
}

TEST_F(CudaOnCpu, FreeOfPoolMemoryDoesNotWait) {
  float* data;
  EXPECT_OK(cudaMallocAsync(reinterpret_cast<void**>(&data), kBytes, s_));
  set(data, 1, kCount, 0, s_);
  EXPECT_OK(cudaStreamSynchronize(s_));
  EXPECT_OK(cudaFree(data));
  EXPECT_OK(cudaMallocAsync(reinterpret_cast<void**>(&data), kBytes, s_));
  set(data, 1, kCount, 0, s_);
  EXPECT_OK(cudaFree(data));
  EXPECT_CUDA(cudaErrorIllegalAddress, cudaStreamSynchronize(s_));
}

TEST_F(CudaOnCpu, PoolsTrackTheirMemory) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, 0};
  properties.maxSize = 1000;
  cudaMemPool_t pool, other;
  EXPECT_OK(cudaMemPoolCreate(&pool, &properties));
  const auto figure = [&](cudaMemPoolAttr attribute) {
    std::uint64_t bytes = 0;
    EXPECT_OK(cudaMemPoolGetAttribute(pool, attribute, &bytes));
    return bytes;
  };
  std::uint64_t threshold = 300, zero = 0;
  EXPECT_OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  void *data, *more, *none;
  EXPECT_OK(cudaMallocFromPoolAsync(&data, kBytes, pool, s_));
  EXPECT_OK(cudaMallocFromPoolAsync(&more, kBytes, pool, s_));
  EXPECT_CUDA(cudaErrorMemoryAllocation, cudaMallocFromPoolAsync(&none, kBytes, pool, s_));
  EXPECT_EQ(figure(cudaMemPoolAttrUsedMemCurrent), 2 * kBytes);
  EXPECT_OK(cudaFreeAsync(data, s_));
  EXPECT_EQ(figure(cudaMemPoolAttrUsedMemCurrent), 2 * kBytes) << "not free yet";
  EXPECT_OK(cudaStreamSynchronize(s_));
  EXPECT_EQ(figure(cudaMemPoolAttrUsedMemCurrent), kBytes);
  EXPECT_EQ(figure(cudaMemPoolAttrReservedMemCurrent), kBytes);
  EXPECT_EQ(figure(cudaMemPoolAttrUsedMemHigh), 2 * kBytes);
  EXPECT_OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &zero));
  EXPECT_EQ(figure(cudaMemPoolAttrUsedMemHigh), kBytes);
  EXPECT_OK(cudaFreeAsync(more, s_));
  EXPECT_OK(cudaStreamSynchronize(s_));
  EXPECT_EQ(figure(cudaMemPoolAttrReservedMemCurrent), threshold);
  EXPECT_OK(cudaMemPoolTrimTo(pool, 100));
  EXPECT_EQ(figure(cudaMemPoolAttrReservedMemCurrent), 100u);
  EXPECT_OK(cudaDeviceSetMemPool(0, pool));
  EXPECT_OK(cudaMallocAsync(&data, kBytes, s_));
  EXPECT_EQ(figure(cudaMemPoolAttrUsedMemCurrent), kBytes);
  EXPECT_OK(cudaMemPoolDestroy(pool)) << "its blocks may outlive it";
  EXPECT_CUDA(cudaErrorInvalidValue, cudaMallocFromPoolAsync(&none, kBytes, pool, s_));
  EXPECT_OK(cudaFreeAsync(data, s_));
  EXPECT_OK(cudaDeviceGetMemPool(&pool, 0));
  EXPECT_OK(cudaDeviceGetDefaultMemPool(&other, 0));
  EXPECT_EQ(pool, other);
  EXPECT_CUDA(cudaErrorInvalidValue, cudaMemPoolDestroy(other));
}

TEST_F(CudaOnCpu, HostFunctionRunsInStreamOrder) {
  struct Seen {
    const float* from;
    float value = -1;
    cudaError_t call = cudaSuccess;
  } seen{host_};
  const auto look = [](void* argument) {
    Seen& at = *static_cast<Seen*>(argument);
    at.value = *at.from;
    cudaStream_t stream;
    at.call = cudaStreamCreate(&stream);
  };
  EXPECT_OK(cudaMemcpyAsync(host_, x_, sizeof(float), cudaMemcpyDeviceToHost, s_));
  EXPECT_OK(cudaLaunchHostFunc(s_, look, &seen));
  EXPECT_OK(cudaStreamSynchronize(t_));
  EXPECT_EQ(seen.value, -1) << "the wait was for another stream";
  EXPECT_OK(cudaStreamSynchronize(s_));
  EXPECT_EQ(seen.value, 1);
  EXPECT_EQ(seen.call, cudaErrorNotPermitted);
  const cudaGraph_t graph = capture([&] {
    set(host_, 7, 1, 0, s_);
    EXPECT_OK(cudaLaunchHostFunc(s_, look, &seen));
  });
  launch_once(graph);
  EXPECT_EQ(seen.value, 7);

  const cudaGraph_t outer = empty_graph();
  capture_to(*add_conditional(outer, create_condition(outer, 1), cudaGraphCondTypeIf, 1),
             [&] { EXPECT_OK(cudaLaunchHostFunc(s_, look, &seen)); });
  cudaGraphExec_t exec;
  EXPECT_CUDA(cudaErrorNotSupported, cudaGraphInstantiate(&exec, outer, 0));
  EXPECT_OK(cudaGraphDestroy(outer));
}

TEST_F(CudaTest, HostFunctionRunsWithoutAWait) {
  std::promise<void> promise;
  EXPECT_OK(cudaLaunchHostFunc(
      s_, [](void* p) { static_cast<std::promise<void>*>(p)->set_value(); }, &promise));
  promise.get_future().wait();
}

TEST_F(CudaOnCpu, EachThreadHasItsOwnStream) {
  set(x_, 5, kCount, 0, cudaStreamPerThread);
  std::thread([&] {
    EXPECT_OK(cudaStreamSynchronize(cudaStreamPerThread));
    EXPECT_OK(cudaStreamQuery(cudaStreamPerThread));
  }).join();
  EXPECT_CUDA(cudaErrorNotReady, cudaEventQuery(record_behind(cudaStreamPerThread))) << "that was another one";
  EXPECT_EQ(read(x_, nullptr), 5) << "the legacy stream waits for it";
  EXPECT_CUDA(cudaErrorInvalidResourceHandle, cudaStreamDestroy(cudaStreamPerThread));
}

TEST_F(CudaOnCpu, MemoryRunsOut) {
  void* data = &data;
  EXPECT_CUDA(cudaErrorMemoryAllocation, cudaMalloc(&data, std::size_t{1} << 50));
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_OK(cudaGetLastError()) << "that error does not stay";
}

TEST_F(CudaTest, PointersAreKnown) {
  cudaPointerAttributes attributes{};
  float local = 0;
  EXPECT_OK(cudaPointerGetAttributes(&attributes, x_ + 1));
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  EXPECT_OK(cudaPointerGetAttributes(&attributes, host_ + 1));
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  EXPECT_OK(cudaPointerGetAttributes(&attributes, &local));
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
}

using CudaOnCpuDeathTest = CudaOnCpu;

TEST_F(CudaOnCpuDeathTest, HostCodeCannotReadDeviceMemory) {
  EXPECT_DEATH({ [[maybe_unused]] volatile float value = *static_cast<volatile float*>(x_); },
               "host code accessed device memory, in allocation number");
}

TEST_F(CudaOnCpuDeathTest, LeakFailsTheProcess) {
  // The fixture's streams are left as well.
  EXPECT_EXIT(std::exit(0), ::testing::ExitedWithCode(70), "stream: 2 not destroyed");
}

TEST_F(CudaOnCpuDeathTest, LeakedStreamOrderedMemoryFailsTheProcess) {
  EXPECT_EXIT(
      {
        void* data;
        (void)cudaMallocAsync(&data, 12'345, s_);
        destroy_all();
        std::exit(0);
      },
      ::testing::ExitedWithCode(70), "block of device memory: 1 not destroyed.*12345 bytes");
}

TEST_F(CudaOnCpuDeathTest, HostFunctionCannotReadDeviceMemory) {
  EXPECT_DEATH(
      {
        (void)cudaLaunchHostFunc(
            s_, [](void* data) { *static_cast<volatile float*>(data) = 1; }, x_);
        (void)cudaStreamSynchronize(s_);
      },
      "host code accessed device memory");
}

TEST_F(CudaOnCpuDeathTest, UnreportedFailureFailsTheProcess) {
  EXPECT_EXIT(
      {
        set(x_, 2, kCount + 1, 0, s_);
        destroy_all();
        std::exit(0);
      },
      ::testing::ExitedWithCode(70), "queued work failed");
}

}  // namespace
}  // namespace cuda_on_cpu::test
