#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <giro/kernels/nn/call_place.h>
#include <giro/kernels/nn/initializers.h>
#include <giro/kernels/nn/random.h>
#include <giro/kernels/nn/var.h>
#include <giro/runtime/error.h>
#include <giro/runtime/handle.h>

namespace giro {
class Partitioner;
}

namespace giro::nn {

// The purpose of a call of a model. In training, dropout drops values and BatchNorm uses the statistics of the batch.
// decode is evaluation that updates variables with the inputs seen so far, such as a generating transformer's cache
// (transformer.h).
enum class Mode { eval, train, decode };

// A leaf that a model requests while a state is created for it.
struct DeclaredLeaf {
  std::string collection;  // "params"
  std::string name;        // in the collection, "dense0/kernel"
  DType dtype = DType::f32;
  Shape shape;
  Fans fans;
  Initializer initializer;
};

struct CallOrder;  // private

// The values that all scopes of a model share.
struct ScopeValues {
  Stream stream;
  Mode mode = Mode::eval;
  std::map<std::string, Var> params = {};     // by name: "dense0/kernel"
  std::map<std::string, Var> variables = {};  // of other collections, by path: "batch_stats/batch_norm0/mean"
  std::function<Var()> key = {};              // of this step, an i64 scalar; null if there is none
  std::int64_t first_row = 0;                 // where this rank's rows begin in the batch,
  std::int64_t rows = 0;                      // and how many it has; 0 if unknown
  std::int64_t draw = 0;                      // which of several draws in a step the keys are for
  std::shared_ptr<const Partitioner> partitioner = nullptr;
  // Writes a variable's new value to the state, and returns it; null: new values are kept for written().
  std::function<Var(const std::string& path, const Var& value)> assign = {};
  // If not null, there are no values yet: each leaf that the model requests is added here. Parameters then have
  // `dtype`.
  std::shared_ptr<std::vector<DeclaredLeaf>> declared = nullptr;
  DType dtype = DType::f32;
  // The numbers of the model's calls, from when its leaves were declared; null: in the order of their evaluation.
  std::shared_ptr<CallOrder> order = nullptr;
};

class Scope;
struct ScopeTree;  // private

// The values of a model's leaves, which a state passes to the function that computes a loss. A handle. Each call of a
// model with it starts at the root of the tree, so a model may be called several times with the same parameters.
class Params {
 public:
  Params(std::map<std::string, Var> params, const Stream& stream, Mode mode = Mode::eval);
  explicit Params(ScopeValues values);

  // A parameter by its name, "dense0/kernel". Error(not_found), naming the closest existing name.
  const Var& operator[](const std::string& name) const;
  const std::map<std::string, Var>& all() const&;
  std::map<std::string, Var> all() &&;

  const Stream& stream() const;
  Mode mode() const;
  // The variables that the model has set and that are not in the state yet, by path.
  const std::map<std::string, Var>& written() const&;
  std::map<std::string, Var> written() &&;

  // A scope at the root, for a model that takes one: model(params, x) works for any model that takes `nn::Scope scope`.
  operator Scope() const;

 private:
  detail::Handle<ScopeTree> tree_;
};

// A leaf of a collection other than params. It is part of the state, so it is saved, and a step may change it.
class Variable {
 public:
  // The value last set in this step, else the state's.
  const Var& value() const;
  // Within value_and_grad, the state gets the new value at its end, elsewhere at once. No gradient flows through it.
  // Errors: invalid_argument in evaluation; shape_mismatch, dtype_mismatch.
  void set(const Var& value, Where where = Where::current()) const;

