#include <giro/kernels/optim/update.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include <giro/kernels/nn/functional.h>
#include <giro/runtime/error.h>

#include "kernels/elementwise.h"
#include "kernels/expr/fusion.h"
#include "kernels/expr/term.h"
#include "kernels/nn/store.h"
#include "kernels/optim/update_plan.h"
#include "runtime/held_values.h"
#include "runtime/program/op_signature.h"
#include "runtime/program/recording.h"
#include "runtime/text.h"
#include "runtime/throw_error.h"

namespace giro::optim {

using expr::Layout;

// One run of an optimizer's function. The values are an expression over flat buffers, or Vars of a single leaf.
struct UpdateFrame {
  struct UpdatedValue {
    std::string name;
    Tensor memory;
    Value before, now;
    bool is_set = false;
  };

  UpdateFrame(const Optimizer& optimizer, const UpdateTensors& tensors, const Stream& stream)
      : t(tensors), stream(stream), every(optimizer.accumulated_steps) {
    constexpr std::int64_t kGranule = UpdateTensors::kGranule;
    if (optimizer.is_per_leaf) return;
    if (t.params.count() > 0) space = {t.params.count() / kGranule, kGranule};
    code.emplace(space, space.rank());
  }

  Value scalar(const Tensor& leaf) {
    for (const auto& [memory, value] : scalars) {
      if (memory == leaf.place()) return value;
    }
    const Value value = code ? Value(code->read(leaf, Layout())) : Value(nn::Var(leaf, stream));
    scalars.emplace_back(leaf.place(), value);
    return value;
  }

  Value elements(const Tensor& buffer) {
    if (!code) return Value(nn::Var(buffer, stream));
    if (t.params.count() == 0) return Value(code->constant(DType::f32, 0));
    return Value(code->read(buffer, expr::broadcast_layout(space, space)));
  }

  UpdatedValue& kept(const Moment& moment) {
    const auto known = std::ranges::find(moments, moment.name, &UpdatedValue::name);
    if (known != moments.end()) return *known;
    Tensor tensor;
    if (needs != nullptr) {
      needs->moments.push_back(moment);
      const Shape shape = moment.shape.value_or(t.params.shape());
      tensor = memory.emplace_back(nn::uninitialized(DType::f32, shape, stream)).value();
    } else {
      const auto given = std::ranges::find(t.moments, moment.name, &std::pair<std::string, Tensor>::first);
      if (given == t.moments.end()) {
        throw_error(ErrorCode::not_found, "update: there is no moment '{}'{}", moment.name,
                    suggestion(moment.name, t.moments));
      }
      tensor = given->second;
    }
    const Value before = elements(tensor);
    const Value now = moment.copies_param ? where(updates() == 0, param(), before) : before;
    moments.push_back({moment.name, tensor, before, now});
    return moments.back();
  }

  // Steps that were not skipped, and updates before this one, as whole numbers.
  Value steps() { return t.skipped ? scalar(t.step) - scalar(t.skipped) : scalar(t.step); }

  Value updates() { return every == 1 ? steps() : quotient(steps(), every); }

  Value& param() {
    if (!params) {
      const Value before = elements(t.params);
      params = UpdatedValue{"", t.params, before, before};
    }
    return params->now;
  }

  Value grad() {
    const Value raw = gradient ? *gradient : elements(t.grads);
    return gradient_scale ? *gradient_scale * raw : raw;
  }

  // Runs the function, then queues the writes of everything that it has set.
  void run(const Optimizer& optimizer) {
    if (t.loss_scale) gradient_scale = 1 / scalar(t.loss_scale);  // a power of two, so nothing is rounded
    Update update(*this);
    optimizer.update(update);
    std::optional<Value> condition;
    if (t.must_be_finite) condition = is_finite(scalar(t.must_be_finite));
    if (every > 1) {
      const Value is_last = remainder(steps(), every) == every - 1;
      condition = condition ? logical_and(*condition, is_last) : is_last;
    }
    if (code && t.params.count() == 0) return;
    if (params) moments.push_back(*std::exchange(params, {}));
    // All values are computed before the first is written.
    std::vector<std::pair<Tensor, Value>> stores;
    for (const UpdatedValue& each : std::exchange(moments, {})) {
      if (!each.is_set) continue;
      const Value now = code ? each.now : Value(nn::broadcast_to(each.now.var(), each.memory.shape()));
      stores.emplace_back(each.memory, condition ? where(*condition, now, each.before) : now);
    }
    for (const auto& [memory, after] : stores) write(memory, expr::broadcast_layout(space, space), after);
  }

