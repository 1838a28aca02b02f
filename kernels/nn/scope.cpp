#include <giro/kernels/nn/scope.h>

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>
#include <string_view>

#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/partitioner.h>
#include <giro/runtime/step_context.h>

#include "kernels/nn/apply.h"
#include "kernels/nn/call_order.h"
#include "kernels/nn/store.h"
#include "runtime/call_site.h"
#include "runtime/checksum.h"
#include "runtime/text.h"
#include "runtime/throw_error.h"

namespace giro::nn {
namespace {

constexpr const char* kParams = "params";

[[noreturn]] void reject_shape(const std::string& path, const Tensor& found, DType dtype, const Shape& shape) {
  throw_error(found.shape() == shape ? ErrorCode::dtype_mismatch : ErrorCode::shape_mismatch,
              "'{}' is {}, but the layer requests {}{}", path, to_string(found), name_of(dtype), to_string(shape));
}

// The fans of a matrix (in, out). Axes before it are a window, which multiplies both fans.
Fans default_fans(const Shape& shape) {
  if (shape.rank() == 0) return {};
  if (shape.rank() == 1) return {shape[0], shape[0]};
  const std::int64_t window = Shape(std::span(shape.begin(), shape.end() - 2)).count();
  return {window * shape[-2], window * shape[-1]};
}

const Var& find(const std::map<std::string, Var>& vars, const std::string& name, const char* what) {
  const auto found = vars.find(name);
  if (found != vars.end()) return found->second;
  throw_error(ErrorCode::not_found, "no {} '{}'{}", what, name, suggestion(name, vars));
}

}  // namespace

struct ScopeTree {
  std::shared_ptr<const ScopeValues> values;
  std::map<std::string, Var> written = {}, assigned = {};  // what was set; the second is in the state
  bool forgets = false;                                    // discards what is set
  std::map<std::string, int> draws = {};                   // keys drawn so far, by path and purpose
  std::map<std::string, Var> declared = {};                // placeholder values of declared leaves, by path
};

Params::Params(std::map<std::string, Var> params, const Stream& stream, Mode mode)
    : Params(ScopeValues{.stream = stream, .mode = mode, .params = std::move(params)}) {}

Params::Params(ScopeValues values)
    : tree_(std::make_shared<ScopeTree>(ScopeTree{std::make_shared<const ScopeValues>(std::move(values))})) {}

const Var& Params::operator[](const std::string& name) const { return find(all(), name, "parameter"); }
const std::map<std::string, Var>& Params::all() const& { return tree_->values->params; }
std::map<std::string, Var> Params::all() && { return std::as_const(*this).all(); }
const Stream& Params::stream() const { return tree_->values->stream; }
Mode Params::mode() const { return tree_->values->mode; }
const std::map<std::string, Var>& Params::written() const& { return tree_->written; }
std::map<std::string, Var> Params::written() && { return std::as_const(*this).written(); }
Params::operator Scope() const { return Scope(tree_, "", ""); }

const Var& Variable::value() const {
  for (const auto* const set : {&tree_->written, &tree_->assigned}) {
    const auto found = set->find(path_);
    if (found != set->end()) return found->second;
  }
  if (tree_->values->declared != nullptr) return tree_->declared.at(path_);
  return find(tree_->values->variables, path_, "variable");
}

void Variable::set(const Var& given, Where where) const {
  const detail::CallSite site(where);
  const Var& old = value();
  if (tree_->values->mode == Mode::eval) {
    throw_invalid("variable '{}' is set by a model that is called for evaluation, expected a check of training() first",
                  path_);
  }
  if (given.shape() != old.shape() || given.dtype() != old.dtype()) {
    reject_shape(path_, old.value(), given.dtype(), given.shape());
  }
  if (tree_->forgets) return;
  const Var value = stop_gradient(given);
  if (tree_->values->assign) {
    tree_->assigned.insert_or_assign(path_, tree_->values->assign(path_, value));
  } else {
    tree_->written.insert_or_assign(path_, value);
  }
}

// The names that a scope has given out so far.
struct Scope::Frame {
  std::map<std::string, int> counts;    // of numbered names
  std::set<std::string> names, leaves;  // of children, and of leaves with their collections
  std::map<std::string, std::shared_ptr<Frame>> children;
  struct Owned {
    std::shared_ptr<const void> owner;
    std::string path, evaluated;
  };
  std::vector<Owned> owners;
  std::shared_ptr<CallGroup> group;  // the latest calls in one full expression
};

Scope::Scope(std::shared_ptr<ScopeTree> tree, std::string path, std::string evaluated)
    : tree_(std::move(tree)),
      path_(std::move(path)),
      evaluated_(std::move(evaluated)),
      frame_(std::make_shared<Frame>()) {}

void Scope::expect_new(const std::string& collection, const std::string& name) const {
  if (frame_->leaves.insert(collection + "/" + name).second) return;
  throw_invalid(
      "'{}' of {} is requested twice in one scope; expected a child for each layer, s.call(\"name\", layer, x), or "
      "s.same() to use the same leaves again",
      below(name), collection);
}

Var Scope::declare(const std::string& collection, const std::string& name, DType dtype, const Shape& shape,
                   const Initializer& initializer, const std::optional<Fans>& fans) const {
  const std::string path = fmt::format("{}/{}", collection, below(name));
  const auto [found, is_new] = tree_->declared.try_emplace(path);
  if (is_new) {
    found->second = uninitialized(dtype, shape, tree_->values->stream);
    tree_->values->declared->push_back(
        {collection, below(name), dtype, shape, fans.value_or(default_fans(shape)), initializer});
  }
  return found->second;
}

Var Scope::param(const std::string& name, const Shape& shape, const Initializer& initializer,
                 const std::optional<Fans>& fans, const CallPlace& at) const {
  const detail::CallSite site(at.where());
  expect_new(kParams, name);
  if (declares()) number("leaf " + name, 0, at, {});
  const ScopeValues& values = *tree_->values;
  const Var found = values.declared != nullptr ? declare(kParams, name, values.dtype, shape, initializer, fans)
                                               : find(values.params, below(name), "parameter");
  if (found.shape() != shape) reject_shape(below(name), found.value(), found.dtype(), shape);
  return found;
}

Variable Scope::variable(const std::string& collection, const std::string& name, const Shape& shape,
                         const Initializer& initializer, DType dtype, const CallPlace& at) const {
  const detail::CallSite site(at.where());
  expect_new(collection, name);
  if (declares()) {
    number("leaf " + name, 0, at, {});
    declare(collection, name, dtype, shape, initializer, {});
  }
  Variable variable(tree_, fmt::format("{}/{}", collection, below(name)));
  const Tensor& found = variable.value().value();
  if (found.shape() != shape || found.dtype() != dtype) reject_shape(variable.path_, found, dtype, shape);
  return variable;
}

Key Scope::key(const std::string& purpose, const CallPlace& at) const {
  if (!tree_->values->key) {
    throw_invalid("a key for '{}' is requested, but the parameters were given without one", purpose);
  }
  detail::Checksum checksum;
  std::string place = fmt::format("{}\n{}", path_, purpose);
  const int draw = number("key " + purpose, tree_->draws[place]++, at, {});
  place += fmt::format("\n{}\n{}", draw, tree_->values->draw);
  checksum.add(place.data(), place.size());
  Key key = tree_->values->key();
  key.node = static_cast<std::int64_t>(std::stoull(checksum.digits(), nullptr, 16));
  key.first_row = tree_->values->first_row;
  key.rows = tree_->values->rows;
  return key;
}

bool Scope::declares() const { return tree_->values->declared != nullptr; }
Mode Scope::mode() const { return tree_->values->mode; }
const Stream& Scope::stream() const { return tree_->values->stream; }

int Scope::ranks() const { return tree_->values->partitioner ? tree_->values->partitioner->size() : 1; }

Var mean_of_ranks(std::shared_ptr<const Partitioner> ranks, const Var& x) {
  Var y = Var::computed(x.dtype(), x.shape(), {x}, [ranks](const Var&, const Var& dy, const std::vector<Var>&) {
    return mean_of_ranks(ranks, dy);
  });
  copy(y.value(), x.value(), y.stream());
  ranks->mean(y.value(), y.stream());
  return y;
}

Var Scope::mean_over_ranks(const Var& x, Where where) const {
  const detail::CallSite site(where);
  const auto& partitioner = tree_->values->partitioner;
  if (ranks() == 1) return x;
  const double weight = detail::StepScope::current().weight;
  return mean_of_ranks(partitioner, weight == 1 ? x : x * weight);
}

Scope Scope::child(const std::string& name) const {
  frame_->names.insert(name);
  return child(name, name);
}

Scope Scope::child(const std::string& name, const std::string& evaluated) const {
  Scope child(tree_, below(name), evaluated_.empty() ? evaluated : evaluated_ + "/" + evaluated);
  child.frame_ = frame_->children.try_emplace(name, child.frame_).first->second;
  return child;
}

Scope Scope::same() const { return Scope(tree_, path_, evaluated_); }

int Scope::number(const std::string& kind, int evaluated, const CallPlace& at, const std::vector<Var>& inputs) const {
  const std::shared_ptr<CallOrder>& order = tree_->values->order;
  if (!order) return evaluated;
  const std::string key = evaluated_ + "\n" + kind;
  const int number = order->is_known ? order->number_of(key, evaluated) : evaluated;
  if (!declares()) return number;
  const std::shared_ptr<std::vector<DeclaredLeaf>>& declared = tree_->values->declared;
  std::shared_ptr<CallGroup>& group = frame_->group;
  if (!group || group->open == 0) group = std::make_shared<CallGroup>(order, declared);
  if (at.group_.get() != group.get()) {  // a place may be passed on to several calls
    at.leave();
    ++group->open;
    at.group_ = group;
  }
  at.index_ = group->calls.size();
  at.since_ = Var::next_number();
  std::vector<std::size_t> used;
  for (const Var& input : inputs) {
    for (const auto& [of, index] : input.node_->calls) {
      if (of == group) used.push_back(index);
    }
  }
  group->calls.push_back({key, number, at.where(), std::move(used), declared->size()});
  return number;
}

Scope Scope::numbered_child(const std::string& name, const CallPlace& at, const std::vector<Var>& inputs) const {
  int evaluated = 0;
  std::string taken;
  do {
    evaluated = frame_->counts[name]++;
    taken = fmt::format("{}{}", name, evaluated);
  } while (!frame_->names.insert(taken).second);
  return child(fmt::format("{}{}", name, number(name, evaluated, at, inputs)), taken);
}

void Scope::note_results(const CallPlace& at, const std::vector<Var>& results) const {
  if (at.group_.get() == nullptr) return;
  for (const Var& result : results) {
    const bool is_an_input = result.node_->number < at.since_;
    if (!is_an_input) result.node_->calls.emplace_back(at.group_, at.index_);
  }
}

Scope Scope::child_of(const std::shared_ptr<const void>& owner, const std::string& name, const CallPlace& at,
                      const std::vector<Var>& inputs) const {
  const auto found = std::ranges::find(frame_->owners, owner, &Frame::Owned::owner);
  if (found != frame_->owners.end()) return Scope(tree_, found->path, found->evaluated);
  const Scope made = numbered_child(name, at, inputs);
  frame_->owners.push_back({owner, made.path_, made.evaluated_});
  return made;
}

Scope Scope::again() const {
  Scope same(std::make_shared<ScopeTree>(*tree_), path_, evaluated_);
  same.tree_->forgets = true;
  *same.frame_ = *frame_;
  return same;
}

void Scope::rethrow(const Error& error) const {
  constexpr std::string_view kLayer = "layer '";
  const std::string_view message = error.what();
  if (path_.empty() || message.starts_with(kLayer)) throw;
  throw Error(error.code(), fmt::format("{}{}': {}", kLayer, path_, message), error.where());
}

}  // namespace giro::nn
