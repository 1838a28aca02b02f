#include "tests/cuda_on_cpu/runtime/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tests/cuda_on_cpu/runtime/capture.h"
#include "tests/cuda_on_cpu/runtime/error.h"
#include "tests/cuda_on_cpu/runtime/handles.h"
#include "tests/cuda_on_cpu/runtime/seed.h"

std::size_t CUgraph_st::add(std::string name, std::function<void()> work, std::vector<std::size_t> after) {
  nodes.push_back({std::move(name), std::move(work), std::move(after)});
  return nodes.size() - 1;
}

std::vector<bool> CUgraph_st::at_or_before(const std::vector<std::size_t>& some) const {
  std::vector<bool> found(nodes.size());
  for (const std::size_t node : some) found[node] = true;
  // Edges lead from lower to higher numbers.
  for (std::size_t node = nodes.size(); node-- > 0;) {
    if (!found[node]) continue;
    for (const std::size_t earlier : nodes[node].after) found[earlier] = true;
  }
  return found;
}

namespace cuda_on_cpu {
namespace {
constexpr const char* kGraph = "graph";
constexpr const char* kGraphExec = "executable graph";
}  // namespace

Program::Program(const CUgraph_st& graph) : nodes_(graph.nodes.begin(), graph.nodes.end()) {
  for (const CUgraphNode_st& node : nodes_) {
    preceding_.push_back(std::make_shared<const std::vector<bool>>(graph.at_or_before(node.after)));
  }
}

template <class RunNode>
void Program::run_in_some_order(RunNode&& run_node) const {
  std::vector<std::size_t> waits_for(nodes_.size()), ready;
  std::vector<std::vector<std::size_t>> followers(nodes_.size());
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    waits_for[node] = nodes_[node].after.size();
    if (waits_for[node] == 0) ready.push_back(node);
    for (const std::size_t earlier : nodes_[node].after) followers[earlier].push_back(node);
  }
  while (!ready.empty()) {
    std::swap(ready[random_number() % ready.size()], ready.back());
    const std::size_t node = ready.back();
    ready.pop_back();
    try {
      run_node(node);
    } catch (const CudaError& error) {
      fail(error.code, fmt::format("node {}, {}: {}", node, nodes_[node].name, error.why));
    }
    for (const std::size_t follower : followers[node]) {
      if (--waits_for[follower] == 0) ready.push_back(follower);
    }
  }
}

void Program::run(const Place& launch) const {
  run_in_some_order([&](std::size_t node) {
    Place place = launch;
    place.preceding_nodes = preceding_[node];
    place.node = node;
    run_operation(place, nodes_[node].work);
  });
}

void Program::run_as_one() const {
  run_in_some_order([&](std::size_t node) { nodes_[node].work(); });
}

cudaGraph_t create_graph() {
  const cudaGraph_t graph = new CUgraph_st;
  add_handle(kGraph, graph);
  return graph;
}

void destroy(cudaGraph_t graph) {
  expect_alive(kGraph, graph, "cudaGraphDestroy");
  remove_handle(kGraph, graph);
  delete graph;
}

}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

extern "C" {

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return api_of_release([&] { destroy(graph); });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  return api([&] {
    expect_alive(kGraph, graph, "cudaGraphGetNodes");
    if (count == nullptr) fail(cudaErrorInvalidValue, "cudaGraphGetNodes: nowhere to store the count");
    if (nodes == nullptr) {
      *count = graph->nodes.size();
      return;
    }
    // CUDA fills what is left of a longer array with null, and then says how many nodes there are.
    for (std::size_t i = 0; i < *count; ++i) nodes[i] = i < graph->nodes.size() ? &graph->nodes[i] : nullptr;
    *count = std::min(*count, graph->nodes.size());
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  return api([&] {
    expect_alive(kGraph, graph, "cudaGraphInstantiate");
    if (exec == nullptr)
      fail(cudaErrorInvalidValue, "cudaGraphInstantiate: nowhere to store the executable graph");
    *exec = new CUgraphExec_st{std::make_shared<const Program>(*graph), {}};
    add_handle(kGraphExec, *exec);
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return api_of_release([&] {
    expect_alive(kGraphExec, exec, "cudaGraphExecDestroy");
    remove_handle(kGraphExec, exec);
    delete exec;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t handle) {
  return api([&] {
    expect_alive(kGraphExec, exec, "cudaGraphLaunch");
    CUstream_st& stream = resolve(handle, "cudaGraphLaunch");
    if (is_legacy(stream)) forbid_legacy_during_capture("cudaGraphLaunch");
    const auto program = exec->program;
    if (stream.capture) return capture_node(stream, "graph", [program] { program->run_as_one(); });
    enqueue(stream, "graph", [program](const Place& launch) { program->run(launch); }, {exec->last_launch});
    exec->last_launch = stream.queue->end();
  });
}
}
