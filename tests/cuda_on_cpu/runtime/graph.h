#pragma once

// Graphs. A node holds what a stream would have run, with copies of the arguments, or nested graphs. An executable
// graph is a copy. Each launch runs its nodes in a different order among those that the edges allow.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/cuda_on_cpu/runtime/stream.h"

struct CUgraphNode_st {
  std::string name;
  cudaGraphNodeType type = cudaGraphNodeTypeKernel;
  std::function<void()> work{};      // none: an empty node, or one that holds graphs
  std::vector<std::size_t> after{};  // numbers of earlier nodes
  bool touches_pageable_memory = false;
  std::string launch{};     // a kernel's blocks, threads and shared memory, for cuda_on_cpu_watch_captures
  bool collective = false;  // other processes take part
  std::vector<std::shared_ptr<CUgraph_st>> graphs{};  // the child graph, or the conditional node's bodies
  cudaGraphConditionalHandle condition = 0;
  cudaGraphConditionalNodeType condition_type{};
  std::vector<cudaGraph_t> bodies{};  // `graphs` of a conditional node, for the program to fill in

  // Set by CUgraph_st::add.
  CUgraph_st* graph = nullptr;
  std::size_t number = 0;
  std::shared_ptr<const std::vector<bool>> preceding{};  // for each earlier node: whether it must run before this one
};

struct CUgraph_st {
  std::deque<CUgraphNode_st> nodes;
  const CUgraph_st* parent = nullptr;  // the graph with the node that holds this one
  std::vector<cudaGraphConditionalHandle> conditions;
  std::weak_ptr<void> instance;  // CUgraphExec_st::existence of the latest instance

  CUgraphNode_st& add(CUgraphNode_st node);
  std::unique_ptr<CUgraph_st> clone() const;

  // Runs each node as a separate operation. `launch` is the place of the graph itself.
  void run(const cuda_on_cpu::Place& launch) const;

  // For every node: whether it is one of these or must run before one of them.
  std::vector<bool> at_or_before(const std::vector<std::size_t>& some) const;
};

struct CUgraphExec_st {
  std::shared_ptr<const CUgraph_st> program;
  cuda_on_cpu::Point last_launch{};  // launches of the same graph run one after the other
  std::shared_ptr<void> existence = std::make_shared<char>();
};

namespace cuda_on_cpu {

cudaGraph_t create_graph();
void destroy(cudaGraph_t graph);

// The graph of the handle: one that the program owns, or one within a node. Throws
// CudaError(cudaErrorInvalidResourceHandle).
CUgraph_st& resolve(cudaGraph_t graph, const char* call);

// Makes a graph within a node a handle that the program can use.
cudaGraph_t make_handle(const std::shared_ptr<CUgraph_st>& nested);

// The numbers of the graph's nodes that a call names as dependencies. Throws CudaError.
std::vector<std::size_t> numbers(const CUgraph_st& graph, const cudaGraphNode_t* nodes, const cudaGraphEdgeData* edges,
                                 std::size_t count, const char* call);

}  // namespace cuda_on_cpu
