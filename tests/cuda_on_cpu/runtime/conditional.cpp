#include "tests/cuda_on_cpu/runtime/conditional.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "tests/cuda_on_cpu/engine/engine.h"
#include "tests/cuda_on_cpu/engine/memory.h"
#include "tests/cuda_on_cpu/runtime/error.h"
#include "tests/cuda_on_cpu/runtime/graph.h"

namespace cuda_on_cpu {
namespace {

constexpr std::uint64_t kMaxRounds = 1'000'000;

struct Condition {
  const CUgraph_st* graph;
  std::optional<unsigned int> at_launch = {};

  bool in_force = false;
  std::optional<unsigned int> value = {};
  giro::simt::Operation setter = 0, reader = 0;  // the last operations that set and read it
};

// Handle i + 1 stands for condition i. No call destroys one.
std::deque<Condition>& conditions() {
  static auto* const conditions = new std::deque<Condition>;
  return *conditions;
}

Condition* find(cudaGraphConditionalHandle handle) {
  return handle > 0 && handle <= conditions().size() ? &conditions()[handle - 1] : nullptr;
}

bool races_with(giro::simt::Operation earlier) {
  const auto& happens_before = giro::simt::memory().happens_before;
  return earlier != 0 && happens_before && !happens_before(earlier, current_operation());
}

std::string set(cudaGraphConditionalHandle handle, unsigned int value) {
  Condition* const condition = find(handle);
  if (condition == nullptr) return fmt::format("{} is not a conditional handle", handle);
  if (!condition->in_force) return "the handle's graph is not running";
  if (races_with(condition->setter)) return "race: another kernel that is not ordered before this one has set it";
  if (races_with(condition->reader)) return "race: a node that is not ordered before this kernel has read it";
  condition->value = value;
  condition->setter = current_operation();
  return {};
}

unsigned int value_of(cudaGraphConditionalHandle handle) {
  Condition& condition = *find(handle);
  if (!condition.value) {
    fail(cudaErrorLaunchFailure, "the condition has no value: no default at launch, and no kernel has set it");
  }
  if (races_with(condition.setter)) {
    fail(cudaErrorLaunchFailure, "race: the kernel that sets the condition is not ordered before the node");
  }
  condition.reader = current_operation();
  return *condition.value;
}

// Visits the graph and the graphs within its nodes.
void for_each_graph(const CUgraph_st& graph, const std::function<void(const CUgraph_st&)>& body) {
  body(graph);
  for (const CUgraphNode_st& node : graph.nodes) {
    for (const auto& nested : node.graphs) for_each_graph(*nested, body);
  }
}

bool has_node(cudaGraphConditionalHandle handle) {
  bool found = false;
  for_each_graph(*find(handle)->graph, [&](const CUgraph_st& part) {
    for (const CUgraphNode_st& node : part.nodes) found = found || node.condition == handle;
  });
  return found;
}

// The body to run for this value, or null if none does.
const CUgraph_st* body_for(const CUgraphNode_st& node, unsigned int value) {
  std::size_t body = value;
  if (node.condition_type != cudaGraphCondTypeSwitch) body = value != 0 ? 0 : 1;
  return body < node.graphs.size() ? node.graphs[body].get() : nullptr;
}

const char* forbidden_in_body(const CUgraphNode_st& node) {
  // Unless it is 0, NCCL adds event and host nodes to what it captures.
  const char* const mixing = std::getenv("NCCL_GRAPH_MIXING_SUPPORT");
  if (node.collective && !(mixing != nullptr && std::string_view(mixing) == "0")) {
    return "NCCL's work, unless NCCL_GRAPH_MIXING_SUPPORT is 0,";
  }
  switch (node.type) {
    case cudaGraphNodeTypeKernel:
    case cudaGraphNodeTypeEmpty:
    case cudaGraphNodeTypeMemcpy:
    case cudaGraphNodeTypeMemset:
    case cudaGraphNodeTypeGraph:
    case cudaGraphNodeTypeConditional:
      return node.touches_pageable_memory ? "a copy from or to pageable memory" : nullptr;
    case cudaGraphNodeTypeHost:
      return "a host function";
    case cudaGraphNodeTypeMemAlloc:
    case cudaGraphNodeTypeMemFree:
      return "an allocation or a free";
    default:
      return "such a node";
  }
}

void check_body(const CUgraph_st& body, const char* call) {
  for (const CUgraphNode_st& node : body.nodes) {
    if (const char* what = forbidden_in_body(node)) {
      fail(cudaErrorNotSupported, fmt::format("{}: node {} of a conditional node's body, {}: {} cannot be in one", call,
                                              node.number, node.name, what));
    }
    for (const auto& nested : node.graphs) check_body(*nested, call);
  }
}

}  // namespace

bool has_conditionals(const CUgraph_st& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const CUgraphNode_st& node) {
    return node.type == cudaGraphNodeTypeConditional ||
           std::any_of(node.graphs.begin(), node.graphs.end(),
                       [](const auto& nested) { return has_conditionals(*nested); });
  });
}

