#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <giro/kernels/conv2d.h>
#include <giro/kernels/math_mode.h>
#include <giro/runtime/dtype.h>
#include <giro/runtime/shape.h>
#include <giro/runtime/stream.h>

#include "runtime/cuda/disk_cache.h"

struct cudnnContext;

namespace giro::cuda {

// A convolution to request from cuDNN's graph API: y = conv(x, w), then + b and relu if it has them, or one of its
// gradients.
struct Convolution {
  enum class Result { y, dx, dw };

  Result result = Result::y;
  Shape x{}, w{}, y{};
  Conv2dOptions options{};
  DType dtype = DType::f32;       // of all operands
  MathMode math = MathMode::f32;  // for f32: whether tensor cores may round inputs to TF32
  bool has_bias = false, has_relu = false;
  std::int64_t alignment = 16;  // of all operands, in bytes
};

// softmax(scale * query key^T) value, or its gradients, of 16-bit arrays (B, T, H, D) and (B, S, K, D).
struct AttentionGraph {
  enum class Result { out, out_and_logsumexp, gradients };

  Result result = Result::out;
  Shape query{}, key{};
  DType dtype = DType::bf16;
  double scale = 1;
  bool is_causal = false;  // the last query attends to the last key
  bool is_packed = false;  // query, key and value, and their gradients, are heads of one array (B, T, H + 2 K, D)
  std::int64_t alignment = 16;
};

using GraphSpec = std::variant<Convolution, AttentionGraph>;
// The whole spec as numbers.
std::vector<std::int64_t> key_of(const GraphSpec& spec);

// The arrays of a graph.
enum class GraphArray : std::int64_t { x = 1, w, y, b, query, key, value, out, logsumexp, dout, dquery, dkey, dvalue };
using GraphArrays = std::vector<std::pair<GraphArray, void*>>;

// cuDNN's description, in JSON, of the device to plan for. Plans can also be made for the description of an absent GPU.
// Error(device).
std::string describe_device(int index);

// cuDNN's plans for one graph, best first: those that give the same bits every time and compute in the requested
// precision. Only one is built at a time; one that fails, in whatever way, is passed over. Errors of all functions:
// out_of_memory, device.
class GraphPlan {
 public:
  GraphPlan(GraphPlan&&) noexcept = default;
  GraphPlan& operator=(GraphPlan&&) noexcept = default;

  // The plan that an earlier run stored, or the first that can be built. Empty if cuDNN supports no such graph.
  static GraphPlan find(const GraphSpec& spec, const std::string& device, const DiskCache& cache);

  explicit operator bool() const noexcept { return graph_ != nullptr; }
  // Why there is no plan, or what those that were passed over failed with, in cuDNN's words.
  const std::string& failure_reason() const noexcept { return failure_reason_; }
  bool was_stored() const noexcept { return is_on_disk_; }
  std::size_t workspace_bytes() const;
  // The engine and its settings, "eng45_k2=5_k5=3_k14=6"; empty for a stored plan.
  std::string name() const;

  // Queues the work on the handle's stream. False if the plan fails only now.
  bool run(cudnnContext* cudnn, const GraphArrays& arrays, void* workspace);
  // Moves on to the next plan.
  void skip_plan();
  // Keeps the plan on disk, for later runs.
  void store(DiskCache& cache);

 private:
  struct Graph;
  GraphPlan(const GraphSpec& spec, const std::string& device);
  bool load(const std::string& serialized);
  void query_plans();
  void build_next();
  // Whether a candidate does what f asks of it.
  template <class F>
  bool attempt(const F& f);
  void note_failure(const std::string& message);

  GraphSpec spec_;
  std::string device_, key_;      // key_: on disk
  std::shared_ptr<Graph> graph_;  // null: there is no plan left
  std::string failure_reason_;
  bool is_on_disk_ = false;
};

// Queues the best of cuDNN's plans that runs on these arrays, whose alignment it sets in the spec. Keeps that plan
// with the stream and on disk. If there is none, queues nothing and returns the reason, in cuDNN's words.
std::optional<std::string> run_best_plan(GraphSpec spec, const GraphArrays& arrays, const Stream& stream);

}  // namespace giro::cuda
