#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include <giro/kernels/math_mode.h>
#include <giro/kernels/nn/direction.h>
#include <giro/runtime/buffer.h>
#include <giro/runtime/error.h>
#include <giro/runtime/host_array.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro {
class State;
namespace detail {
struct HeldValue;
}
}  // namespace giro

namespace giro::nn {

class PartCalls;
class Scope;
class Var;
struct CallGroup;

struct BackwardOptions {
  double seed = 1;    // the gradient of the loss with respect to itself,
  Tensor scale = {};  // times this f32 scalar on the loss's device, if given
  // Called for each parameter that the loss depends on, once its gradient has been queued completely.
  std::function<void(const Var& parameter)> on_gradient = {};
};

struct GradientsOptions {
  // If false, the results are constants, and the computation is used up, as by backward(): its memory is free earlier.
  bool differentiable = true;
};

// A part of a value: elements begin, begin + step, ... along an axis.
struct Part {
  std::size_t axis = 0;
  std::int64_t begin = 0, step = 1;

  auto operator<=>(const Part&) const = default;
};

// The gradients of the loss with respect to the inputs of an op: one Var per input, in order, with the input's shape
// and its dtype or grad_dtype(); Var() for an input that requires none. For an op with one input, a single Var will do.
class Gradients {
 public:
  Gradients(Var only);
  // For an op that reads a part of its only input: the gradient with respect to that part.
  Gradients(Var only, const Part& part);
  Gradients(std::vector<Var> terms);
  Gradients(std::initializer_list<Var> terms);

  std::vector<Var>& terms() noexcept { return terms_; }
  const std::optional<Part>& part() const noexcept { return part_; }

 private:
  std::vector<Var> terms_;
  std::optional<Part> part_;
};

// The gradient of an op as an expression of Vars, given the op's result y, the gradient dy of the loss with respect to
// y, and the op's inputs. The result may be differentiated again.
using Gradient = std::function<Gradients(const Var& y, const Var& dy, const std::vector<Var>& in)>;

// A value in a computation that may be differentiated. A handle: copies refer to the same value. Operations on Vars
// queue their work on the stream, which runs it or records it as ops of a program. They also record their gradient if
// an input requires one. Memory is stream-ordered: it returns to the stream as soon as neither a Var nor the backward
// pass needs it.
class Var {
 public:
  Var() : Var(Tensor()) {}                                   // an empty constant, for an omitted argument
  bool is_empty() const { return node_->value.is_empty(); }  // whether it is one
  // A constant. It keeps its memory alive if the tensor owns it, like the value() of another Var; any other memory must
  // outlive the work. It has no stream until it is combined with a Var that has one.
  Var(const Tensor& constant);
  // A constant on a stream. Made of a leaf of a state, it keeps the value that the leaf has now: what giro writes there
  // on that stream copies it first. Only a kernel of your own, and a step that uses a Var from outside of it, find the
  // leaf as it is when they run.
  Var(const Tensor& constant, const Stream& stream);
  // A constant in memory that `owner` keeps alive.
  Var(const Tensor& constant, std::shared_ptr<const void> owner);
  // A leaf. backward(loss) writes its gradient to `grad`, which has the same shape and is f32 or of the value's dtype.
  // The memory of both is kept alive or must outlive the work, as above.
  static Var parameter(const Tensor& value, const Tensor& grad, const Stream& stream);
  // A new, uninitialized value, to be computed from `inputs` on their stream. `gradient` is kept if an input requires a
  // gradient; null means there is none. Its math is TF32 if an input's is.
  // Error(invalid_argument) if no input has a stream, or if two have different ones.
  static Var computed(DType dtype, const Shape& shape, std::vector<Var> inputs, Gradient gradient);

  // The elements of `part`, a tensor in this value's memory, which both share. For ops that compute nothing.
  Var view(const Tensor& part, Gradient gradient) const;
  // The same value with another shape of equal count, sharing its memory. Error(shape_mismatch).
  Var reshape(const Shape& shape, std::source_location where = std::source_location::current()) const;

