#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <source_location>
#include <unordered_set>
#include <utility>
#include <vector>

#include <giro/kernels/math.h>
#include <giro/runtime/buffer.h>
#include <giro/runtime/host_array.h>
#include <giro/runtime/stream.h>
#include <giro/runtime/tensor.h>

namespace giro::nn {

class Var;

struct BackwardOptions {
  double seed = 1;    // the gradient of the loss by itself,
  Tensor scale = {};  // times this f32 scalar on the loss's device, if one is given
  // Called for each parameter that the loss depends on, once its whole gradient has been queued.
  std::function<void(const Var& parameter)> on_gradient = {};
};

// A part of a value: elements begin, begin + step, ... along an axis.
struct Part {
  std::size_t axis = 0;
  std::int64_t begin = 0, step = 1;

  auto operator<=>(const Part&) const = default;
};

// The gradients of the loss by the inputs of an op: a Var for each, in their order, of its shape and of its dtype or
// grad_dtype(); Var() for one that wants none. A single Var serves an op of one input.
class Gradients {
 public:
  Gradients(Var only);
  // Of an op that looks at a part of its only input: the gradient by that part.
  Gradients(Var only, const Part& part);
  Gradients(std::vector<Var> terms);
  Gradients(std::initializer_list<Var> terms);

  std::vector<Var>& terms() noexcept { return terms_; }
  const std::optional<Part>& part() const noexcept { return part_; }

 private:
  std::vector<Var> terms_;
  std::optional<Part> part_;
};

// The gradient of an op as an expression of Vars: given the op's result y, the gradient of the loss by y, and the op's
// inputs. What it computes may be differentiated again.
using Gradient = std::function<Gradients(const Var& y, const Var& dy, const std::vector<Var>& in)>;

// A value in a computation that may be differentiated: a handle; copies name the same value. Operations on Vars queue
// their work on the stream, which runs it, or records it as ops of a program; and they note their gradient if an input
// wants one. Memory is stream-ordered: it returns to the stream as soon as neither a Var nor the backward pass needs
// it.
class Var {
 public:
  Var() : Var(Tensor()) {}  // an empty constant: an argument that is not there
  // A constant. It holds its memory where a Var holds that, as for the value() of another; any other memory must
  // outlive the work. It runs on no stream until it is combined with a Var that does.
  Var(const Tensor& constant);
  // A constant on a stream.
  Var(const Tensor& constant, const Stream& stream);
  // A constant in memory that `owner` keeps alive.
  Var(const Tensor& constant, std::shared_ptr<const void> owner);
  // A leaf that backward(loss) writes a gradient for, to memory of the same shape: f32, or of the dtype of the value.
  // The memory of both is held, or must outlive the work, as above.
  static Var parameter(const Tensor& value, const Tensor& grad, const Stream& stream);
  // A new value, contents undefined, computed from `inputs` on their stream. `gradient` is kept if one of them wants a
  // gradient; null says that there is none. Its math is TF32 if an input's is.
  // Error(invalid_argument) if no input has a stream, or if two have different ones.
  static Var computed(DType dtype, const Shape& shape, std::vector<Var> inputs, Gradient gradient);

  // The same value under another shape of equal count, sharing its memory. Error(shape_mismatch).
  Var reshape(const Shape& shape, std::source_location where = std::source_location::current()) const;

  // Where the value lies. Within a recording (a step made by jit) nothing has been computed yet: data() of this tensor
  // is an Error there. Work of one's own on it goes into nn::call, or onto the stream (runtime/native_stream.h).
  // A recording keeps the memory that it is asked for.
  const Tensor& value() const;
  // The elements as T, of a value in host memory. Errors: those of Tensor::data; device_mismatch for a value on a GPU,
  // which to_host(value(), stream()) brings over.
  template <class T>
  T* data() const {
    check_on_host();
    return value().template data<T>();
  }
  const Shape& shape() const { return node_->value.shape(); }
  DType dtype() const { return node_->value.dtype(); }
  // How products with it may be computed, and with what is computed from it.
  Math math() const { return node_->math; }
  void set_math(Math math) const { node_->math = math; }
  bool requires_grad() const { return node_->requires_grad; }
  // Error(invalid_argument) for a constant without one.
  const Stream& stream() const;
  // A constant without a stream on this one; a value that has one is itself.
  Var on(const Stream& stream) const;
  // The dtype of its gradient: its own, or f32 of a 16-bit parameter with an f32 gradient.
  DType grad_dtype() const { return node_->grad_dtype; }
  // Of a parameter: whether a backward has written its gradient.
  bool has_grad() const { return node_->has_grad; }
  bool has_stream() const { return node_->stream.has_value(); }

