#include "tests/cuda_on_cpu/runtime/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tests/cuda_on_cpu/runtime/capture.h"
#include "tests/cuda_on_cpu/runtime/conditional.h"
#include "tests/cuda_on_cpu/runtime/error.h"
#include "tests/cuda_on_cpu/runtime/handles.h"
#include "tests/cuda_on_cpu/runtime/seed.h"

using namespace cuda_on_cpu;

namespace {

constexpr const char* kGraph = "graph";
constexpr const char* kNestedGraph = "graph within a node";
constexpr const char* kGraphExec = "executable graph";

void run_node(const CUgraphNode_st& node, const Place& place) {
  if (node.work) return run_operation(place, node.work);
  if (node.type == cudaGraphNodeTypeConditional) return run_conditional(node, place);
  for (const auto& graph : node.graphs) graph->run(place);
}

bool is_collective(const CUgraphNode_st& node) {
  return node.collective || std::any_of(node.graphs.begin(), node.graphs.end(), [](const auto& graph) {
           return std::any_of(graph->nodes.begin(), graph->nodes.end(),
                              [](const CUgraphNode_st& inner) { return is_collective(inner); });
         });
}

// Removes the handles of the graphs within this graph's nodes.
void close_account(const CUgraph_st& graph) {
  for (const CUgraphNode_st& node : graph.nodes) {
    for (const auto& nested : node.graphs) {
      remove_handle(kNestedGraph, nested.get());
      close_account(*nested);
    }
  }
}

// The body of the calls that add a node.
CUgraphNode_st& add_node(cudaGraphNode_t* out, cudaGraph_t graph, const cudaGraphNode_t* after,
                         const cudaGraphEdgeData* edges, std::size_t count, CUgraphNode_st node, const char* call) {
  CUgraph_st& into = resolve(graph, call);
  if (out == nullptr) fail(cudaErrorInvalidValue, fmt::format("{}: a null pointer for the node", call));
  node.after = numbers(into, after, edges, count, call);
  *out = &into.add(std::move(node));
  return **out;
}

CUgraphNode_st child_node(const CUgraph_st& child, const char* call) {
  if (has_conditionals(child)) {
    fail(cudaErrorInvalidValue, fmt::format("{}: a graph with conditional nodes cannot be a child", call));
  }
  CUgraphNode_st node{.name = "child graph", .type = cudaGraphNodeTypeGraph};
  node.graphs.push_back(child.clone());
  return node;
}

void instantiate(cudaGraphExec_t* exec, cudaGraph_t handle, const char* call) {
  CUgraph_st& graph = resolve(handle, call);
  if (exec == nullptr) fail(cudaErrorInvalidValue, fmt::format("{}: a null pointer for the executable graph", call));
  check_conditionals(graph, call);
  *exec = new CUgraphExec_st{graph.clone()};
  graph.instance = (*exec)->existence;
  add_handle(kGraphExec, *exec);
}

}  // namespace

CUgraphNode_st& CUgraph_st::add(CUgraphNode_st node) {
  node.graph = this;
  node.number = nodes.size();
  for (const auto& graph : node.graphs) {
    graph->parent = this;
  }
  std::vector<bool> preceding = at_or_before(node.after);
  node.preceding = std::make_shared<const std::vector<bool>>(std::move(preceding));
  return nodes.emplace_back(std::move(node));
}

std::unique_ptr<CUgraph_st> CUgraph_st::clone() const {
  auto copy = std::make_unique<CUgraph_st>();
  copy->conditions = conditions;
  for (const CUgraphNode_st& node : nodes) {
    CUgraphNode_st& added = copy->nodes.emplace_back(node);
    added.graph = copy.get();
    added.bodies.clear();
    for (auto& nested : added.graphs) {
      nested = nested->clone();
      nested->parent = copy.get();
    }
  }
  return copy;
}

std::vector<bool> CUgraph_st::at_or_before(const std::vector<std::size_t>& some) const {
  std::vector<bool> found(nodes.size());
  for (const std::size_t node : some) {
    found[node] = true;
    const std::vector<bool>& preceding = *nodes[node].preceding;
    for (std::size_t earlier = 0; earlier < preceding.size(); ++earlier) {
      if (preceding[earlier]) found[earlier] = true;
    }
  }
  return found;
}

void CUgraph_st::run(const Place& launch) const {
  std::vector<std::size_t> waits_for(nodes.size()), ready;
  std::vector<std::vector<std::size_t>> followers(nodes.size());
  const CUgraphNode_st* last_collective = nullptr;  // all processes run collectives in the order of their capture
  for (const CUgraphNode_st& node : nodes) {
    std::vector<std::size_t> after = node.after;
    if (is_collective(node)) {
      if (last_collective != nullptr) after.push_back(last_collective->number);
      last_collective = &node;
    }
    waits_for[node.number] = after.size();
    if (after.empty()) ready.push_back(node.number);
    for (const std::size_t earlier : after) followers[earlier].push_back(node.number);
  }
  while (!ready.empty()) {
    std::swap(ready[random_number() % ready.size()], ready.back());
    const CUgraphNode_st& node = nodes[ready.back()];
    ready.pop_back();
    Place place = launch;
    place.path.push_back({node.number, node.preceding});
    try {
      run_node(node, place);
    } catch (const CudaError& error) {
      fail(error.code, fmt::format("node {}, {}: {}", node.number, node.name, error.why));
    }
    for (const std::size_t follower : followers[node.number]) {
      if (--waits_for[follower] == 0) ready.push_back(follower);
    }
  }
}

