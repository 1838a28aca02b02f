#include <giro/kernels/nn/train_state.h>

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include <giro/kernels/elementwise.h>
#include <giro/kernels/nn/functional.h>
#include <giro/kernels/reduce.h>
#include <giro/runtime/error.h>

#include "kernels/internal/declared_leaves.h"
#include "runtime/internal/call_site.h"

namespace giro {
namespace {

constexpr const char* kLossScale = "loss_scale";

// A leaf's path below its collection.
std::string below(const Collection& collection, const Leaf& leaf) {
  return leaf.path.substr(collection.name().size() + 1);
}

// For each granule of the flat params, whether weight decay applies.
std::vector<std::uint8_t> decay_granules(const Collection& params, const optim::DecayMask& mask) {
  constexpr std::int64_t kGranule = optim::UpdateTensors::kGranule;
  static_assert(kGranule * sizeof(float) == Collection::kLeafAlignment, "a granule must not straddle two leaves");
  std::vector<std::uint8_t> decays;
  for (const Leaf& leaf : params.leaves()) {
    const auto granules = static_cast<std::size_t>((leaf.value.count() + kGranule - 1) / kGranule);
    decays.insert(decays.end(), granules, mask(below(params, leaf)) ? 1 : 0);
  }
  decays.resize(static_cast<std::size_t>(params.flat().count() / kGranule));  // no decay in the padding
  return decays;
}

// What must be the same on all ranks, one item per line.
std::string description(const optim::UpdateRule& rule, std::uint64_t seed, Precision precision) {
  std::string lines = fmt::format(
      "precision {}\nseed {}\n{}, momentum {}{}\nbeta1 {}, beta2 {}, epsilon {}\nweight_decay {}, max_norm {}\n",
      name_of(precision), seed, rule.rule == optim::Rule::adam ? "adam" : "sgd", rule.momentum,
      rule.nesterov ? ", nesterov" : "", rule.beta1, rule.beta2, rule.epsilon, rule.weight_decay, rule.max_norm);
  for (const std::int64_t step : {0, 1, 10, 100, 1'000, 10'000, 100'000}) {
    lines += fmt::format("learning rate {} at step {}\n", rule.learning_rate(step), step);
  }
  return lines;
}

}  // namespace

TrainState::TrainState(std::optional<nn::Layer> model, optim::Optimizer optimizer, const DeviceContext& context)
    : State(context), model_(std::move(model)), optimizer_(std::move(optimizer)) {}

namespace {

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

}  // namespace

TrainState TrainState::create_traced(const std::function<void(const nn::Params&, const Features&)>& model,
                                     std::optional<nn::Layer> layer, optim::Optimizer optimizer,
                                     const TrainStateOptions& options) {
  const Precision precision = options.precision;
  expect_supported(precision, options.context.device());
  if (options.inputs.empty()) {
    throw Error(ErrorCode::invalid_argument, "a train state needs the spec of its input, found an empty one");
  }
  TrainState state(std::move(layer), std::move(optimizer), options.context);
  state.precision_ = precision;
  const Shard shard = options.partitioner ? options.partitioner->update_shard() : Shard{};
  std::vector<LeafSpec> leaves;  // of params
  std::uint64_t drawn = 0;       // each leaf has its own random numbers
  nn::ScopeValues values{.stream = state.stream(), .mode = nn::Mode::train, .partitioner = options.partitioner};
  values.dtype = compute_dtype(precision);
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
    for (std::size_t i = 0; i < declared.size(); ++i) {
      const Tensor& leaf = collection.leaves()[i].value;
      const std::vector<float> values = declared[i].initializer(leaf.count(), declared[i].fans,
                                                                Rng{options.seed, RngPurpose::initial_value, drawn++});
      if (leaf.dtype() == DType::f32) {
        from_host(leaf, values, state.stream());
      } else {
        const Buffer memory = state.stream().allocate(values.size() * sizeof(float));
        const Tensor in_f32(memory.data(), DType::f32, leaf.shape(), state.device());
        from_host(in_f32, values, state.stream());
        cast(leaf, in_f32, state.stream());
      }
    }
  }
  const Collection& params = state.collection("params");
  state.add("grads", leaves, {.saved = false, .parts = shard.count});
  const optim::UpdateRule& rule = state.optimizer_.rule;
  CollectionOptions of_moments{.parts = shard.count};
  if (shard.count > 1) of_moments.part = shard.index;
  if (rule.rule == optim::Rule::adam || rule.momentum > 0) state.add("opt_state/mu", leaves, of_moments);
  if (rule.rule == optim::Rule::adam) state.add("opt_state/nu", leaves, of_moments);
  if (state.optimizer_.decay_mask) {
    const std::vector<std::uint8_t> decays = decay_granules(params, state.optimizer_.decay_mask);
    const auto count = static_cast<std::int64_t>(decays.size());
    from_host(state.add("opt_state/decays", {{"", DType::u8, {count}}}, {.saved = false}).leaves().front().value,
              decays, state.stream());
  }
  state.add("step", {{"", DType::i64, {}}});
  state.add("learning_rate", {{"", DType::f32, {}}}, {.saved = false});
  if (precision == Precision::f16) {
    state.add(kLossScale, {{"scale", DType::f32, {}}, {"good_steps", DType::i64, {}}, {"skipped", DType::i64, {}}});
    from_host(state.loss_scale().scale, std::vector{optim::LossScale::kInitial}, state.stream());
  }
  const Collection& seed_leaf = state.add("seed", {{"", DType::i64, {}}});
  from_host(seed_leaf.leaves().front().value, std::vector{static_cast<std::int64_t>(options.seed)}, state.stream());
  state.partitioner_ = options.partitioner;
  if (state.partitioner_) {
    state.partitioner_->expect_same("the training state", description(state.optimizer_.rule, options.seed, precision));
    state.partitioner_->replicate(state);
  }
  return state;
}

void TrainState::refuse_inputs(std::size_t found, std::size_t expected) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("the model takes {} inputs, the state is created with {}", expected, found));
}