  // The tensor that holds the value. In a recording (a step made by jit) nothing has been computed yet: data() of this
  // tensor is an Error there. Custom work on it goes into nn::call, or onto the stream
  // (runtime/program/native_stream.h). A recording keeps the memory alive if value() is called in it.
  const Tensor& value() const;
  // The elements as T, for a value in host memory. Errors: those of Tensor::data; device_mismatch for a value on a GPU,
  // which to_host(value(), stream()) can copy.
  template <class T>
  T* data() const {
    check_on_host();
    return value().template data<T>();
  }
  const Shape& shape() const { return node_->value.shape(); }
  DType dtype() const { return node_->value.dtype(); }
  // The precision of products with this value and with values computed from it.
  MathMode math() const { return node_->math; }
  void set_math_mode(MathMode math) const { node_->math = math; }
  // Which way it is better, if it is a loss or a metric. Known for the results of losses.h and metrics.h and for what
  // was differentiated as a loss. Means, sums, casts and views pass it on.
  Direction direction() const { return node_->direction; }
  void set_direction(Direction direction) const { node_->direction = direction; }
  bool requires_grad() const { return node_->requires_grad; }
  // Error(invalid_argument) for a constant without a stream.
  const Stream& stream() const;
  // Puts a constant without a stream on this one. A value with a stream is returned unchanged.
  Var on(const Stream& stream) const;
  // The dtype of its gradient: its own, or f32 for a 16-bit parameter with an f32 gradient.
  DType grad_dtype() const { return node_->grad_dtype; }
  // For a parameter: whether a backward pass has written its gradient.
  bool has_grad() const { return node_->has_grad; }
  bool has_stream() const { return node_->stream.has_value(); }

  friend void backward(const Var& loss, const BackwardOptions& options);
  friend std::vector<Var> gradients(const Var& y, const std::vector<Var>& xs, const GradientsOptions& options);
  friend Var remat(std::function<Var(const Var&)> f, const Var& x);
  friend Var stop_gradient(const Var& x);
  friend Var with_gradient(const Var& y, std::vector<Var> inputs, Gradient gradient);

 private:
  friend class PartCalls;
  friend class Scope;
  struct Node;
  // Moves leave nothing behind, so that memory is free early.
  class NodePointer {
   public:
    NodePointer(std::shared_ptr<Node> node) : node_(std::move(node)) {}  // NOLINT: a Var is made of it
    friend bool operator==(const NodePointer&, const NodePointer&) noexcept = default;
    Node* get() const noexcept { return node_.get(); }
    Node& operator*() const { return *operator->(); }
    const std::shared_ptr<Node>& shared() const noexcept { return node_; }
    Node* operator->() const {
      if (!node_) throw Error(ErrorCode::invalid_argument, "an nn::Var was used that had been moved from");
      return get();
    }

   private:
    std::shared_ptr<Node> node_;
  };
  void check_on_host() const;
  // A constant in this value's memory.
  Var sharing(const Tensor& part) const;
  // Keeps the gradient if an input requires one.
  void derive(std::vector<Var> inputs, Gradient gradient) const;
  void hold() const;
  // The value, where it is now.
  const Tensor& tensor() const;
  struct Differentiation;
  using Pairs = std::vector<std::pair<Var, Var>>;
  // Differentiates from `y`, given dy, the gradient of the loss with respect to y.
  static void differentiate(const Var& y, const Var& dy, const Differentiation& how);
  void set_gradient(const Var& dx) const;
  void expect_not_used_up() const;
  static std::uint64_t next_number() noexcept;
  // For what makes values: y is computed from `inputs`.
  static void note_inputs(const Var& y, std::span<const Var> inputs);
  // The values numbered below `since` that the backward pass from `y` reaches first.
  static std::vector<Var> created_before(std::uint64_t since, const Var& y);
  NodePointer node_;

