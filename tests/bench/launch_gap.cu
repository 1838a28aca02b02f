#include "tests/bench/launch_gap.h"

#include <cuda_runtime.h>

namespace giro::bench {
namespace {

__global__ void nothing() {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
  cudaGridDependencySynchronize();
#endif
}

bool launch(cudaStream_t stream, bool programmatic) {
  cudaLaunchConfig_t config{};
  config.gridDim = 1;
  config.blockDim = 32;
  config.stream = stream;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = programmatic ? 1 : 0;
  return cudaLaunchKernelEx(&config, nothing) == cudaSuccess;
}

}  // namespace

struct LaunchGap::Chain {
  Chain() = default;
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;
  ~Chain() {
    if (executable != nullptr) cudaGraphExecDestroy(executable);
    for (const cudaEvent_t event : {begin, end}) {
      if (event != nullptr) cudaEventDestroy(event);
    }
    if (stream != nullptr) cudaStreamDestroy(stream);
  }

  bool make(int kernels, bool programmatic) {
    int major = 0;
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) != cudaSuccess) return false;
    if (programmatic && major < 9) return false;
    if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) return false;
    if (cudaEventCreate(&begin) != cudaSuccess || cudaEventCreate(&end) != cudaSuccess) return false;
    if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) != cudaSuccess) return false;
    bool launched = true;
    for (int i = 0; i < kernels && launched; ++i) launched = launch(stream, programmatic);
    cudaGraph_t graph = nullptr;
    launched = cudaStreamEndCapture(stream, &graph) == cudaSuccess && launched &&
               cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess;
    if (graph != nullptr) cudaGraphDestroy(graph);
    (void)cudaGetLastError();
    return launched && cudaGraphLaunch(executable, stream) == cudaSuccess &&
           cudaStreamSynchronize(stream) == cudaSuccess;
  }

  cudaStream_t stream = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
  cudaGraphExec_t executable = nullptr;
};

LaunchGap::LaunchGap(std::shared_ptr<const Chain> chain) : chain_(std::move(chain)) {}

std::optional<LaunchGap> LaunchGap::make(int kernels, bool programmatic) {
  auto chain = std::make_shared<Chain>();
  if (!chain->make(kernels, programmatic)) return std::nullopt;
  return LaunchGap(std::move(chain));
}

double LaunchGap::seconds() const {
  (void)cudaEventRecord(chain_->begin, chain_->stream);
  (void)cudaGraphLaunch(chain_->executable, chain_->stream);
  (void)cudaEventRecord(chain_->end, chain_->stream);
  (void)cudaEventSynchronize(chain_->end);
  float milliseconds = 0;
  (void)cudaEventElapsedTime(&milliseconds, chain_->begin, chain_->end);
  return 1e-3 * static_cast<double>(milliseconds);
}

}  // namespace giro::bench