TrainState::TrainState(State leaves, const TrainState& other)
    : State(std::move(leaves)),
      model_(other.model_),
      variables_(other.variables_),
      optimizer_(other.optimizer_),
      partitioner_(other.partitioner_),
      precision_(other.precision_) {}

const nn::Layer& TrainState::model() const {
  if (model_) return *model_;
  throw Error(ErrorCode::invalid_argument,
              "the state was created for a function, not for an nn::Layer, and keeps none");
}

nn::Params TrainState::params(nn::Mode mode) const {
  return differentiated_ != nullptr ? *differentiated_ : nn::Params(values_in_precision(nullptr, mode));
}

nn::ScopeValues TrainState::values_in_precision(const Collection* grads, nn::Mode mode) const {
  const Collection& params = collection("params");
  const DType dtype = compute_dtype(precision_);
  // Converts all leaves at once, at their places in the flat buffer.
  std::shared_ptr<const Buffer> storage;
  Tensor copies;
  if (dtype != DType::f32) {
    const Tensor flat = params.flat();
    storage =
        std::make_shared<const Buffer>(stream().allocate(static_cast<std::size_t>(flat.count()) * size_of(dtype)));
    copies = Tensor(storage, dtype, flat.shape());
    cast(copies, flat, stream());
  }
  nn::ScopeValues values{.stream = stream(), .mode = mode};
  for (std::size_t i = 0; i < params.leaves().size(); ++i) {
    const Leaf& leaf = params.leaves()[i];
    Tensor value = leaf.value;
    if (copies) {
      const auto begin = static_cast<const float*>(leaf.value.raw()) - static_cast<const float*>(params.flat().raw());
      value = copies.rows(begin, begin + value.count()).reshape(value.shape());
    }
    const nn::Var var =
        grads != nullptr ? nn::Var::parameter(value, grads->leaves()[i].value, stream()) : nn::Var(value, stream());
    var.set_math(math_of(precision_));
    values.params.emplace(below(params, leaf), var);
  }
  for (const std::string& name : variables_) {
    for (const Leaf& leaf : collection(name).leaves()) {
      values.variables.emplace(leaf.path, nn::Var(leaf.value, stream()));
    }
  }
  // One key for all that is drawn in a step.
  values.key = [seed = at("seed"), step = at("step"), on = stream(), key = std::make_shared<std::optional<nn::Var>>()] {
    if (!*key) *key = fold_in(nn::Var(seed, on), nn::Var(step, on));
    return **key;
  };
  values.first_row = BatchShare::first_row();
  values.partitioner = partitioner_;
  // The backward pass may still need the values of before, so value_and_grad writes the new ones at its end.
  if (grads == nullptr) {
    values.assign = [variables = values.variables](const std::string& path, const nn::Var& value) {
      copy(variables.at(path).value(), value.value(), value.stream());
    };
  }
  return values;
}