namespace cuda_on_cpu {

CUgraph_st& resolve(cudaGraph_t graph, const char* call) {
  if (!is_alive(kNestedGraph, graph)) expect_alive(kGraph, graph, call);
  return *graph;
}

cudaGraph_t make_handle(const std::shared_ptr<CUgraph_st>& nested) {
  if (!is_alive(kNestedGraph, nested.get())) add_handle(kNestedGraph, nested.get());
  return nested.get();
}

std::vector<std::size_t> numbers(const CUgraph_st& graph, const cudaGraphNode_t* nodes, const cudaGraphEdgeData* edges,
                                 std::size_t count, const char* call) {
  std::vector<std::size_t> found;
  if (count > 0 && nodes == nullptr) fail(cudaErrorInvalidValue, fmt::format("{}: no dependencies given", call));
  for (std::size_t i = 0; i < count; ++i) {
    const auto at = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                 [&](const CUgraphNode_st& own) { return &own == nodes[i]; });
    if (at == graph.nodes.end()) {
      fail(cudaErrorInvalidValue, fmt::format("{}: a dependency is not a node of the graph", call));
    }
    if (std::find(found.begin(), found.end(), at->number) != found.end()) {
      fail(cudaErrorInvalidValue, fmt::format("{}: a dependency is given twice", call));
    }
    if (edges != nullptr && edges[i].type != cudaGraphDependencyTypeDefault) {
      fail(cudaErrorNotSupported, fmt::format("{}: programmatic dependencies are not emulated", call));
    }
    found.push_back(at->number);
  }
  return found;
}

cudaGraph_t create_graph() {
  const cudaGraph_t graph = new CUgraph_st;
  add_handle(kGraph, graph);
  return graph;
}

void destroy(cudaGraph_t graph) {
  if (is_alive(kNestedGraph, graph)) {
    fail(cudaErrorInvalidValue, "cudaGraphDestroy: the graph belongs to the node that holds it");
  }
  expect_alive(kGraph, graph, "cudaGraphDestroy");
  if (is_captured_into(*graph))
    fail(cudaErrorInvalidValue, "cudaGraphDestroy: a capture into the graph is in progress");
  remove_handle(kGraph, graph);
  close_account(*graph);
  delete graph;
}

}  // namespace cuda_on_cpu

extern "C" {

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned int flags) {
  return api([&] {
    if (graph == nullptr || flags != 0) {
      fail(cudaErrorInvalidValue, "cudaGraphCreate: flags that are not 0, or a null pointer for the graph");
    }
    *graph = create_graph();
  });
}

cudaError_t cudaGraphClone(cudaGraph_t* clone, cudaGraph_t handle) {
  return api([&] {
    const CUgraph_st& graph = resolve(handle, "cudaGraphClone");
    if (clone == nullptr) fail(cudaErrorInvalidValue, "cudaGraphClone: a null pointer for the graph");
    if (has_conditionals(graph)) {
      fail(cudaErrorInvalidValue, "cudaGraphClone: a graph with conditional nodes cannot be cloned");
    }
    *clone = graph.clone().release();
    add_handle(kGraph, *clone);
  });
}

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                                  std::size_t count) {
  return api([&] {
    add_node(node, graph, after, nullptr, count, {.name = "empty", .type = cudaGraphNodeTypeEmpty},
             "cudaGraphAddEmptyNode");
  });
}

cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                                       std::size_t count, cudaGraph_t child) {
  return api([&] {
    const char* const call = "cudaGraphAddChildGraphNode";
    add_node(node, graph, after, nullptr, count, child_node(resolve(child, call), call), call);
  });
}

