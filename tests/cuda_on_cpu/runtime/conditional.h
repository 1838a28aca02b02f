#pragma once

// Conditional nodes: IF, WHILE and SWITCH. A handle stands for a variable that kernels of the graph set and
// one node reads, to choose which of its bodies runs, or whether to go on.

#include <cuda_runtime_api.h>

#include <vector>

#include "tests/cuda_on_cpu/runtime/order.h"

struct CUgraph_st;
struct CUgraphNode_st;

namespace cuda_on_cpu {

bool has_conditionals(const CUgraph_st& graph);

// A new node with empty bodies, to be added to this graph. Throws CudaError(cudaErrorInvalidValue).
CUgraphNode_st conditional_node(const CUgraph_st& graph, const cudaConditionalNodeParams& wanted, const char* call);

// What CUDA checks when a graph is instantiated: what its bodies hold, that each handle has its node, that no
// other instance exists. Throws CudaError.
void check_conditionals(const CUgraph_st& graph, const char* call);

void run_conditional(const CUgraphNode_st& node, Place place);

// While a launch runs, kernels can set its graph's handles; they start with their default values, or with
// none.
class ConditionsInForce {
 public:
  explicit ConditionsInForce(const CUgraph_st& program);
  ~ConditionsInForce();
  ConditionsInForce(const ConditionsInForce&) = delete;
  ConditionsInForce& operator=(const ConditionsInForce&) = delete;

 private:
  std::vector<cudaGraphConditionalHandle> handles_;
};

}  // namespace cuda_on_cpu