  friend void backward(const Var& loss, const BackwardOptions& options);
  friend std::vector<Var> gradients(const Var& y, const std::vector<Var>& xs);
  friend Var remat(std::function<Var(const Var&)> f, const Var& x);
  friend Var stop_gradient(const Var& x);

 private:
  struct Node;
  explicit Var(std::shared_ptr<Node> node) : node_(std::move(node)) {}
  void check_on_host() const;
  struct Differentiation;
  using Pairs = std::vector<std::pair<Var, Var>>;
  // Differentiates from `y`, given the gradient of the loss by it.
  static void differentiate(const Var& y, const Var& dy, const Differentiation& how);
  void set_gradient(const Var& dx) const;
  void expect_not_used_up() const;
  static std::uint64_t next_number() noexcept;
  // The values numbered below `since` that a gradient of `y` first comes to.
  static std::vector<Var> made_before(std::uint64_t since, const Var& y);
  std::shared_ptr<Node> node_;

  struct Node {
    const std::uint64_t number = next_number();  // greater than that of all that was made before
    Tensor value;
    std::shared_ptr<const void> storage;  // of value, shared by its views; null where others own it
    std::optional<Stream> stream;
    Math math = Math::f32;
    bool requires_grad = false;
    DType grad_dtype = DType::f32;
    Tensor grad;                               // of a parameter: where its gradient goes
    std::shared_ptr<const void> grad_storage;  // of grad
    bool has_grad = false;                     // of a parameter
    bool is_used_up = false;                   // by a backward
    std::vector<Var> inputs;
    Gradient gradient;           // null for parameters and constants
    std::source_location where;  // the line of the user's program that made it
  };
};

inline Gradients::Gradients(Var only) : terms_{std::move(only)} {}
inline Gradients::Gradients(Var only, const Part& part) : terms_{std::move(only)}, part_(part) {}
inline Gradients::Gradients(std::vector<Var> terms) : terms_(std::move(terms)) {}
inline Gradients::Gradients(std::initializer_list<Var> terms) : terms_(terms) {}

struct Var::Differentiation {
  std::uint64_t made_before = 0;              // ends at values numbered below it, as well as at parameters
  std::unordered_set<const Node*> only = {};  // the values whose gradients are wanted; empty: of all ends
  // Called with each of them and its gradient once all terms of that have been queued and added; with those that one
  // op completes together.
  std::function<void(const Pairs&)> done = {};
  // The computation can be differentiated again, and so can the gradients; else it is used up.
  bool keep = false;
};

// The same value as a constant: no gradient goes through it.
Var stop_gradient(const Var& x);

// The values as a constant in memory of its own, on the stream's device: a table or class weights in a step, say.
// Within a recording the values of now go into every replay. Errors: device, out_of_memory.
Var constant(const HostArray& values, const Stream& stream);

// Queues the gradient of options.seed times `loss`, an f32 scalar, into every parameter it depends on; the computation
// is used up.
// Errors: shape_mismatch, dtype_mismatch; invalid_argument if it depends on no parameter, or on a value that an
// earlier backward has used up.
void backward(const Var& loss, const BackwardOptions& options = {});

// The gradient of `y`, f32 scalar, by each of `xs`, as Vars that can be differentiated in turn, as in a gradient
// penalty. The computation stays as it is. Of a value that y does not depend on it is 0.
// Errors: as of backward; invalid_argument for one of xs that wants no gradient.
std::vector<Var> gradients(const Var& y, const std::vector<Var>& xs);

}  // namespace giro::nn
