#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <memory>

#include "runtime/cuda/handle.h"
#include "runtime/program/graph_impl.h"

namespace giro::cuda {

using OwnedGraph = Handle<cudaGraph_t, cudaGraphDestroy>;

// A CUDA graph. Replays in a row are launched in powers of two.
class CudaGraph final : public detail::GraphImpl {
 public:
  CudaGraph(Device device, OwnedGraph graph, std::size_t num_nodes, std::size_t longest_path);

  void replay(detail::StreamImpl& stream, std::int64_t times) override;
  void prepare(std::int64_t times) override;
  std::size_t num_nodes() const override { return num_nodes_; }
  std::size_t longest_path() const override { return longest_path_; }

  cudaGraph_t graph() const noexcept { return graph_; }

 private:
  cudaGraphExec_t repeated_executable(std::size_t number);

  OwnedGraph graph_;
  std::array<Handle<cudaGraphExec_t, cudaGraphExecDestroy>, 8> executables_;  // of 2^i repetitions; null until made
  std::size_t num_nodes_, longest_path_;
};

std::shared_ptr<CudaGraph> recorded_graph(Device device, OwnedGraph graph);

}  // namespace giro::cuda
