#pragma once

// The emulation's engines. As with the real cuDNN's, a careful caller must skip some of them.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/cuda_on_cpu/libraries/cudnn_graph.h"
#include "tests/cuda_on_cpu/libraries/decline.h"

namespace cuda_on_cpu::dnn {

enum class Engine : std::int64_t {
  plain,
  workspace,         // also true f32, but needs a workspace
  tensor_core,       // rounds f32 operands to TF32
  nondeterministic,  // the last bits differ at every run
  refused,           // has no plan
  unready,           // has a plan, which fails to run
  count
};

std::vector<cudnnBackendNumericalNote_t> notes(Engine engine, const graph::Problem& problem);

// The largest value of each engine's one knob.
inline constexpr std::int64_t kLargestKnob = 1;

std::int64_t workspace_of(Engine engine, const graph::Problem& problem, std::int64_t knob);

// How its plans fail, if they do. See decline.h.
Decline failure_of(Engine engine);

// Whether the engine has a plan for the problem. Decline::everything takes away those that a careful caller could use.
bool has_plan(Engine engine, const graph::Problem& problem);

struct Configuration {
  Engine engine;
  std::int64_t knob;
};
// In the order in which cuDNN would suggest them.
std::vector<Configuration> suggestions(cudnnBackendHeurMode_t mode);

}  // namespace cuda_on_cpu::dnn
