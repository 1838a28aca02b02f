#include <giro/kernels/optim/train_state.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include <giro/kernels/nn/functional.h>
#include <giro/runtime/error.h>

#include "kernels/elementwise.h"
#include "kernels/nn/call_order.h"
#include "kernels/nn/declared_leaves.h"
#include "kernels/nn/store.h"
#include "kernels/optim/update_plan.h"
#include "runtime/call_site.h"
#include "runtime/held_values.h"
#include "runtime/temporary.h"
#include "runtime/text.h"
#include "runtime/throw_error.h"

namespace giro {
namespace {

constexpr const char* kLossScale = "loss_scale";

// A leaf's path below its collection.
std::string below(const Collection& collection, const Leaf& leaf) {
  return leaf.path.substr(collection.name().size() + 1);
}

// The declared leaves of each collection, in the order in which they were first declared; params first.
std::vector<std::pair<std::string, std::vector<nn::DeclaredLeaf>>> by_collection(
    std::vector<nn::DeclaredLeaf> declared) {
  std::vector<std::pair<std::string, std::vector<nn::DeclaredLeaf>>> collections{{"params", {}}};
  for (nn::DeclaredLeaf& leaf : declared) {
    auto found = std::ranges::find(collections, leaf.collection, &decltype(collections)::value_type::first);
    if (found == collections.end()) found = collections.insert(found, {leaf.collection, {}});
    found->second.push_back(std::move(leaf));
  }
  return collections;
}

// A function that sets the leaves of a collection to their initial values. Each has its own random numbers, by its
// number, counted from `first`.
std::function<void(const Collection&, const Stream&)> initial_values(const std::vector<nn::DeclaredLeaf>& declared,
                                                                     std::uint64_t seed, std::uint64_t first) {
  struct Initial {
    nn::DeclaredLeaf declared;
    Rng rng;
    std::optional<float> everywhere = {};  // the value of all elements, if known to be equal
  };
  const auto all = std::make_shared<std::vector<Initial>>();
  for (const nn::DeclaredLeaf& leaf : declared) all->push_back({leaf, {seed, RngPurpose::initial_value, first++}});
  return [all](const Collection& collection, const Stream& stream) {
    for (std::size_t i = 0; i < all->size(); ++i) {
      Initial& initial = (*all)[i];
      const Tensor& leaf = collection.leaves()[i].value;
      detail::before_write(leaf, stream);
      if (!initial.everywhere) {
        const std::vector<float> values =
            initial.declared.initializer(leaf.count(), initial.declared.fans, initial.rng);
        if (!values.empty() && std::ranges::all_of(values, [&](float value) { return value == values.front(); })) {
          initial.everywhere = values.front();
        } else if (leaf.dtype() == DType::f32) {
          from_host(leaf, values, stream);
        } else {
          const Temporary in_f32(DType::f32, leaf.shape(), stream);
          from_host(in_f32, values, stream);
          ops::cast(leaf, in_f32, stream);
        }
      }
      if (initial.everywhere) ops::fill(leaf, *initial.everywhere, stream);
    }
  };
}

}  // namespace

TrainState::TrainState(std::optional<nn::Layer> model, optim::Optimizer optimizer, const DeviceContext& context)
    : State(context), model_(std::move(model)), optimizer_(std::move(optimizer)) {}

TrainState TrainState::create_traced(const std::function<void(const nn::Params&, const Features&)>& model,
                                     std::optional<nn::Layer> layer, optim::Optimizer optimizer,
                                     const TrainStateOptions& options) {
  const detail::ContextUse use(options.context);
  const Precision precision = options.precision;
  expect_supported(precision, options.context.device());
  if (options.inputs.empty()) throw_invalid("a train state needs the spec of its input, found an empty one");
  TrainState state(std::move(layer), std::move(optimizer), options.context);
  state.precision_ = precision;
  const Shard shard = options.partitioner ? options.partitioner->update_shard() : Shard{};
  std::vector<LeafSpec> leaves;  // of params
  std::uint64_t drawn = 0;       // how many leaves have been initialized
  nn::ScopeValues values{.stream = state.stream(), .mode = nn::Mode::train, .partitioner = options.partitioner};
  values.dtype = compute_dtype(precision);
  values.order = state.order_ = std::make_shared<nn::CallOrder>();
  std::vector<nn::DeclaredLeaf> all = nn::declared_leaves(model, options.inputs, std::move(values));
  for (const auto& [name, declared] : by_collection(std::move(all))) {
    const bool is_params = name == "params";
    std::vector<LeafSpec> specs;
    for (const nn::DeclaredLeaf& leaf : declared) {
      specs.push_back({leaf.name, is_params ? DType::f32 : leaf.dtype, leaf.shape});
    }
    const auto own = options.collections.find(name);
    CollectionOptions kept = own != options.collections.end() ? own->second : CollectionOptions{};
    if (is_params) {
      kept = {.parts = shard.count};
      leaves = specs;
    } else {
      state.variables_.push_back(name);
    }
    const Collection& collection = state.add(name, specs, kept);
    const auto set = initial_values(declared, options.seed, drawn);
    drawn += declared.size();
    set(collection, state.stream());
    state.initial_.emplace(name, set);
  }
  for (const auto& [name, kept] : options.collections) {
    if (std::ranges::find(state.variables_, name) != state.variables_.end()) continue;
    throw_error(ErrorCode::not_found,
                "create: options for the collection '{}', which is not one of the model's variables{}", name,
                suggestion(name, state.variables_));
  }
  state.add("grads", leaves, {.saved = false, .parts = shard.count});
  state.plan_ = std::make_shared<const optim::UpdatePlan>(state.optimizer_, leaves, shard, state.stream());
  state.plan_->add_to(state);
  state.add("step", {{"", DType::i64, {}}});
  state.add("learning_rate", {{"", DType::f32, {}}}, {.saved = false});
  ops::fill(state.add("learning_rate_scale", {{"", DType::f32, {}}}).leaves().front().value, 1, state.stream());
  if (precision == Precision::f16) {
    state.add(kLossScale, {{"scale", DType::f32, {}}, {"good_steps", DType::i64, {}}, {"skipped", DType::i64, {}}});
    from_host(state.loss_scale().scale, std::vector{optim::LossScale::kInitial}, state.stream());
  }
  const Collection& seed_leaf = state.add("seed", {{"", DType::i64, {}}});
  from_host(seed_leaf.leaves().front().value, std::vector{static_cast<std::int64_t>(options.seed)}, state.stream());
  state.partitioner_ = options.partitioner;
  if (state.partitioner_) {
    state.partitioner_->expect_same("the training state", fmt::format("precision {}\nseed {}\n{}", name_of(precision),
                                                                      options.seed, state.plan_->description()));
    state.partitioner_->replicate(state);
  }
  return state;
}

void TrainState::reject_inputs(std::size_t found, std::size_t expected) {
  throw_invalid("the model takes {} inputs, but the state is created with {}", expected, found);
}

TrainState::TrainState(State leaves, const TrainState& other)
    : State(std::move(leaves)),
      model_(other.model_),
      order_(other.order_),
      variables_(other.variables_),
      initial_(other.initial_),
      optimizer_(other.optimizer_),
      plan_(other.plan_),
      partitioner_(other.partitioner_),
      precision_(other.precision_) {}

const nn::Layer& TrainState::model() const {
  if (model_) return *model_;
  throw_invalid("the state was created for a function, not for an nn::Layer, so it has no layer");
}

nn::Params TrainState::params() const { return differentiated_ != nullptr ? *differentiated_ : params(nn::Mode::eval); }
nn::Params TrainState::params(nn::Mode mode) const { return nn::Params(values_in_precision(nullptr, mode)); }

const Collection& TrainState::averages(State& whole) const {
  const Collection& own = collection("ema");
  if (!own.is_sharded()) return own;
  const Shard shard = partitioner_->update_shard();
  const Collection& all = whole.add("ema", own.specs(), {.saved = false, .parts = shard.count});
  copy(all.flat(shard), own.flat(), stream());
  partitioner_->gather_shards(all, stream());
  return all;
}

nn::Params TrainState::ema_params(nn::Mode mode) const {
  nn::ScopeValues values = values_in_precision(nullptr, mode);
  const auto whole = std::make_shared<State>(context());
  const Collection& leaves = averages(*whole);
  const bool is_gathered = whole->contains_collection("ema");
  for (auto& [name, value] : leaves_in_precision(leaves, nullptr, is_gathered ? whole : nullptr)) {
    values.params.insert_or_assign(name, value);
  }
  return nn::Params(std::move(values));
}

State TrainState::averaged() const {
  State gathered(context()), result(context());
  const Collection& leaves = averages(gathered);
  const auto add = [&](const std::string& name) {
    const Collection& own = collection(name);
    copy(result.add(name, own.specs(), own.options()).bytes(), own.bytes(), stream());
  };
  add("params");
  for (const std::string& name : variables_) add(name);
  for (const Leaf& leaf : leaves.leaves()) copy(result.at("params/" + below(leaves, leaf)), leaf.value, stream());
  return result;
}

void TrainState::reset(const std::string& name) {
  const auto found = initial_.find(name);
  if (found != initial_.end()) return found->second(collection(name), stream());
  throw_error(ErrorCode::not_found, "reset: '{}' is not a collection of the model{}", name, suggestion(name, initial_));
}

std::map<std::string, nn::Var> TrainState::leaves_in_precision(const Collection& leaves, const Collection* grads,
                                                               const std::shared_ptr<const void>& owner) const {
  const DType dtype = compute_dtype(precision_);
  const bool is_converted = dtype != DType::f32;
  // Converts all leaves at once, at their places in the flat buffer.
  const Tensor flat = leaves.flat();
  const nn::Var copies = is_converted ? nn::uninitialized(dtype, flat.shape(), stream()) : nn::Var();
  if (is_converted && flat.count() > 0) ops::cast(copies.value(), flat, stream());
  std::map<std::string, nn::Var> result;
  for (std::size_t i = 0; i < leaves.leaves().size(); ++i) {
    const Leaf& leaf = leaves.leaves()[i];
    Tensor value = leaf.value;
    if (is_converted) {
      const auto begin = static_cast<const float*>(leaf.value.raw()) - static_cast<const float*>(flat.raw());
      value = copies.value().rows(begin, begin + value.count()).reshape(value.shape());
    }
    const nn::Var var = grads != nullptr && !plan_->is_frozen(i)
                            ? nn::Var::parameter(value, grads->leaves()[i].value, stream())
                        : owner && !is_converted ? nn::Var(value, owner).on(stream())
                                                 : nn::Var(value, stream());
    var.set_math_mode(math_mode_of(precision_));
    result.emplace(below(leaves, leaf), var);
  }
  return result;
}

nn::ScopeValues TrainState::values_in_precision(const Collection* grads, nn::Mode mode) const {
  nn::ScopeValues values{.stream = stream(), .mode = mode};
  values.order = order_;
  values.params = leaves_in_precision(collection("params"), grads);
  for (const std::string& name : variables_) {
    for (const Leaf& leaf : collection(name).leaves()) {
      values.variables.emplace(leaf.path, nn::Var(leaf.value, stream()));
    }
  }
  // One key for all draws of a step.
  values.key = [seed = at("seed"), step = at("step"), on = stream(), key = std::make_shared<std::optional<nn::Var>>()] {
    if (!*key) *key = fold_in(nn::Var(seed, on), nn::Var(step, on)).base.var;
    return **key;
  };
  const detail::StepContext& step = detail::StepScope::current();
  values.first_row = step.first_row;
  values.rows = step.rows;
  values.partitioner = partitioner_;
  // The backward pass may still need the old values, so value_and_grad writes the new ones at its end.
  if (grads == nullptr) {
    std::map<std::string, Tensor> leaves;
    for (const std::string& name : variables_) {
      for (const Leaf& leaf : collection(name).leaves()) leaves.emplace(leaf.path, leaf.value);
    }
    values.assign = [leaves, on = stream()](const std::string& path, const nn::Var& value) {
      nn::store(leaves.at(path), value);
      return nn::Var(leaves.at(path), on);
    };
  }
  return values;
}

void TrainState::expect_parts(int parts, std::source_location where) {
  if (parts >= 1) return;
  const detail::CallSite site(where);
  throw_invalid("value_and_grad: {} parts, expected at least 1", parts);
}

void TrainState::backward(const nn::Var& loss, const nn::Params& params, std::source_location where, int part,
                          int parts) const {
  const detail::CallSite site(where);
  nn::PartCalls::expect_mean(loss);
  loss.set_direction(nn::Direction::lower);
  const Collection& grads = collection("grads");
  nn::BackwardOptions options{.seed = detail::StepScope::current().weight / parts, .scale = loss_scale().scale};
  const bool is_last = part + 1 == parts;
  const std::unique_ptr<GradientReduction> reduction =
      partitioner_ && is_last ? partitioner_->reduce(grads, context()) : nullptr;
  std::unordered_map<const void*, std::size_t> leaf_of;  // by the address that the model sees
  if (reduction) {
    for (std::size_t i = 0; i < grads.leaves().size(); ++i) {
      leaf_of.emplace(params[below(grads, grads.leaves()[i])].value().place(), i);
    }
    options.on_gradient = [&](const nn::Var& parameter) {
      const auto leaf = leaf_of.find(parameter.value().place());
      if (leaf != leaf_of.end()) reduction->ready(leaf->second);
    };
  }
  detail::before_write(grads.bytes(), stream());
  nn::backward(loss, options);
  for (const auto& [path, value] : params.written()) nn::store(at(path), value);
  if (!is_last) return;
  // Gradients of frozen parameters stay zero.
  for (std::size_t i = 0; i < grads.leaves().size(); ++i) {
    const Leaf& leaf = grads.leaves()[i];
    if (plan_->is_frozen(i) || params[below(grads, leaf)].has_grad()) continue;
    stream().fill(leaf.value.raw(), 0, leaf.value.bytes());
  }
  if (reduction) reduction->finish();
}

optim::LossScale TrainState::loss_scale() const {
  if (!contains_collection(kLossScale)) return {};
  const std::vector<Leaf>& leaves = collection(kLossScale).leaves();
  return {leaves[0].value, leaves[1].value, leaves[2].value};
}

std::map<std::string, nn::Var> TrainState::gradients_of(const nn::Var& loss, const nn::Params& params,
                                                        std::source_location where) const {
  const detail::CallSite site(where);
  loss.set_direction(nn::Direction::lower);
  std::vector<std::string> names;
  std::vector<nn::Var> leaves;
  for (const auto& [name, value] : params.all()) {
    if (!value.requires_grad()) continue;
    names.push_back(name);
    leaves.push_back(value);
  }
  const Tensor scale = loss_scale().scale;
  const nn::Var part = detail::StepScope::current().weight * loss;
  const std::vector<nn::Var> grads =
      nn::gradients(scale ? part * nn::Var(scale, stream()) : part, leaves, {.differentiable = false});
  for (const auto& [path, value] : params.written()) nn::store(at(path), value);
  std::map<std::string, nn::Var> result;
  for (std::size_t i = 0; i < names.size(); ++i) {
    nn::Var grad = nn::stop_gradient(nn::cast(grads[i], DType::f32));
    if (scale) grad = grad / nn::Var(scale, stream());
    if (partitioner_) {
      grad = 1.0 * grad;  // in its own memory
      partitioner_->mean(grad.value(), stream());
    }
    result.emplace(names[i], grad);
  }
  return result;
}

nn::Var TrainState::gradient_norm() const {
  const Tensor grads = collection("grads").flat(partitioner_ ? partitioner_->update_shard() : Shard{});
  const nn::Var squares = nn::Var::computed(DType::f64, {}, {nn::Var(grads, stream())}, nullptr);
  ops::sum_of_squares(squares.value(), grads, stream());
  if (partitioner_) partitioner_->sum_over_shards(squares.value(), stream());
  const Tensor scale = loss_scale().scale;
  const nn::Var norm = nn::sqrt(squares);
  return nn::cast(scale ? norm / nn::Var(scale, stream()) : norm, DType::f32);
}

void TrainState::set_learning_rate_scale(double scale) {
  if (!std::isfinite(scale) || scale < 0) {
    throw_invalid("set_learning_rate_scale: found {}, expected a finite number >= 0", scale);
  }
  detail::before_write(at("learning_rate_scale"), stream());
  ops::fill(at("learning_rate_scale"), scale, stream());
}

void TrainState::apply_gradients(std::source_location where) {
  const detail::ContextUse use(context());
  const detail::CallSite site(where);
  plan_->apply(*this, loss_scale(), partitioner_.get());
  detail::before_write(at("step"), stream());
  ops::increment(at("step"), 1, stream());
}

}  // namespace giro
