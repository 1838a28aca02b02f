#pragma once

// Conditional nodes: IF, WHILE and SWITCH. A handle stands for a variable that kernels of the graph set. One node reads
// it to choose which of its bodies runs, or whether to repeat its body.

#include <cuda_runtime_api.h>

#include <vector>

#include "tests/cuda_on_cpu/runtime/order.h"

struct CUgraph_st;
struct CUgraphNode_st;

namespace cuda_on_cpu {

bool has_conditionals(const CUgraph_st& graph);

// Returns a new node with empty bodies, to be added to this graph. Throws CudaError(cudaErrorInvalidValue).
CUgraphNode_st conditional_node(const CUgraph_st& graph, const cudaConditionalNodeParams& wanted, const char* call);

// The checks that CUDA makes when a graph is instantiated: the contents of bodies, that each handle has its node, and
// that no other instance exists. Throws CudaError.
void check_conditionals(const CUgraph_st& graph, const char* call);

void run_conditional(const CUgraphNode_st& node, Place place);

// While a launch runs, kernels can set the handles of its graph. The handles start with their default values, or
// without a value.
class ConditionsInForce {
 public:
  explicit ConditionsInForce(const CUgraph_st& program);
  ~ConditionsInForce();
  ConditionsInForce& operator=(ConditionsInForce&&) = delete;

 private:
  std::vector<cudaGraphConditionalHandle> handles_;
};

}  // namespace cuda_on_cpu
