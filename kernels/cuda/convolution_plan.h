#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <giro/kernels/conv2d.h>
#include <giro/runtime/dtype.h>
#include <giro/runtime/shape.h>

#include "runtime/cuda/disk_cache.h"

struct cudnnContext;

namespace giro::cuda {

// A convolution as cuDNN's graph API is asked for it: y = conv(x, w), then + b and relu if it has them, or one of its
// gradients.
struct Convolution {
  enum class Result { y, dx, dw };

  Result result = Result::y;
  Shape x{}, w{}, y{};
  Conv2dOptions options{};
  DType dtype = DType::f32;  // of all operands
  Math math = Math::f32;     // for f32: whether tensor cores may round inputs to TF32
  bool has_bias = false, has_relu = false;
  std::int64_t alignment = 16;  // of all operands, in bytes

  // All of it in numbers.
  std::vector<std::int64_t> key() const;
};

// What cuDNN plans for: the JSON that it writes for a device. A GPU that is not there can be described as well.
// Error(device).
std::string describe_device(int index);

// cuDNN's plans for one convolution, best first: those that give the same bits every time and compute in the asked
// precision. Only one is built at a time. Errors of all functions: out_of_memory, device.
class ConvolutionPlan {
 public:
  // The plan that an earlier run has stored, or the first that can be built. There is none if cuDNN supports nothing of
  // the kind.
  static ConvolutionPlan find(const Convolution& convolution, const std::string& device, const DiskCache& cache);

  ConvolutionPlan(ConvolutionPlan&&) noexcept;
  ConvolutionPlan& operator=(ConvolutionPlan&&) noexcept;
  ~ConvolutionPlan();

  explicit operator bool() const noexcept { return graph_ != nullptr; }
  // Why there is none, in cuDNN's words.
  const std::string& why_not() const noexcept { return why_not_; }
  bool was_stored() const noexcept { return is_on_disk_; }
  std::size_t workspace_bytes() const;
  // The engine and its settings, unless it was stored: "eng45_k2=5_k5=3_k14=6".
  std::string name() const;

  struct Operands {
    void *x, *w, *y;
    void* b = nullptr;
  };
  // Queues the work on the handle's stream. False if cuDNN refuses the plan only now.
  bool run(cudnnContext* cudnn, const Operands& operands, void* workspace);
  // Goes on to the next plan.
  void refuse();
  // For later runs.
  void store(DiskCache& cache);

 private:
  struct Graph;
  ConvolutionPlan(const Convolution& convolution, const std::string& device);
  bool load(const std::string& serialized);
  void ask();
  void build_next();

  Convolution convolution_;
  std::string device_, key_;      // key_: on disk
  std::unique_ptr<Graph> graph_;  // null: there is no plan left
  std::string why_not_;
  bool is_on_disk_ = false;
};

}  // namespace giro::cuda
