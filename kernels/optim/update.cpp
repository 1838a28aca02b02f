#include <giro/kernels/optim/update.h>

#include <fmt/format.h>

#include <cstdint>

#include <giro/runtime/error.h>

#include "kernels/internal/backends.h"
#include "kernels/internal/checks.h"
#include "kernels/internal/dispatch.h"

namespace giro::optim {

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
  const bool reads_norm = rule.max_norm > 0 || t.loss_scale;
  if (reads_norm) {
    checks::has_dtype("update", {"squared_norm", t.squared_norm}, DType::f32);
    checks::has_shape("update", {"squared_norm", t.squared_norm}, {});
  }
  const double each = (adam ? 13 : 2 + (rule.momentum != 0 ? 2 : 0) + (rule.nesterov ? 2 : 0)) +
                      (rule.weight_decay != 0 ? 2 : 0) + (rule.max_norm > 0 ? 1 : 0);
  GIRO_QUEUE(stream, update, (rule, t), {t.params, t.mu, t.nu, t.learning_rate},
             {t.params, t.grads, t.mu, t.nu, t.decays, t.step, reads_norm ? t.squared_norm : Tensor(), t.loss_scale,
              t.skipped},
             each * elements(t.params));
}

}  // namespace giro::optim
