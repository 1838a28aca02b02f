#include "kernels/optim/update_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "kernels/elementwise.h"
#include "kernels/nn/store.h"
#include "runtime/held_values.h"
#include "runtime/throw_error.h"

namespace giro::optim {
namespace {

constexpr std::int64_t kGranule = UpdateTensors::kGranule;
static_assert(kGranule * sizeof(float) == Collection::kLeafAlignment, "a granule must not straddle two leaves");

std::int64_t granules_of(const Shape& shape) { return (shape.count() + kGranule - 1) / kGranule; }

// The average of params is public, so it is not below opt_state.
std::string collection_of(const std::string& moment) { return moment == "ema" ? moment : "opt_state/" + moment; }

// The kinds of an optimizer without their numbers: "ema(adamw)" of "ema 0.9 (adamw)".
std::string kinds_of(std::string_view name) {
  std::string kinds;
  bool is_kind = true;
  for (const char c : name) {
    if (c == '(') is_kind = true;
    if (c == ' ' || c == ',') is_kind = false;
    if (is_kind || c == ')') kinds += c;
  }
  return kinds;
}

// Adds 1 / `steps` of a step's gradients to the buffer `sum`, in one launch; the first of `steps` steps overwrites it.
// `tensors` belong to an update before its gradients are averaged.
void accumulate(int steps, const Tensor& sum, UpdateTensors tensors, const Stream& stream) {
  tensors.moments = {{"accumulated", sum}};
  tensors.learning_rate = {};
  const Optimizer add = make("accumulate", [steps](Update& u) {
    const Value is_first = remainder(u.step() - 1, steps) == 0, before = u.moment("accumulated");
    const Value part = u.grad() / static_cast<double>(steps);
    u.set_moment("accumulated", where(is_first, part, before + part));
  });
  update(add, tensors, stream);
}

}  // namespace

UpdatePlan::UpdatePlan(const Optimizer& optimizer, const std::vector<LeafSpec>& params, const Shard& shard,
                       const Stream& stream)
    : params_(params), shard_(shard), optimizer_(std::make_shared<const Optimizer>(optimizer)) {
  const auto optimizers = optimizer.of_leaves
                              ? optimizer.of_leaves(params)
                              : std::vector<std::shared_ptr<const Optimizer>>(params.size(), optimizer_);
  std::int64_t granules = 0;
  for (std::size_t i = 0; i < params.size(); ++i) {
    const auto& own = optimizers[i];
    granules_.push_back(granules);
    granules += granules_of(params[i].shape);
    is_frozen_.push_back(!own->update);
    decays_.push_back(!own->decay_mask || own->decay_mask(params[i].name));
    has_decay_mask_ = has_decay_mask_ || (own->decay_mask && !own->is_per_leaf);
    if (own->is_per_leaf && shard.count > 1) {
      throw_error(ErrorCode::unsupported,
                  "the optimizer {} updates whole leaves, but each of {} ranks holds only a part of the params; "
                  "expected data_parallel",
                  own->name, shard.count);
    }
    if (i == 0 || optimizers[i - 1] != own || own->is_per_leaf) {
      const auto with_steps = std::make_shared<Optimizer>(*own);
      with_steps->accumulated_steps = optimizer_->accumulated_steps;
      groups_.push_back({with_steps, i, i, needs_of(*with_steps, params[i].shape, stream)});
    }
    groups_.back().last = i + 1;
  }
  granules_.push_back(granules);
  // All sharded collections are divided in the same way, so each has all leaves.
  for (const Group& group : groups_) {
    for (const Moment& moment : group.needs.moments) {
      auto to = std::ranges::find(moments_, moment.name, &Moments::name);
      if (to == moments_.end()) to = moments_.insert(to, {moment.name, {}, {}, {}});
      const bool all = shard.count > 1;
      if (all && !to->leaves.empty()) {
        const Moment& first = to->moments.front();
        if (first.initial == moment.initial && first.copies_param == moment.copies_param) continue;
        throw_error(ErrorCode::unsupported,
                    "the optimizers of some leaves initialize '{}' differently than those of others, but all "
                    "leaves share one collection on {} ranks; expected data_parallel",
                    moment.name, shard.count);
      }
      for (std::size_t i = all ? 0 : group.first; i < (all ? params.size() : group.last); ++i) {
        to->leaves.push_back({params[i].name, DType::f32, moment.shape.value_or(params[i].shape)});
        to->moments.push_back(moment);
        to->of_params.push_back(i);
      }
    }
  }
}

// In this order a checkpoint's first difference is the cause of the others.
void UpdatePlan::declare_in(State& state) const {
  state.declare("optimizer", kinds_of(optimizer_->name));
  for (const Group& group : groups_) {
    for (std::size_t i = group.first; optimizer_->of_leaves && i < group.last; ++i) {
      state.declare("optimizer of " + params_[i].name, kinds_of(group.optimizer->name));
    }
  }
  state.declare("accumulate", std::to_string(optimizer_->accumulated_steps));
  std::vector<std::string> moments;
  for (const Moments& each : moments_) moments.push_back(fmt::format("{} {}", each.name, name_of(DType::f32)));
  state.declare("moments", moments.empty() ? "none" : fmt::format("{}", fmt::join(moments, ", ")));
}

void UpdatePlan::add_to(State& state) const {
  declare_in(state);
  const Tensor params = state.collection("params").flat(shard_);
  CollectionOptions options{.parts = shard_.count};
  if (shard_.count > 1) options.part = shard_.index;
  for (const Moments& each : moments_) {
    const Collection& moments = state.add(collection_of(each.name), each.leaves, options);
    if (shard_.count > 1 && each.moments.front().copies_param) copy(moments.flat(), params, state.stream());
    for (std::size_t i = 0; i < moments.leaves().size(); ++i) {
      const Moment& moment = each.moments[i];  // with shards the same for all
      const Tensor& value = moments.leaves()[i].value;
      const Tensor& param = state.collection("params").leaves()[each.of_params[i]].value;
      if (moment.copies_param && shard_.count == 1) copy(value, param, state.stream());
      if (moment.initial != 0) ops::fill(value, moment.initial, state.stream());
    }
  }
  if (optimizer_->accumulated_steps > 1) state.add("opt_state/accumulated", params_, options);
  if (!has_decay_mask_) return;
  // For each granule of the flat params of all shards, whether weight decay applies; not in the padding.
  std::vector<std::uint8_t> decays;
  for (std::size_t i = 0; i < params_.size(); ++i) {
    decays.resize(static_cast<std::size_t>(granules_[i + 1]), decays_[i] ? 1 : 0);
  }
  const auto parts = static_cast<std::size_t>(shard_.count);
  decays.resize((decays.size() + parts - 1) / parts * parts);
  const Collection& collection =
      state.add("opt_state/decays", {{"", DType::u8, {static_cast<std::int64_t>(decays.size())}}}, {.saved = false});
  from_host(collection.leaves().front().value, decays, state.stream());
}

void UpdatePlan::apply(const State& state, const LossScale& scale, const Partitioner* partitioner) const {
  const Stream& stream = state.stream();
  UpdateTensors tensors{.grads = state.collection("grads").flat(shard_),
                        .step = state.at("step"),
                        .learning_rate = state.at("learning_rate"),
                        .learning_rate_scale = state.at("learning_rate_scale"),
                        .loss_scale = scale.scale,
                        .skipped = scale.skipped};
  const bool needs_norm = std::ranges::any_of(groups_, [](const Group& group) { return group.needs.norm; });
  std::vector<nn::Var> memory;
  const auto squared_norm = [&](const Tensor& grads) {
    const Tensor norm = memory.emplace_back(nn::uninitialized(DType::f64, {}, stream)).value();
    ops::sum_of_squares(norm, grads, stream);
    if (partitioner != nullptr) partitioner->sum_over_shards(norm, stream);
    return norm;
  };
  const int steps = optimizer_->accumulated_steps;
  if (scale.scale || (needs_norm && steps == 1)) tensors.squared_norm = squared_norm(tensors.grads);
  if (scale.scale) tensors.must_be_finite = tensors.squared_norm;
  if (steps > 1) {
    const Tensor sum = state.collection("opt_state/accumulated").flat();
    tensors.params = state.collection("params").flat(shard_);
    accumulate(steps, sum, tensors, stream);
    tensors.grads = sum;
    tensors.loss_scale = {};
    if (needs_norm) tensors.squared_norm = squared_norm(sum);
  }
  for (const Group& group : groups_) {
    if (!group.optimizer->update) continue;
    apply(state, group, tensors);
    if (!group.needs.rates.empty()) tensors.learning_rate = {};
  }
  if (scale.scale) adjust_loss_scale(scale, tensors.must_be_finite, stream);
  if (partitioner == nullptr) return;
  detail::before_write(state.collection("params").bytes(), stream);
  partitioner->gather_shards(state.collection("params"), stream);
}

void UpdatePlan::apply(const State& state, const Group& group, UpdateTensors tensors) const {
  const Optimizer& optimizer = *group.optimizer;
  const Collection& params = state.collection("params");
  if (optimizer.is_per_leaf) {
    const LeafSpec& leaf = params_[group.first];
    if (leaf.shape.count() == 0) {
      // Nothing to update, but the first rate is written even so.
      if (!tensors.learning_rate || group.needs.rates.empty()) return;
      Optimizer first = make("learning_rate", [&](Update& u) { (void)u.rate(group.needs.rates.front()); });
      first.accumulated_steps = optimizer.accumulated_steps;
      tensors.params = tensors.grads = params.flat().rows(0, 0);
      update(first, tensors, state.stream());
      return;
    }
    const std::int64_t begin = granules_[group.first] * kGranule;
    tensors.params = params.leaves()[group.first].value;
    tensors.grads = tensors.grads.rows(begin, begin + leaf.shape.count()).reshape(leaf.shape);
    for (const Moment& moment : group.needs.moments) {
      tensors.moments.emplace_back(moment.name, state.at(collection_of(moment.name) + "/" + leaf.name));
    }
    update_leaf(optimizer, tensors, decays_[group.first], state.stream());
    return;
  }
  // The last group takes the padding.
  const Tensor flat = params.flat(shard_);
  const std::int64_t count = flat.count() / kGranule, offset = shard_.index * count;
  const bool is_last = group.last == params_.size();
  const std::int64_t begin = std::clamp(granules_[group.first] - offset, std::int64_t{0}, count);
  const std::int64_t end = is_last ? count : std::clamp(granules_[group.last] - offset, std::int64_t{0}, count);
  if (begin == end && !tensors.learning_rate) return;
  const auto part = [&](const Tensor& whole, std::int64_t from) {
    return whole.rows(from * kGranule, (from + end - begin) * kGranule);
  };
  tensors.params = part(flat, begin);
  tensors.grads = part(tensors.grads, begin);
  for (const Moment& moment : group.needs.moments) {
    const Collection& moments = state.collection(collection_of(moment.name));
    std::int64_t from = begin;
    if (shard_.count == 1) {
      from = 0;
      const auto each = std::ranges::find(moments_, moment.name, &Moments::name);
      for (std::size_t i = 0; each->of_params[i] != group.first; ++i) from += granules_of(each->leaves[i].shape);
    }
    tensors.moments.emplace_back(moment.name, part(moments.flat(), from));
  }
  if (has_decay_mask_) {
    tensors.decays = state.at("opt_state/decays").rows(offset + begin, offset + end);
  }
  update(optimizer, tensors, state.stream());
}

std::string UpdatePlan::description() const {
  std::string lines = fmt::format("accumulated steps {}\n", optimizer_->accumulated_steps);
  for (const Group& group : groups_) {
    lines += fmt::format("optimizer {} from leaf {} on\n", group.optimizer->name, group.first);
    for (const LearningRate& rate : group.needs.rates) {
      for (const std::int64_t step : {0, 1, 10, 100, 1'000, 10'000, 100'000}) {
        lines += fmt::format("learning rate {} at step {}\n", rate(step), step);
      }
    }
    lines += fmt::format("numbers {}\n", fmt::join(group.needs.numbers, ", "));
  }
  if (has_decay_mask_) {
    std::string names;
    for (std::size_t i = 0; i < params_.size(); ++i) {
      if (!decays_[i]) names += " " + params_[i].name;
    }
    lines += fmt::format("no weight decay for{}\n", names);
  }
  return lines;
}

}  // namespace giro::optim
