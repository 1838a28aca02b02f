#include <giro/kernels/optim/update.h>

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include <giro/runtime/error.h>

#include "kernels/internal/checks.h"
#include "kernels/pointwise/term.h"

namespace giro::optim {
namespace {

using pointwise::Builder;
using pointwise::Expression;
using pointwise::Layout;
using pointwise::Term;

// Scalar leaves on the device, and values that depend on them alone, are the same for all elements.
class Update {
 public:
  Update(const UpdateRule& rule, const UpdateTensors& tensors)
      : rule_(rule),
        t_(tensors),
        space_(t_.params.count() > 0 ? Shape{t_.params.count() / kGranule, kGranule} : Shape{}),
        code_(space_, space_.rank()) {}

  Expression expression() && {
    const Term step = t_.loss_scale ? scalar(t_.step) - scalar(t_.skipped) : scalar(t_.step);
    const Term rate = rule_.learning_rate(step);
    rate.write(t_.learning_rate, Layout());
    if (t_.params.count() > 0) write_elements(step.cast(DType::f32) + 1, rate);
    return std::move(code_).take();
  }

 private:
  static constexpr std::int64_t kGranule = UpdateTensors::kGranule;

  Term scalar(const Tensor& leaf) { return {code_, code_.read(leaf, Layout())}; }
  Layout flat() const { return pointwise::broadcast_layout(space_, space_); }
  Term elements(const Tensor& buffer) { return {code_, code_.read(buffer, flat())}; }

  // Writes `after`, or `before` if gradients that are not finite cause the update to be skipped.
  void write(const Tensor& buffer, const Term& before, const Term& after) {
    const Term kept = t_.loss_scale ? where(is_finite(scalar(t_.squared_norm)), after, before) : after;
    kept.write(buffer, flat());
  }

  // The factor on the gradients, from clipping and from undoing the loss scale.
  std::optional<Term> gradient_scale() {
    std::optional<Term> scale;
    if (t_.loss_scale) scale = 1 / scalar(t_.loss_scale);  // a power of two, so nothing is rounded
    if (rule_.max_norm > 0) {
      const Term norm = scale ? sqrt(scalar(t_.squared_norm)) * *scale : sqrt(scalar(t_.squared_norm));
      // A NaN norm scales by NaN: clipping must not hide it.
      const Term clip = where(norm <= rule_.max_norm, 1, rule_.max_norm / norm);
      scale = scale ? clip * *scale : clip;
    }
    return scale;
  }

  // 1 - beta^t, without cancellation.
  static Term correction(double beta, const Term& t) { return -expm1(t * std::log(beta)); }

  void write_elements(const Term& t, const Term& rate) {
    const Term param = elements(t_.params);
    const std::optional<Term> scale = gradient_scale();
    const Term g = scale ? *scale * elements(t_.grads) : elements(t_.grads);
    Term direction = g;
    if (rule_.rule == Rule::adam) {
      const Term mu = elements(t_.mu), nu = elements(t_.nu);
      const Term new_mu = rule_.beta1 * mu + (1 - rule_.beta1) * g;
      const Term new_nu = rule_.beta2 * nu + (1 - rule_.beta2) * (g * g);
      write(t_.mu, mu, new_mu);
      write(t_.nu, nu, new_nu);
      const Term first = 1 / correction(rule_.beta1, t), second = 1 / correction(rule_.beta2, t);
      direction = (new_mu * first) / (sqrt(new_nu * second) + rule_.epsilon);
    } else if (t_.mu) {
      const Term mu = elements(t_.mu), new_mu = rule_.momentum * mu + g;
      write(t_.mu, mu, new_mu);
      direction = rule_.nesterov ? rule_.momentum * new_mu + g : new_mu;
    }
    Term updated = param - rate * direction;
    if (rule_.weight_decay != 0) {
      Term decay = rate * rule_.weight_decay;
      if (t_.decays) decay = where(Term(code_, code_.read(t_.decays, Layout{.strides = {1}})) != 0, decay, 0);
      updated = updated - decay * param;
    }
    write(t_.params, param, updated);
  }

  const UpdateRule& rule_;
  const UpdateTensors& t_;
  const Shape space_;  // granules
  Builder code_;
};

Expression update_of(const UpdateRule& rule, const UpdateTensors& tensors) {
  return Update(rule, tensors).expression();
}

}  // namespace

void update(const UpdateRule& rule, const UpdateTensors& t, const Stream& stream) {
  checks::on_device("update",
                    {{"params", t.params},
                     {"grads", t.grads},
                     {"mu", t.mu},
                     {"nu", t.nu},
                     {"decays", t.decays},
                     {"step", t.step},
                     {"learning_rate", t.learning_rate},
                     {"squared_norm", t.squared_norm},
                     {"loss_scale", t.loss_scale},
                     {"skipped", t.skipped}},
                    stream);
  const auto check_flat = [&](const checks::Argument& argument) {
    checks::has_dtype("update", argument, DType::f32);
    checks::has_shape("update", argument, t.params.shape());
    if (reinterpret_cast<std::uintptr_t>(argument.tensor.raw()) % UpdateTensors::kAlignment != 0) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("update: {} lies at {}, expected a multiple of {} bytes", argument.name,
                              argument.tensor.raw(), UpdateTensors::kAlignment));
    }
  };
  checks::has_rank("update", {"params", t.params}, 1);
  check_flat({"params", t.params});
  check_flat({"grads", t.grads});
  const bool adam = rule.rule == Rule::adam;
  if (t.mu || adam || rule.momentum != 0) check_flat({"mu", t.mu});
  if (adam) check_flat({"nu", t.nu});
  if (t.params.count() % UpdateTensors::kGranule != 0) {
    throw Error(ErrorCode::shape_mismatch, fmt::format("update: params is {}, expected a multiple of {} elements",
                                                       to_string(t.params), UpdateTensors::kGranule));
  }
  if (t.decays) {
    checks::has_dtype("update", {"decays", t.decays}, DType::u8);
    checks::has_shape("update", {"decays", t.decays}, {t.params.count() / UpdateTensors::kGranule});
  }
  checks::has_dtype("update", {"step", t.step}, DType::i64);
  checks::has_shape("update", {"step", t.step}, {});
  checks::has_dtype("update", {"learning_rate", t.learning_rate}, DType::f32);
  checks::has_shape("update", {"learning_rate", t.learning_rate}, {});
  if (t.loss_scale) {
    checks::has_dtype("update", {"loss_scale", t.loss_scale}, DType::f32);
    checks::has_shape("update", {"loss_scale", t.loss_scale}, {});
    checks::has_dtype("update", {"skipped", t.skipped}, DType::i64);
    checks::has_shape("update", {"skipped", t.skipped}, {});
  }
  if (rule.max_norm > 0 || t.loss_scale) {
    checks::has_dtype("update", {"squared_norm", t.squared_norm}, DType::f32);
    checks::has_shape("update", {"squared_norm", t.squared_norm}, {});
  }
  queue("update", update_of(rule, t), stream);
}

}  // namespace giro::optim
