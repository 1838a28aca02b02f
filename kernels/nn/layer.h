#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <giro/kernels/nn/scope.h>
#include <giro/kernels/nn/var.h>
#include <giro/runtime/handle.h>

namespace giro::nn {

template <class F, class... In>
concept TakesScopeAnd = std::is_invocable_v<const F&, Scope&, In...>;

// Anything that can be a layer: a function of a scope and up to four values, or a vector of values.
template <class F>
concept LayerFunction =
    TakesScopeAnd<F, const Var&> || TakesScopeAnd<F, const std::vector<Var>&> ||
    TakesScopeAnd<F, const Var&, const Var&> || TakesScopeAnd<F, const Var&, const Var&, const Var&> ||
    TakesScopeAnd<F, const Var&, const Var&, const Var&, const Var&>;

// A named layer: a function of a scope and one or more values that returns a value, a pair or a vector of values. It
// holds no parameters: each call within another layer has its own, under the layer's name and a number (dense0,
// dense1), unless the layer is shared(). A model is a layer.
class Layer {
 public:
  // The name is f.name() if there is such a member function, else "layer".
  template <class F>
    requires(!std::same_as<std::remove_cvref_t<F>, Layer> && LayerFunction<F>)
  Layer(F f) : Layer(name_of(f), std::move(f)) {}
  template <LayerFunction F>
  Layer(std::string name, F f) : Layer(Self{std::move(name), is_builtin<F>, inputs_of(f), wrapped(std::move(f))}) {}

  // The same layer, except that all its calls in one scope share the first call's parameters. A layer that is shared
  // stays the same one.
  friend Layer shared(const Layer& layer);
  // A layer with another function, such as one that calls this layer, but with this one's name and, if it is shared,
  // parameters.
  template <LayerFunction F>
  Layer with(F f) const {
    return Layer(Self{name(), is_builtin<F>, inputs_of(f), wrapped(std::move(f)), self_->owner});
  }

  const std::string& name() const noexcept { return self_->name; }
  bool is_shared() const noexcept { return self_->owner != nullptr; }
  // How many values it takes; for a function of a vector, f.inputs() or else 1.
  std::size_t inputs() const noexcept { return self_->inputs; }

  // Calls it as the model, at the root of the tree. Constants get the parameters' stream. Errors name the line of the
  // call, `where`, or a line in a custom layer. Error(invalid_argument) for a wrong number of inputs, or for several
  // results where one is expected.
  Var operator()(const Params& params, const Var& x,
                 std::source_location where = std::source_location::current()) const;
  std::vector<Var> operator()(const Params& params, const std::vector<Var>& inputs,
                              std::source_location where = std::source_location::current()) const;
  // Calls it as a part of another layer, in a child of its scope.
  Var operator()(const Scope& s, const Var& x, const CallPlace& at = std::source_location::current()) const;
  std::vector<Var> operator()(const Scope& s, const std::vector<Var>& inputs,
                              const CallPlace& at = std::source_location::current()) const;
  // Calls it in `s` itself.
  std::vector<Var> apply(Scope& s, const std::vector<Var>& inputs, std::source_location where) const;

 private:
  using Function = std::function<std::vector<Var>(Scope&, const std::vector<Var>&)>;
  struct Self {
    std::string name;
    bool is_builtin;  // its errors name the line that called it, not one of its own
    std::size_t inputs;
    Function call;
    std::shared_ptr<const void> owner = nullptr;  // of its parameters, if it is shared
  };

  template <class F>
  static constexpr bool is_builtin = requires { typename F::BuiltinLayer; };
  template <class F>
  static std::string name_of(const F& f) {
    if constexpr (requires {
                    { f.name() } -> std::convertible_to<std::string>;
                  }) {
      return f.name();
    } else {
      return "layer";
    }
  }
  template <class F>
  static std::size_t inputs_of(const F& f) {
    if constexpr (requires {
                    { f.inputs() } -> std::convertible_to<std::size_t>;
                  }) {
      return f.inputs();
    } else if constexpr (TakesScopeAnd<F, const Var&> || TakesScopeAnd<F, const std::vector<Var>&>) {
      return 1;
    } else {
      return TakesScopeAnd<F, const Var&, const Var&>               ? 2
             : TakesScopeAnd<F, const Var&, const Var&, const Var&> ? 3
                                                                    : 4;
    }
  }
  template <class F>
  static Function wrapped(F f) {
    return [f = std::move(f)](Scope& s, const std::vector<Var>& x) {
      if constexpr (TakesScopeAnd<F, const Var&>) {
        return values(f(s, expect(x, 1)[0]));
      } else if constexpr (TakesScopeAnd<F, const std::vector<Var>&>) {
        return values(f(s, x));
      } else if constexpr (TakesScopeAnd<F, const Var&, const Var&>) {
        return values(f(s, expect(x, 2)[0], x[1]));
      } else if constexpr (TakesScopeAnd<F, const Var&, const Var&, const Var&>) {
        return values(f(s, expect(x, 3)[0], x[1], x[2]));
      } else {
        return values(f(s, expect(x, 4)[0], x[1], x[2], x[3]));
      }
    };
  }
  static const std::vector<Var>& expect(const std::vector<Var>& inputs, std::size_t count);
  static std::vector<Var> values(Var y) { return {std::move(y)}; }
  static std::vector<Var> values(std::vector<Var> ys) { return ys; }
  template <class A, class B>
  static std::vector<Var> values(std::pair<A, B> ys) {
    return {std::move(ys.first), std::move(ys.second)};
  }
  explicit Layer(Self self) : self_(std::make_shared<const Self>(std::move(self))) {}
  Var only(std::vector<Var> results) const;

  detail::Handle<const Self> self_;
};

Layer shared(const Layer& layer);

}  // namespace giro::nn