cudaError_t cudaGraphAddNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                             const cudaGraphEdgeData* edges, std::size_t count, cudaGraphNodeParams* parameters) {
  return api([&] {
    const char* const call = "cudaGraphAddNode";
    if (parameters == nullptr || parameters->reserved2 != 0) {
      fail(cudaErrorInvalidValue, fmt::format("{}: no parameters, or a reserved field is not 0", call));
    }
    switch (parameters->type) {
      case cudaGraphNodeTypeEmpty:
        add_node(node, graph, after, edges, count, {.name = "empty", .type = cudaGraphNodeTypeEmpty}, call);
        return;
      case cudaGraphNodeTypeGraph:
        if (parameters->graph.ownership != cudaGraphChildGraphOwnershipClone) {
          fail(cudaErrorNotSupported, fmt::format("{}: moving a child graph is not emulated", call));
        }
        add_node(node, graph, after, edges, count, child_node(resolve(parameters->graph.graph, call), call), call);
        return;
      case cudaGraphNodeTypeConditional: {
        cudaConditionalNodeParams& wanted = parameters->conditional;
        CUgraphNode_st& added =
            add_node(node, graph, after, edges, count, conditional_node(resolve(graph, call), wanted, call), call);
        for (const auto& body : added.graphs) added.bodies.push_back(make_handle(body));
        wanted.phGraph_out = added.bodies.data();
        return;
      }
      default:
        fail(cudaErrorNotSupported, fmt::format("{}: nodes of type {} are emulated only by capture", call,
                                                static_cast<int>(parameters->type)));
    }
  });
}

cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t* graph) {
  return api([&] {
    if (node == nullptr || graph == nullptr || node->type != cudaGraphNodeTypeGraph) {
      fail(cudaErrorInvalidValue,
           "cudaGraphChildGraphNodeGetGraph: no child graph node, or a null pointer for its graph");
    }
    *graph = make_handle(node->graphs.front());
  });
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  return api([&] {
    if (node == nullptr || type == nullptr) {
      fail(cudaErrorInvalidValue, "cudaGraphNodeGetType: no node, or a null pointer for its type");
    }
    *type = node->type;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return api_of_release([&] { destroy(graph); });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t handle, cudaGraphNode_t* nodes, std::size_t* count) {
  return api([&] {
    CUgraph_st& graph = resolve(handle, "cudaGraphGetNodes");
    if (count == nullptr) fail(cudaErrorInvalidValue, "cudaGraphGetNodes: a null pointer for the count");
    if (nodes == nullptr) {
      *count = graph.nodes.size();
      return;
    }
    // CUDA fills the rest of a longer array with null and then returns the number of nodes.
    for (std::size_t i = 0; i < *count; ++i) nodes[i] = i < graph.nodes.size() ? &graph.nodes[i] : nullptr;
    *count = std::min(*count, graph.nodes.size());
  });
}

cudaError_t cudaGraphGetEdges(cudaGraph_t handle, cudaGraphNode_t* from, cudaGraphNode_t* to, cudaGraphEdgeData* data,
                              std::size_t* count) {
  return api([&] {
    CUgraph_st& graph = resolve(handle, "cudaGraphGetEdges");
    if (count == nullptr) fail(cudaErrorInvalidValue, "cudaGraphGetEdges: a null pointer for the count");
    if ((from == nullptr) != (to == nullptr)) {
      fail(cudaErrorInvalidValue, "cudaGraphGetEdges: a null pointer for one of the two ends");
    }
    std::size_t edges = 0;
    for (CUgraphNode_st& node : graph.nodes) {
      for (const std::size_t earlier : node.after) {
        if (from != nullptr && edges < *count) {
          from[edges] = &graph.nodes[earlier];
          to[edges] = &node;
          if (data != nullptr) data[edges] = {};
        }
        ++edges;
      }
    }
    // The same as for nodes.
    if (from != nullptr) {
      for (std::size_t i = edges; i < *count; ++i) from[i] = to[i] = nullptr;
      edges = std::min(edges, *count);
    }
    *count = edges;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  return api([&] { instantiate(exec, graph, "cudaGraphInstantiate"); });
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  return api([&] { instantiate(exec, graph, "cudaGraphInstantiateWithFlags"); });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return api_of_release([&] {
    expect_alive(kGraphExec, exec, "cudaGraphExecDestroy");
    remove_handle(kGraphExec, exec);
    delete exec;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t handle) {
  return api([&] {
    expect_alive(kGraphExec, exec, "cudaGraphLaunch");
    CUstream_st& stream = resolve(handle, "cudaGraphLaunch");
    if (is_legacy(stream)) forbid_legacy_during_capture("cudaGraphLaunch");
    if (stream.capture) return capture_node(stream, child_node(*exec->program, "cudaGraphLaunch into a capture"));
    const auto run = [program = exec->program](const Place& launch) {
      const ConditionsInForce conditions(*program);
      program->run(launch);
      return true;
    };
    const auto& nodes = exec->program->nodes;
    const bool collective =
        std::any_of(nodes.begin(), nodes.end(), [](const CUgraphNode_st& node) { return is_collective(node); });
    (collective ? enqueue_collective : enqueue)(stream, "graph", run, {exec->last_launch});
    exec->last_launch = stream.queue->end();
  });
}

// A graph needs no preparation before its first launch, so this only takes a place in the stream.
cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t handle) {
  return api([&] {
    expect_alive(kGraphExec, exec, "cudaGraphUpload");
    CUstream_st& stream = resolve(handle, "cudaGraphUpload");
    if (stream.capture) forbid_wait_during_capture(&stream, "cudaGraphUpload");
    enqueue(stream, "graph upload", nullptr);
  });
}
}
