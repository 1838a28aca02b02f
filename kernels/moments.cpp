#include <giro/kernels/moments.h>

#include <fmt/format.h>

#include <algorithm>

#include <giro/runtime/error.h>

#include "kernels/internal/backends.h"
#include "kernels/internal/checks.h"
#include "kernels/internal/dispatch.h"

namespace giro {
namespace {

void is_number(std::string_view op, const checks::Argument& argument) {
  checks::has_dtype(op, argument, DType::f64);
  checks::has_shape(op, argument, {});
}

void check_sums(std::string_view op, const Tensor& mean, const Tensor& deviation, const Tensor& count,
                const Tensor& sums, const Stream& stream) {
  checks::on_device(op, {{"mean", mean}, {"count", count}, {"sums", sums}}, stream);
  is_number(op, {"mean", mean});
  is_number(op, {"count", count});
  if (deviation) {
    checks::on_device(op, {{"deviation", deviation}}, stream);
    is_number(op, {"deviation", deviation});
  }
  checks::has_dtype(op, {"sums", sums}, DType::f64);
  checks::has_shape(op, {"sums", sums}, {3});
}

}  // namespace

void moments(const Tensor& mean, const Tensor& deviation, const Tensor& count, const Tensor& values, const Tensor& mask,
             const Stream& stream) {
  checks::on_device("moments", {{"mean", mean}, {"deviation", deviation}, {"count", count}, {"values", values}},
                    stream);
  is_number("moments", {"mean", mean});
  is_number("moments", {"deviation", deviation});
  is_number("moments", {"count", count});
  checks::has_dtype("moments", {"values", values}, DType::f32);
  if (mask) {
    checks::on_device("moments", {{"mask", mask}}, stream);
    checks::has_dtype("moments", {"mask", mask}, DType::boolean);
    const Shape &all = values.shape(), &first = mask.shape();
    if (first.rank() > all.rank() || !std::equal(first.begin(), first.end(), all.begin())) {
      throw Error(ErrorCode::shape_mismatch, fmt::format("moments: mask is {}, values is {}; expected their first axes",
                                                         to_string(mask), to_string(values)));
    }
  }
  GIRO_QUEUE(stream, moments, (mean, deviation, count, values, mask), {mean, deviation, count}, {values, mask},
             3 * elements(values));
}

void moment_sums(const Tensor& sums, const Tensor& mean, const Tensor& deviation, const Tensor& count,
                 const Stream& stream) {
  check_sums("moment_sums", mean, deviation, count, sums, stream);
  GIRO_QUEUE(stream, moment_sums, (sums, mean, deviation, count), {sums}, {mean, deviation, count});
}

void moments_of_sums(const Tensor& mean, const Tensor& deviation, const Tensor& count, const Tensor& sums,
                     double factor, const Stream& stream) {
  check_sums("moments_of_sums", mean, deviation, count, sums, stream);
  GIRO_QUEUE(stream, moments_of_sums, (mean, deviation, count, sums, factor), {mean, deviation, count}, {sums});
}

}  // namespace giro
