#include <giro/kernels/activation.h>

#include "kernels/internal/backends.h"
#include "kernels/internal/checks.h"
#include "kernels/internal/dispatch.h"

namespace giro {

void activation(const Tensor& y, const Tensor& x, Activation f, const Stream& stream) {
  checks::on_device("activation", {{"y", y}, {"x", x}}, stream);
  checks::is_storage("activation", {"y", y});
  checks::same_dtype("activation", {"x", x}, {"y", y});
  checks::same_shape("activation", {"y", y}, {"x", x});
  GIRO_QUEUE(stream, activation, (y, x, f), {y}, {x}, elements(y));
}

void activation_backward(const Tensor& dx, const Tensor& dy, const Tensor& x_or_y, Activation f, const Stream& stream) {
  constexpr std::string_view op = "activation_backward";
  checks::on_device(op, {{"dx", dx}, {"dy", dy}, {"x_or_y", x_or_y}}, stream);
  for (const checks::Argument& argument : {checks::Argument{"dx", dx}, {"dy", dy}, {"x_or_y", x_or_y}}) {
    checks::is_storage(op, argument);
    checks::same_dtype(op, {"dx", dx}, argument);
    checks::same_shape(op, {"dx", dx}, argument);
  }
  GIRO_QUEUE(stream, activation_backward, (dx, dy, x_or_y, f), {dx}, {dy, x_or_y}, elements(dx));
}

}  // namespace giro