void TrainState::expect_parts(int parts, std::source_location where) {
  if (parts >= 1) return;
  const detail::CallSite site(where);
  throw Error(ErrorCode::invalid_argument, fmt::format("value_and_grad: {} parts, expected at least 1", parts));
}

void TrainState::backward(const nn::Var& loss, const nn::Params& params, std::source_location where, int part,
                          int parts) const {
  const detail::CallSite site(where);
  const Collection& grads = collection("grads");
  nn::BackwardOptions options{.seed = BatchShare::weight() / parts, .scale = loss_scale().scale};
  const bool is_last = part + 1 == parts;
  const std::unique_ptr<GradientReduction> reduction =
      partitioner_ && is_last ? partitioner_->reduce(grads, context()) : nullptr;
  std::unordered_map<const void*, std::size_t> leaf_of;  // by the address that the model sees
  if (reduction) {
    for (std::size_t i = 0; i < grads.leaves().size(); ++i) {
      leaf_of.emplace(params[below(grads, grads.leaves()[i])].value().raw(), i);
    }
    options.on_gradient = [&](const nn::Var& parameter) {
      const auto leaf = leaf_of.find(parameter.value().raw());
      if (leaf != leaf_of.end()) reduction->ready(leaf->second);
    };
  }
  nn::backward(loss, options);
  for (const auto& [path, value] : params.written()) copy(at(path), value.value(), stream());
  if (!is_last) return;
  for (const Leaf& leaf : grads.leaves()) {
    if (!params[below(grads, leaf)].has_grad()) stream().fill(leaf.value.raw(), 0, leaf.value.bytes());
  }
  if (reduction) reduction->finish();
}

optim::LossScale TrainState::loss_scale() const {
  if (!contains_collection(kLossScale)) return {};
  const std::vector<Leaf>& leaves = collection(kLossScale).leaves();
  return {leaves[0].value, leaves[1].value, leaves[2].value};
}

void TrainState::apply_gradients(std::source_location where) {
  const detail::CallSite site(where);
  const Shard shard = partitioner_ ? partitioner_->update_shard() : Shard{};
  const auto moments = [&](const char* name) { return contains_collection(name) ? collection(name).flat() : Tensor(); };
  optim::UpdateTensors tensors{.params = collection("params").flat(shard),
                               .grads = collection("grads").flat(shard),
                               .mu = moments("opt_state/mu"),
                               .nu = moments("opt_state/nu"),
                               .step = at("step"),
                               .learning_rate = at("learning_rate")};
  if (contains("opt_state/decays")) {
    const Tensor decays = at("opt_state/decays");
    const std::int64_t each = decays.count() / shard.count;
    tensors.decays = decays.rows(shard.index * each, (shard.index + 1) * each);
  }
  const optim::LossScale scale = loss_scale();
  tensors.loss_scale = scale.scale;
  tensors.skipped = scale.skipped;
  Buffer squared_norm;
  if (optimizer_.rule.max_norm > 0 || scale.scale) {
    squared_norm = stream().allocate(sizeof(float));
    tensors.squared_norm = Tensor(squared_norm.data(), DType::f32, {}, device());
    sum_of_squares(tensors.squared_norm, tensors.grads, stream());
    if (partitioner_) partitioner_->sum_over_shards(tensors.squared_norm, stream());
  }
  optim::update(optimizer_.rule, tensors, stream());
  if (scale.scale) optim::adjust_loss_scale(scale, tensors.squared_norm, stream());
  if (partitioner_) partitioner_->gather_shards(collection("params"), stream());
  increment(tensors.step, 1, stream());
}

}  // namespace giro
