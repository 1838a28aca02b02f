#pragma once

#include <concepts>
#include <map>
#include <memory>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include <giro/kernels/nn/initializers.h>
#include <giro/kernels/nn/var.h>

namespace giro::nn {

// The parameters that a layer asks for, collected in one pass over a model with its input's shape.
class ParamSpecs {
 public:
  struct Spec {
    std::string name;  // "dense0/kernel"
    Shape shape;
    Fans fans;
    Initializer initializer;
  };

  ParamSpecs();
  void add(const std::string& name, const Shape& shape, const Fans& fans, Initializer initializer);
  // The specs below `name`, for a layer within a layer.
  ParamSpecs below(const std::string& name) const;

  const std::vector<Spec>& all() const { return *specs_; }

 private:
  std::shared_ptr<std::vector<Spec>> specs_;
  std::string prefix_;
};

// The parameters of a model, or of a layer within it, as Vars by name. A handle.
class Params {
 public:
  Params(std::map<std::string, Var> vars, const Stream& stream);

  // Error(not_found), naming the closest existing name.
  const Var& operator[](const std::string& name) const;
  Params below(const std::string& name) const;

  const Stream& stream() const;
  const std::map<std::string, Var>& all() const;

 private:
  struct Tree;
  std::shared_ptr<const Tree> tree_;
  std::string prefix_;
};

// The interface of a layer. init() adds its parameters for inputs of a shape (batch axis included) and returns the
// output's shape; apply() computes the output. name() is its name in the tree, to which the parent adds a number.
template <class T>
concept LayerType =
    std::copyable<T> && requires(const T& layer, ParamSpecs& specs, const Params& params, const Var& x) {
      { layer.name() } -> std::convertible_to<std::string>;
      { layer.init(specs, x.shape()) } -> std::same_as<Shape>;
      { layer.apply(params, x) } -> std::same_as<Var>;
    };

// Any layer: a plain, immutable value that holds no parameters. A model is a layer.
class Layer {
 public:
  // The order matters: LayerType<Layer> depends on whether a Layer can be copied.
  template <class T>
    requires(!std::same_as<T, Layer> && LayerType<T>)
  Layer(T layer) : self_(std::make_shared<Model<T>>(std::move(layer))) {}

  std::string name() const { return self_->name(); }
  // Errors: shape_mismatch.
  Shape init(ParamSpecs& specs, const Shape& input) const { return self_->init(specs, input); }
  // Errors name the line of the call, `where`, or a line in the apply() of a custom layer.
  Var apply(const Params& params, const Var& x, std::source_location where = std::source_location::current()) const;

  // The model's output for x, a Var or a tensor.
  Var operator()(const Params& params, const Var& x,
                 std::source_location where = std::source_location::current()) const;

 private:
  struct Concept {
    virtual ~Concept() = default;
    virtual bool is_of_giro() const = 0;
    virtual std::string name() const = 0;
    virtual Shape init(ParamSpecs& specs, const Shape& input) const = 0;
    virtual Var apply(const Params& params, const Var& x) const = 0;
  };
  template <class T>
  struct Model final : Concept {
    explicit Model(T value) : layer(std::move(value)) {}
    bool is_of_giro() const override {
      return requires { typename T::OfGiro; };
    }
    std::string name() const override { return layer.name(); }
    Shape init(ParamSpecs& specs, const Shape& input) const override { return layer.init(specs, input); }
    Var apply(const Params& params, const Var& x) const override { return layer.apply(params, x); }
    T layer;
  };
  std::shared_ptr<const Concept> self_;
};

}  // namespace giro::nn