  // What PartCalls notes of a value that one call computes from the parameters.
  struct OfPart {
    std::shared_ptr<const void> calls;  // null for any other value
    int part = 0;
    // A sum of all elements, a sum if an input is, or a mean along the first axis, which is that of the rows.
    enum class Total : std::uint8_t { none, sum, of_inputs, mean_of_rows } total = Total::none;
  };
  struct Node {
    const std::uint64_t number = next_number();  // greater than all earlier ones
    Tensor value;
    std::shared_ptr<const void> storage;                  // of value, shared by its views; null if not owned,
    std::shared_ptr<const giro::detail::HeldValue> held;  // and then what follows it if the memory is written
    std::optional<Stream> stream;
    MathMode math = MathMode::f32;
    bool requires_grad = false;
    Direction direction = Direction::unknown;
    DType grad_dtype = DType::f32;
    Tensor grad;                               // of a parameter: where its gradient is written
    std::shared_ptr<const void> grad_storage;  // of grad
    bool has_grad = false;                     // of a parameter
    bool is_used_up = false;                   // by a backward pass
    std::vector<Var> inputs;
    Gradient gradient;           // null for parameters and constants
    std::source_location where;  // the line of the user's program that made it
    OfPart of_part;
    // The calls of layers on which it depends, in full expressions that are being evaluated (call_order.h).
    std::vector<std::pair<std::shared_ptr<CallGroup>, std::size_t>> calls;
  };
};

inline Gradients::Gradients(Var only) : terms_{std::move(only)} {}
inline Gradients::Gradients(Var only, const Part& part) : terms_{std::move(only)}, part_(part) {}
inline Gradients::Gradients(std::vector<Var> terms) : terms_(std::move(terms)) {}
inline Gradients::Gradients(std::initializer_list<Var> terms) : terms_(terms) {}

struct Var::Differentiation {
  std::uint64_t created_before = 0;           // ends at values numbered below it, and at parameters
  std::unordered_set<const Node*> only = {};  // computes gradients only of these; empty: of all ends
  // Called with values and their gradients once all terms of these have been queued and added. One call gets all the
  // gradients that one op completes.
  std::function<void(const Pairs&)> done = {};
  // If true, the computation and the gradients can be differentiated again; if false, the computation is used up.
  bool keep = false;
};

// Stores a value in the leaf at `path`, which has its shape and dtype: in a step, at each call. No gradient flows
// through it. A Var that was made of the leaf before keeps the old value. Errors: not_found, shape_mismatch,
// dtype_mismatch; invalid_argument for a value on another stream than the state's.
void set(const State& state, const std::string& path, const Var& value,
         std::source_location where = std::source_location::current());

// The same value as a constant: no gradient flows through it.
Var stop_gradient(const Var& x);

// The value y, computed from `inputs`, with `gradient` in place of the gradient of the ops that computed it: for
// functions with a cheaper gradient, or a deliberately different one, such as a straight-through estimator. `gradient`
// gets y, too.
Var with_gradient(const Var& y, std::vector<Var> inputs, Gradient gradient);

// The values as a constant in its own memory on the stream's device, such as a table or class weights in a step. In a
// recording, every replay uses the values at the time of the recording. Errors: device, out_of_memory.
Var constant(const HostArray& values, const Stream& stream);

// Queues the gradient of options.seed times `loss`, an f32 scalar, into every parameter that it depends on. The
// computation is used up.
// Errors: shape_mismatch, dtype_mismatch; invalid_argument if it depends on no parameter, or on a value that an earlier
// backward() has used up.
void backward(const Var& loss, const BackwardOptions& options = {});

// The gradient of `y`, an f32 scalar, with respect to each of `xs`. By default the results are Vars that can be
// differentiated again, as in a gradient penalty, and the computation is not used up. The gradient is 0 for a value
// that y does not depend on. Errors: those of backward; invalid_argument for an x that requires no gradient.
std::vector<Var> gradients(const Var& y, const std::vector<Var>& xs, const GradientsOptions& options = {});

}  // namespace giro::nn
