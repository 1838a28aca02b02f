#include "tests/cuda_on_cpu/libraries/cudnn_engine.h"

namespace cuda_on_cpu::dnn {

std::vector<cudnnBackendNumericalNote_t> notes(Engine engine, const graph::Problem& problem) {
  std::vector<cudnnBackendNumericalNote_t> all;
  // For 16-bit types, almost all of cuDNN 9.19's plans for an H200 use tensor cores.
  if (engine == Engine::tensor_core || problem.x.type != CUDNN_DATA_FLOAT) {
    all.push_back(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  }
  if (engine == Engine::nondeterministic) all.push_back(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
  if (engine == Engine::unready) all.push_back(CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP);
  return all;
}

// Larger for larger results, so that reusing another shape's size is noticed.
std::int64_t workspace_of(Engine engine, const graph::Problem& problem, std::int64_t knob) {
  return engine == Engine::plain ? 0 : 512 + static_cast<std::int64_t>(problem.out.c) * (4 + knob);
}

Decline failure_of(Engine engine) { return engine == Engine::workspace ? declined() : Decline::nothing; }

bool has_plan(Engine engine, const graph::Problem& problem) {
  const bool is_careless =
      engine == Engine::nondeterministic || (engine == Engine::tensor_core && problem.x.type == CUDNN_DATA_FLOAT);
  return engine != Engine::refused && (is_careless || declined() != Decline::everything);
}

std::vector<Configuration> suggestions(cudnnBackendHeurMode_t mode) {
  if (mode == CUDNN_HEUR_MODE_FALLBACK) return {{Engine::plain, 0}};
  return {{Engine::nondeterministic, 0}, {Engine::refused, 0},   {Engine::unready, 0}, {Engine::tensor_core, 0},
          {Engine::workspace, 1},        {Engine::workspace, 0}, {Engine::plain, 0}};
}

}  // namespace cuda_on_cpu::dnn
