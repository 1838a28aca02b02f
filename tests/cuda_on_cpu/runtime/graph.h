#pragma once

// Graphs. One holds the nodes that a capture has added; an executable one holds copies of them, and runs them
// in a different one of the orders that its edges allow at every launch.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/cuda_on_cpu/runtime/stream.h"

// A node's work is whatever a stream would have run: its arguments are copied into it. A conditional node
// would be one whose work runs the program of its body.
struct CUgraphNode_st {
  std::string name;
  std::function<void()> work;
  std::vector<std::size_t> after;  // numbers of earlier nodes
};

struct CUgraph_st {
  std::deque<CUgraphNode_st> nodes;

  // The new node's number.
  std::size_t add(std::string name, std::function<void()> work, std::vector<std::size_t> after);
  // Of every node, whether it is one of these or must run before one of them.
  std::vector<bool> at_or_before(const std::vector<std::size_t>& some) const;
};

namespace cuda_on_cpu {

class Program {
 public:
  explicit Program(const CUgraph_st& graph);

  // Each node is an operation of its own, at `launch`.
  void run(const Place& launch) const;
  // As part of the operation that is running.
  void run_as_one() const;

 private:
  template <class RunNode>
  void run_in_some_order(RunNode&& run_node) const;

  std::vector<CUgraphNode_st> nodes_;
  std::vector<std::shared_ptr<const std::vector<bool>>> preceding_;
};

cudaGraph_t create_graph();
void destroy(cudaGraph_t graph);

}  // namespace cuda_on_cpu

struct CUgraphExec_st {
  std::shared_ptr<const cuda_on_cpu::Program> program;
  cuda_on_cpu::Point last_launch;  // launches of the same graph come one after the other
};
