#include "runtime/cuda/graph.h"

#include <utility>

#include "runtime/cuda/check.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/launch_times.h"
#include "runtime/cuda/stream.h"

namespace giro::cuda {
namespace {

// The graphs one after the other, as children of one.
OwnedGraph in_a_row(const std::vector<cudaGraph_t>& graphs) {
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

}  // namespace

CudaGraph::CudaGraph(Device device, OwnedGraph graph, std::size_t num_nodes)
    : GraphImpl(device), graph_(std::move(graph)), num_nodes_(num_nodes) {
  rung(0);
}

void CudaGraph::replay(detail::StreamImpl& stream, std::int64_t times) {
  const cudaStream_t handle = cuda_stream(stream).handle();
  for (std::size_t number = ladder_.size(); number-- > 0;) {
    const std::int64_t repetitions = std::int64_t{1} << number;
    for (; times >= repetitions; times -= repetitions) {
      const cudaGraphExec_t executable = rung(number);
      LaunchTimes::of_process().time(stream, repetitions,
                                     [&] { check(cudaGraphLaunch(executable, handle), "cudaGraphLaunch"); });
    }
  }
}

void CudaGraph::prepare(std::int64_t times) {
  make_current(device);
  for (std::size_t number = 0; number < ladder_.size() && std::int64_t{1} << number <= times; ++number) rung(number);
}

cudaGraphExec_t CudaGraph::rung(std::size_t number) {
  auto& executable = ladder_[number];
  if (executable != nullptr) return executable;
  if (number == 0) {
    check(cudaGraphInstantiate(executable.out(), graph_, 0), "cudaGraphInstantiate");
  } else {
    const OwnedGraph repeated = in_a_row(std::vector<cudaGraph_t>(std::size_t{1} << number, graph_));
    check(cudaGraphInstantiate(executable.out(), repeated, 0), "cudaGraphInstantiate");
  }
  return executable;
}

std::shared_ptr<CudaGraph> recorded_graph(Device device, OwnedGraph graph) {
  std::size_t num_nodes = 0;
  check(cudaGraphGetNodes(graph, nullptr, &num_nodes), "cudaGraphGetNodes");
  return std::make_shared<CudaGraph>(device, std::move(graph), num_nodes);
}

std::shared_ptr<detail::GraphImpl> create_sequence(const std::vector<std::shared_ptr<detail::GraphImpl>>& parts) {
  make_current(parts.front()->device);
  std::vector<cudaGraph_t> graphs;
  std::size_t num_nodes = 0;
  for (const auto& part : parts) {
    graphs.push_back(static_cast<const CudaGraph&>(*part).graph());
    num_nodes += part->num_nodes();
  }
  return std::make_shared<CudaGraph>(parts.front()->device, in_a_row(graphs), num_nodes);
}

}  // namespace giro::cuda
