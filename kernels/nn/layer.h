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

// The parameters a layer asks for, collected while a model is walked through once with its input's shape.
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
  // The specs below `name`: what a layer within a layer sees.
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

  // Error(not_found) naming the nearest name there is.
  const Var& operator[](const std::string& name) const;
  Params below(const std::string& name) const;

  const Stream& stream() const;
  const std::map<std::string, Var>& all() const;

 private:
  struct Tree;
  std::shared_ptr<const Tree> tree_;
  std::string prefix_;
};

// What makes a value a layer: init() adds its parameters for inputs of a shape (batch axis included) and returns the
// output's shape; apply() computes. name() is what it is called in the tree, where the parent adds a number.
template <class T>
concept LayerType =
    std::copyable<T> && requires(const T& layer, ParamSpecs& specs, const Params& params, const Var& x) {
      { layer.name() } -> std::convertible_to<std::string>;
      { layer.init(specs, x.shape()) } -> std::same_as<Shape>;
      { layer.apply(params, x) } -> std::same_as<Var>;
    };

// Any layer: a plain, immutable value without parameters of its own. A model is a layer.
class Layer {
 public:
  // In this order: whether a Layer can be copied is part of whether it is a LayerType.
  template <class T>
    requires(!std::same_as<T, Layer> && LayerType<T>)
  Layer(T layer) : self_(std::make_shared<Model<T>>(std::move(layer))) {}

  std::string name() const { return self_->name(); }
  // Errors: shape_mismatch.
  Shape init(ParamSpecs& specs, const Shape& input) const { return self_->init(specs, input); }
  // Errors name the line of the call, `where`, or a later one in the apply() of a layer of your own.
  Var apply(const Params& params, const Var& x, std::source_location where = std::source_location::current()) const;

  // The model's output on x, a Var or a tensor.
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