 private:
  friend class Scope;
  Variable(std::shared_ptr<ScopeTree> tree, std::string path) : tree_(std::move(tree)), path_(std::move(path)) {}
  detail::Handle<ScopeTree> tree_;
  std::string path_;
};

// Gives a layer its parameters and everything else that is not an input. A handle: copies are the same scope.
//
//   struct LayerNorm {
//     double epsilon = 1e-5;
//     nn::Var operator()(nn::Scope& s, const nn::Var& x) const {
//       auto scale = s.param("scale", {x.shape()[-1]}, nn::ones());
//       auto bias = s.param("bias", {x.shape()[-1]}, nn::zeros());
//       auto centered = x - mean(x, {-1});
//       return centered * rsqrt(mean(square(centered), {-1}) + epsilon) * scale + bias;
//     }
//   };
//
// A layer needs no separate function for shapes: creating a state calls the model once with values that have no memory,
// and adds every leaf that it requests. Errors name the layer's path and the user's line.
class Scope {
 public:
  // A parameter: f32 in the state, here in the dtype of the state's precision. Fans default to those of a matrix (in,
  // out) or, for other ranks, of (..., in, out). Each name may be requested once in a scope: a part that is called
  // several times gets a child each time, or same(). Errors: invalid_argument for a name that was requested before;
  // shape_mismatch if it has another shape in the state; not_found for a leaf that the state does not have.
  Var param(const std::string& name, const Shape& shape, const Initializer& initializer,
            const std::optional<Fans>& fans = {}, const CallPlace& at = std::source_location::current()) const;
  // A leaf of another collection, "batch_stats" for example. Errors as param.
  Variable variable(const std::string& collection, const std::string& name, const Shape& shape,
                    const Initializer& initializer, DType dtype = DType::f32,
                    const CallPlace& at = std::source_location::current()) const;
  // A key for random numbers, derived from the state's seed and step, the purpose, this scope's path, and the number of
  // keys drawn here before. Each call of value_and_grad in a step gets other keys. Arrays of whole batch rows, in
  // order, get the same numbers for each row on any number of ranks; for an array that is the same on all ranks, set
  // first_row to 0. Error(invalid_argument) if the state has no key.
  Key key(const std::string& purpose, const CallPlace& at = std::source_location::current()) const;
  Mode mode() const;
  bool training() const { return mode() == Mode::train; }
  // How many ranks share the batch; 1 without a partitioner.
  int ranks() const;
  // The mean over the ranks that share the batch; x itself if this rank is alone. Its gradient is such a mean, too.
  Var mean_over_ranks(const Var& x, Where where = Where::current()) const;

  // The scope of a part of this layer, whose leaves are named `name`/... The same name always gives the same scope.
  Scope child(const std::string& name) const;
  // A scope with the same leaves, for a part that is called several times with the same parameters, such as a cell in
  // each step of a sequence.
  Scope same() const;
  // f(child, inputs...) in a new child with that name and a number, counted for each name: block0, block1. Of calls in
  // one full expression, the number follows the text, whatever the order in which they are evaluated.
  template <class F, class... In>
  decltype(auto) call(const CallName& name, const F& f, In&&... inputs) const {
    Scope scope = numbered_child(name.name(), name, vars_of(inputs...));
    const auto run_it = [&]() -> decltype(auto) {
      return scope.run([&]() -> decltype(auto) { return f(scope, std::forward<In>(inputs)...); });
    };
    if constexpr (std::is_void_v<decltype(run_it())>) {
      run_it();
    } else {
      decltype(auto) result = run_it();
      note_results(name, vars_of(result));
      return result;
    }
  }
  // A new child with that name and its next number, for a call with these inputs. Then its results are noted.
  Scope numbered_child(const std::string& name, const CallPlace& at, const std::vector<Var>& inputs) const;
  void note_results(const CallPlace& at, const std::vector<Var>& results) const;
  // The child of `owner`, which is kept alive: a new one with the next number, or same() of the existing one.
  Scope child_of(const std::shared_ptr<const void>& owner, const std::string& name, const CallPlace& at,
                 const std::vector<Var>& inputs) const;
  // f(), with errors that name this scope.
  template <class F>
  decltype(auto) run(F&& f) const {
    try {
      return f();
    } catch (const Error& error) {
      rethrow(error);
    }
  }

  // A copy of this scope in which the same calls give the same results: children and keys are numbered from here,
  // variables have their present values, and set() has no effect.
  Scope again() const;

  // Whether a state is being created, so that leaves are declared.
  bool declares() const;
  const std::string& path() const noexcept { return path_; }  // "block0/dense1"; empty at the root
  const Stream& stream() const;

 private:
  friend class Params;
  struct Frame;
  Scope(std::shared_ptr<ScopeTree> tree, std::string path, std::string evaluated);
  std::string below(const std::string& name) const { return path_.empty() ? name : path_ + "/" + name; }
  void expect_new(const std::string& collection, const std::string& name) const;
  Var declare(const std::string& collection, const std::string& name, DType dtype, const Shape& shape,
              const Initializer& initializer, const std::optional<Fans>& fans) const;
  [[noreturn]] void rethrow(const Error& error) const;
  // Those of the values that are Vars.
  template <class... T>
  static std::vector<Var> vars_of(const T&... values) {
    std::vector<Var> vars;
    const auto add = [&]<class U>(const U& value) {
      if constexpr (std::is_same_v<U, Var>) vars.push_back(value);
      if constexpr (std::is_same_v<U, std::vector<Var>>) vars.insert(vars.end(), value.begin(), value.end());
    };
    (add(values), ...);
    return vars;
  }
  // A number for a call that is the `evaluated`th of its kind in this scope.
  int number(const std::string& kind, int evaluated, const CallPlace& at, const std::vector<Var>& inputs) const;
  Scope child(const std::string& name, const std::string& evaluated) const;

  detail::Handle<ScopeTree> tree_;
  std::string path_, evaluated_;  // the second with the numbers of evaluation
  detail::Handle<Frame> frame_;
};

}  // namespace giro::nn
