#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include <giro/kernels/conv2d.h>
#include <giro/runtime/dtype.h>
#include <giro/runtime/shape.h>

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
};

// What cuDNN plans for: the JSON that it writes for a device. A GPU that is not there can be described as well.
// Error(device).
std::string describe_device(int index);

// cuDNN's plans for one convolution, best first: those that give the same bits every time and compute in the asked
// precision. Only one is built at a time.
class ConvolutionPlan {
 public:
  // The first plan that can be built; none if cuDNN supports nothing of the kind.
  static ConvolutionPlan find(const Convolution& convolution, const std::string& device);
  // From serialized(), without asking again. Empty if that was damaged or made by another cuDNN.
  static std::optional<ConvolutionPlan> load(const std::string& serialized, const std::string& device);

  ConvolutionPlan(ConvolutionPlan&&) noexcept;
  ConvolutionPlan& operator=(ConvolutionPlan&&) noexcept;
  ~ConvolutionPlan();

  // Of cuDNN and its frontend, on which plans depend.
  static std::string version();

  explicit operator bool() const noexcept { return graph_ != nullptr; }
  // Why there is none, in cuDNN's words.
  const std::string& why_not() const noexcept { return why_not_; }
  std::size_t workspace_bytes() const;
  // The engine and its settings: "eng45_k2=5_k5=3_k14=6".
  std::string name() const;
  std::string serialized() const;

  struct Operands {
    void *x, *w, *y;
    void* b = nullptr;
  };
  // Whether the operands are aligned as plans expect them, to 16 bytes.
  static bool takes(const Operands& operands);
  // Queues the work on the handle's stream. False if cuDNN refuses the plan only now; then the next one is built.
  // Error(device).
  bool run(cudnnContext* cudnn, const Operands& operands, void* workspace);

 private:
  struct Graph;
  explicit ConvolutionPlan(std::unique_ptr<Graph> graph);
  void build_next();

  std::unique_ptr<Graph> graph_;  // null: there is no plan left
  std::string why_not_;
};

}  // namespace giro::cuda