CUgraphNode_st conditional_node(const CUgraph_st& graph, const cudaConditionalNodeParams& wanted, const char* call) {
  const auto reject = [&](const char* why) { fail(cudaErrorInvalidValue, fmt::format("{}: {}", call, why)); };
  Condition* const condition = find(wanted.handle);
  if (condition == nullptr) reject("no such conditional handle");
  const CUgraph_st* holder = &graph;
  while (holder != nullptr && holder != condition->graph) holder = holder->parent;
  if (holder == nullptr) reject("the conditional handle was created for another graph");
  if (has_node(wanted.handle)) reject("the conditional handle has a node already");
  const char* name = nullptr;
  switch (wanted.type) {
    case cudaGraphCondTypeIf:
      if (wanted.size != 1 && wanted.size != 2) reject("an IF node has one body or two");
      name = "if";
      break;
    case cudaGraphCondTypeWhile:
      if (wanted.size != 1) reject("a WHILE node has one body");
      name = "while";
      break;
    case cudaGraphCondTypeSwitch:
      if (wanted.size == 0) reject("a SWITCH node has at least one body");
      name = "switch";
      break;
    default:
      reject("no such type of conditional node");
  }
  CUgraphNode_st node{.name = name, .type = cudaGraphNodeTypeConditional};
  node.condition = wanted.handle;
  node.condition_type = wanted.type;
  for (unsigned int body = 0; body < wanted.size; ++body) node.graphs.push_back(std::make_shared<CUgraph_st>());
  return node;
}

void check_conditionals(const CUgraph_st& graph, const char* call) {
  for (const CUgraph_st* inner = &graph; inner->parent != nullptr; inner = inner->parent) {
    const auto& nodes = inner->parent->nodes;
    const bool is_body = std::any_of(nodes.begin(), nodes.end(), [&](const CUgraphNode_st& node) {
      return node.type == cudaGraphNodeTypeConditional &&
             std::any_of(node.graphs.begin(), node.graphs.end(), [&](const auto& body) { return body.get() == inner; });
    });
    if (is_body) {
      fail(cudaErrorInvalidValue, fmt::format("{}: the graph is the body of a conditional node, which runs it", call));
    }
  }
  for_each_graph(graph, [&](const CUgraph_st& part) {
    for (const cudaGraphConditionalHandle handle : part.conditions) {
      if (!has_node(handle)) fail(cudaErrorInvalidValue, fmt::format("{}: a conditional handle without a node", call));
    }
    for (const CUgraphNode_st& node : part.nodes) {
      if (node.type != cudaGraphNodeTypeConditional) continue;
      for (const auto& body : node.graphs) check_body(*body, call);
    }
  });
  if (has_conditionals(graph) && !graph.instance.expired()) {
    fail(cudaErrorInvalidValue, fmt::format("{}: a graph with conditional nodes has one instance at a time, "
                                            "and the last one was not destroyed",
                                            call));
  }
}

void run_conditional(const CUgraphNode_st& node, Place place) {
  for (std::uint64_t round = 0; round < kMaxRounds; ++round) {
    place.path.back().round = round;
    const CUgraph_st* body = nullptr;
    run_operation(place, [&] { body = body_for(node, value_of(node.condition)); });
    if (body == nullptr) return;
    body->run(place);
    if (node.condition_type != cudaGraphCondTypeWhile) return;
  }
  fail(cudaErrorLaunchTimeout, fmt::format("the body ran {} times and its condition still holds", kMaxRounds));
}

ConditionsInForce::ConditionsInForce(const CUgraph_st& program) {
  for_each_graph(program, [&](const CUgraph_st& part) {
    handles_.insert(handles_.end(), part.conditions.begin(), part.conditions.end());
  });
  for (const cudaGraphConditionalHandle handle : handles_) {
    Condition& condition = *find(handle);
    condition.in_force = true;
    condition.value = condition.at_launch;
    condition.setter = condition.reader = 0;
  }
}

ConditionsInForce::~ConditionsInForce() {
  for (const cudaGraphConditionalHandle handle : handles_) find(handle)->in_force = false;
}

}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

extern "C" {

cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle* handle, cudaGraph_t graph_handle,
                                             unsigned int at_launch, unsigned int flags) {
  return api([&] {
    CUgraph_st& graph = resolve(graph_handle, "cudaGraphConditionalHandleCreate");
    if (handle == nullptr || (flags != 0 && flags != cudaGraphCondAssignDefault)) {
      fail(cudaErrorInvalidValue, "cudaGraphConditionalHandleCreate: unknown flags, or a null pointer for the handle");
    }
    giro::simt::on_set_conditional(set);
    Condition& condition = conditions().emplace_back(Condition{.graph = &graph});
    if (flags == cudaGraphCondAssignDefault) condition.at_launch = at_launch;
    *handle = conditions().size();
    graph.conditions.push_back(*handle);
  });
}
}
