#include "runtime/cuda/graph.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "runtime/cuda/check.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/launch_times.h"
#include "runtime/cuda/stream.h"

namespace giro::cuda {
namespace {

// A graph with `graphs` as children, one after the other.
OwnedGraph sequence_of(const std::vector<cudaGraph_t>& graphs) {
  OwnedGraph row;
  check(cudaGraphCreate(row.out(), 0), "cudaGraphCreate");
  cudaGraphNode_t before = nullptr;
  for (const cudaGraph_t graph : graphs) {
    cudaGraphNode_t node = nullptr;
    check(cudaGraphAddChildGraphNode(&node, row, &before, before == nullptr ? 0 : 1, graph),
          "cudaGraphAddChildGraphNode");
    before = node;
  }
  return row;
}

// In nodes.
std::size_t longest_path(cudaGraph_t graph, std::size_t num_nodes) {
  std::size_t num_edges = 0;
  check(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &num_edges), "cudaGraphGetEdges");
  if (num_edges == 0) return num_nodes == 0 ? 0 : 1;
  std::vector<cudaGraphNode_t> from(num_edges), to(num_edges);
  std::vector<cudaGraphEdgeData> data(num_edges);
  check(cudaGraphGetEdges(graph, from.data(), to.data(), data.data(), &num_edges), "cudaGraphGetEdges");
  std::unordered_map<cudaGraphNode_t, std::size_t> edges_before, nodes_before;
  std::unordered_multimap<cudaGraphNode_t, cudaGraphNode_t> followers;
  for (std::size_t i = 0; i < num_edges; ++i) {
    followers.emplace(from[i], to[i]);
    edges_before[from[i]] += 0;
    edges_before[to[i]] += 1;
  }
  std::vector<cudaGraphNode_t> ready;
  for (const auto& [node, edges] : edges_before) {
    if (edges == 0) ready.push_back(node);
  }
  std::size_t longest = 0;
  while (!ready.empty()) {
    const cudaGraphNode_t node = ready.back();
    ready.pop_back();
    const std::size_t length = nodes_before[node] + 1;
    longest = std::max(longest, length);
    const auto [first, last] = followers.equal_range(node);
    for (auto follower = first; follower != last; ++follower) {
      nodes_before[follower->second] = std::max(nodes_before[follower->second], length);
      if (--edges_before[follower->second] == 0) ready.push_back(follower->second);
    }
  }
  return longest;
}

}  // namespace

CudaGraph::CudaGraph(Device device, OwnedGraph graph, std::size_t num_nodes, std::size_t longest_path)
    : GraphImpl(device), graph_(std::move(graph)), num_nodes_(num_nodes), longest_path_(longest_path) {
  repeated_executable(0);
}

void CudaGraph::replay(detail::StreamImpl& stream, std::int64_t times) {
  const cudaStream_t handle = cuda_stream(stream).handle();
  for (std::size_t number = executables_.size(); number-- > 0;) {
    const std::int64_t repetitions = std::int64_t{1} << number;
    for (; times >= repetitions; times -= repetitions) {
      const cudaGraphExec_t executable = repeated_executable(number);
      LaunchTimes::instance().time(stream, repetitions,
                                   [&] { check(cudaGraphLaunch(executable, handle), "cudaGraphLaunch"); });
    }
  }
}

void CudaGraph::prepare(std::int64_t times) {
  make_current(device);
  for (std::size_t number = 0; number < executables_.size() && std::int64_t{1} << number <= times; ++number)
    repeated_executable(number);
}

cudaGraphExec_t CudaGraph::repeated_executable(std::size_t number) {
  auto& executable = executables_[number];
  if (executable != nullptr) return executable;
  if (number == 0) {
    check(cudaGraphInstantiate(executable.out(), graph_, 0), "cudaGraphInstantiate");
  } else {
    const OwnedGraph repeated = sequence_of(std::vector<cudaGraph_t>(std::size_t{1} << number, graph_));
    check(cudaGraphInstantiate(executable.out(), repeated, 0), "cudaGraphInstantiate");
  }
  return executable;
}

std::shared_ptr<CudaGraph> recorded_graph(Device device, OwnedGraph graph) {
  std::size_t num_nodes = 0;
  check(cudaGraphGetNodes(graph, nullptr, &num_nodes), "cudaGraphGetNodes");
  const std::size_t longest = longest_path(graph, num_nodes);
  return std::make_shared<CudaGraph>(device, std::move(graph), num_nodes, longest);
}

std::shared_ptr<detail::GraphImpl> create_sequence(const std::vector<std::shared_ptr<detail::GraphImpl>>& parts) {
  make_current(parts.front()->device);
  std::vector<cudaGraph_t> graphs;
  std::size_t num_nodes = 0, longest_path = 0;
  for (const auto& part : parts) {
    graphs.push_back(static_cast<const CudaGraph&>(*part).graph());
    num_nodes += part->num_nodes();
    longest_path += part->longest_path();
  }
  return std::make_shared<CudaGraph>(parts.front()->device, sequence_of(graphs), num_nodes, longest_path);
}

}  // namespace giro::cuda