  void write(const Tensor& memory, const Layout& layout, const Value& after) {
    detail::before_write(memory, stream);
    if (code) {
      after.in(*code).write(memory, layout);
    } else {
      ops::cast(memory, after.var().value(), stream);
    }
  }

  const UpdateTensors& t;
  const Stream& stream;
  std::optional<expr::Builder> code;  // none: Vars
  Shape space;
  int every;
  bool leaf_decays = true;       // for a single leaf
  UpdateNeeds* needs = nullptr;  // in a dry run
  std::vector<std::pair<const void*, Value>> scalars;
  std::vector<UpdatedValue> moments;
  std::optional<UpdatedValue> params;
  std::optional<Value> gradient, gradient_scale;  // as set
  bool gradient_is_changed = false, has_rate = false;
  std::vector<nn::Var> memory;  // of the moments in a dry run
};

Value Update::param() const { return frame_->param(); }
void Update::set_param(const Value& value) const {
  frame_->param() = value;
  frame_->params->is_set = true;
}

Value Update::grad() const { return frame_->grad(); }
void Update::set_grad(const Value& value) const {
  frame_->gradient = value;
  frame_->gradient_scale.reset();
  frame_->gradient_is_changed = true;
}
void Update::scale_grad(const Value& factor) const {
  std::optional<Value>& scale = frame_->gradient_scale;
  scale = scale ? factor * *scale : factor;
  frame_->gradient_is_changed = true;
}

Value Update::moment(const std::string& name, double initial) const {
  return frame_->kept({.name = name, .initial = initial}).now;
}
Value Update::copy_of_param(const std::string& name) const {
  return frame_->kept({.name = name, .copies_param = true}).now;
}
void Update::set_moment(const std::string& name, const Value& value) const {
  const auto known = std::ranges::find(frame_->moments, name, &UpdateFrame::UpdatedValue::name);
  if (known == frame_->moments.end()) {
    throw_invalid("optimizer: the moment '{}' is set, expected a call to moment() first", name);
  }
  known->now = value;
  known->is_set = true;
}

Value Update::step() const { return frame_->updates() + 1; }

Value Update::correction(double beta) const { return -expm1(step() * std::log(beta)); }

Value Update::rate(const LearningRate& rate) const {
  UpdateFrame& frame = *frame_;
  Value value = rate(frame.updates());
  if (frame.t.learning_rate_scale) value = value * frame.scalar(frame.t.learning_rate_scale);
  if (frame.needs != nullptr) frame.needs->rates.push_back(rate);
  if (frame.t.learning_rate && !frame.has_rate) {
    frame.has_rate = true;
    frame.write(frame.t.learning_rate, Layout(), value);
  }
  return value;
}

Value Update::gradient_norm() const {
  UpdateFrame& frame = *frame_;
  if (frame.gradient_is_changed) {
    throw Error(ErrorCode::unsupported,
                "optimizer: the gradients' norm is needed after they were changed, expected clip_by_global_norm "
                "around what changes them");
  }
  if (frame.needs != nullptr) frame.needs->norm = true;
  detail::expect_fit("update", "squared_norm: f64()", {&frame.t.squared_norm});
  const Value norm = sqrt(frame.scalar(frame.t.squared_norm));
  return (frame.gradient_scale ? norm * *frame.gradient_scale : norm).cast(DType::f32);
}

Value Update::decays() const {
  UpdateFrame& frame = *frame_;
  if (!frame.code) return frame.leaf_decays;
  if (!frame.t.decays || frame.t.params.count() == 0) return true;
  const expr::Term decays = frame.code->read(frame.t.decays, Layout{.strides = {1}});
  return Value(expr::Term::apply(expr::functions::not_equal, {decays, 0}));
}

nn::Var LeafUpdate::step() const { return nn::cast(update_.step().var(), DType::f32); }

nn::Var LeafUpdate::moment(const std::string& name, const Shape& shape, double initial) const {
  return update_.frame_->kept({.name = name, .shape = shape, .initial = initial}).now.var();
}

Optimizer make(std::string name, std::function<void(Update&)> update, DecayMask decay_mask) {
  return {.name = std::move(name), .update = std::move(update), .decay_mask = std::move(decay_mask)};
}

Optimizer make_per_leaf(std::string name, const std::function<void(LeafUpdate&)>& update, DecayMask decay_mask) {
  const auto of_leaf = [update](Update& u) {
    LeafUpdate leaf(u);
    update(leaf);
  };
  return {.name = std::move(name), .update = of_leaf, .is_per_leaf = true, .decay_mask = std::move(decay_mask)};
}

Optimizer wrap(const std::string& name, const Optimizer& inner,
               const std::function<void(Update&, const Optimizer&)>& update) {
  Optimizer result = inner;
  result.name = fmt::format("{}({})", name, inner.name);
  if (inner.of_leaves) {
    result.of_leaves = [=](const std::vector<LeafSpec>& params) {
      auto optimizers = inner.of_leaves(params);
      std::map<std::shared_ptr<const Optimizer>, std::shared_ptr<const Optimizer>> wrapped;
      for (auto& each : optimizers) {
        auto& outer = wrapped[each];
        if (!outer) outer = std::make_shared<const Optimizer>(wrap(name, *each, update));
        each = outer;
      }
      return optimizers;
    };
  } else if (inner.update) {
    result.update = [=](Update& u) { update(u, inner); };
  }
  return result;
}

UpdateNeeds needs_of(const Optimizer& optimizer, const Shape& leaf, const Stream& stream) {
  UpdateNeeds needs;
  if (!optimizer.update) return needs;
  detail::Recording::dry_run(stream, [&] {
    std::vector<nn::Var> memory;
    const auto tensor = [&](const Shape& shape, DType dtype = DType::f32) {
      return memory.emplace_back(nn::uninitialized(dtype, shape, stream)).value();
    };
    const Shape shape = optimizer.is_per_leaf ? leaf : Shape{UpdateTensors::kGranule};
    const UpdateTensors tensors{.params = tensor(shape),
                                .grads = tensor(shape),
                                .step = tensor({}, DType::i64),
                                .learning_rate_scale = tensor({}),
                                .squared_norm = tensor({}, DType::f64)};
    UpdateFrame frame(optimizer, tensors, stream);
    frame.needs = &needs;
    frame.run(optimizer);
    if (!frame.code) return;
    for (const expr::Instruction& each : (*std::move(frame.code)).take().code) {
      if (each.kind == expr::Instruction::Kind::constant) needs.numbers.push_back(each.number);
    }
  });
  return needs;
}

void update_leaf(const Optimizer& optimizer, const UpdateTensors& tensors, bool decays, const Stream& stream) {
  UpdateFrame frame(optimizer, tensors, stream);
  frame.leaf_decays = decays;
  frame.run(optimizer);
}

void update(const Optimizer& optimizer, const UpdateTensors& t, const Stream& stream) {
  if (optimizer.of_leaves || optimizer.is_per_leaf) {
    throw_error(ErrorCode::unsupported,
                "update: {} updates each leaf separately, expected an optimizer of flat buffers", optimizer.name);
  }
  const std::initializer_list<const Tensor*> all{&t.params,         &t.grads,         &t.decays,
                                                 &t.step,           &t.skipped,       &t.squared_norm,
                                                 &t.must_be_finite, &t.learning_rate, &t.learning_rate_scale,
                                                 &t.loss_scale};
  detail::expect_fit("update",
                     "params: f32(n), grads: f32(n), decays?: u8(d), step: i64(), skipped?: i64(), "
                     "squared_norm?: f64(), must_be_finite?: f64(), learning_rate?: f32(), "
                     "learning_rate_scale?: f32(), loss_scale?: f32()",
                     all);
  for (const Tensor* const each : all) detail::expect_on_device("update", *each, stream.device());
  const auto check_aligned = [&](std::string_view name, const Tensor& flat) {
    if (reinterpret_cast<std::uintptr_t>(flat.place()) % UpdateTensors::kAlignment == 0) return;
    throw_invalid("update: {} is at {}, expected a multiple of {} bytes", name, flat.place(),
                  UpdateTensors::kAlignment);
  };
  check_aligned("params", t.params);
  check_aligned("grads", t.grads);
  for (const auto& [name, moment] : t.moments) {
    detail::expect_fit("update: " + name, "params: f32(n), moment: f32(n)", {&t.params, &moment});
    check_aligned(name, moment);
  }
  constexpr std::int64_t kGranule = UpdateTensors::kGranule;
  if (t.params.count() % kGranule != 0) {
    throw_shape("update: params is {}, expected a multiple of {} elements", to_string(t.params), kGranule);
  }
  if (t.decays && t.decays.count() != t.params.count() / kGranule) {
    throw_shape("update: decays is {}, expected shape ({},)", to_string(t.decays), t.params.count() / kGranule);
  }
  if (!optimizer.update) return;
  UpdateFrame frame(optimizer, t, stream);
  frame.run(optimizer);
  // Drops reads and computations that no write uses.
  const expr::Expression expression = expr::without_write((*std::move(frame.code)).take(), {});
  if (!expression.writes.empty()) queue("update", expression, stream);
}

}  // namespace giro::optim
