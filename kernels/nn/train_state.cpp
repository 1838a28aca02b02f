#include <giro/kernels/nn/train_state.h>

#include <fmt/format.h>

#include <unordered_map>

#include <giro/kernels/elementwise.h>
#include <giro/kernels/reduce.h>
#include <giro/runtime/error.h>

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

TrainState::TrainState(const nn::Layer& model, optim::Optimizer optimizer, const DeviceContext& context)
    : State(context), model_(model), optimizer_(std::move(optimizer)) {}

TrainState TrainState::create(const nn::Layer& model, const std::vector<LeafSpec>& spec, optim::Optimizer optimizer,
                              std::uint64_t seed, DeviceContext context, std::shared_ptr<const Partitioner> partitioner,
                              Precision precision) {
  expect_supported(precision, context.device());
  if (spec.empty()) {
    throw Error(ErrorCode::invalid_argument, "a train state needs the spec of its input, found an empty one");
  }
  TrainState state(model, std::move(optimizer), context);
  state.precision_ = precision;
  nn::ParamSpecs specs;
  model.init(specs, spec.front().shape);
  std::vector<LeafSpec> leaves;
  for (const auto& param : specs.all()) leaves.push_back({param.name, DType::f32, param.shape});

  const Shard shard = partitioner ? partitioner->update_shard() : Shard{};
  const Collection& params = state.add("params", leaves, {.parts = shard.count});
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const auto& param = specs.all()[i];
    from_host(params.leaves()[i].value,
              param.initializer(param.shape.count(), param.fans, Rng{seed, RngPurpose::initial_value, i}),
              state.stream());
  }
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
  from_host(seed_leaf.leaves().front().value, std::vector{static_cast<std::int64_t>(seed)}, state.stream());
  state.partitioner_ = std::move(partitioner);
  if (state.partitioner_) {
    state.partitioner_->expect_same("the training state", description(state.optimizer_.rule, seed, precision));
    state.partitioner_->replicate(state);
  }
  return state;
}

TrainState::TrainState(State leaves, const TrainState& other)
    : State(std::move(leaves)),
      model_(other.model_),
      optimizer_(other.optimizer_),
      partitioner_(other.partitioner_),
      precision_(other.precision_) {}

nn::Params TrainState::params() const {
  return differentiated_ != nullptr ? *differentiated_ : params_in_precision(nullptr);
}

nn::Params TrainState::differentiable_params() const { return params_in_precision(&collection("grads")); }

nn::Params TrainState::params_in_precision(const Collection* grads) const {
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
  std::map<std::string, nn::Var> vars;
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
    vars.emplace(below(params, leaf), var);
  }
  return nn::Params(std::move(vars), stream());
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
  nn::BackwardOptions options{.seed = BatchWeight::current() / parts, .scale = loss_scale().scale};
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
