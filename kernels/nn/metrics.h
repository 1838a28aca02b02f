#pragma once

#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/var.h>

namespace giro::nn {

// A metric over the elements of a batch that count: its value, and what is needed to merge it with other batches and
// ranks. Scalars, f64; not differentiated. Logs take it as one entry (Logs::add_metric).
struct Metric {
  Var value;
  Var count;      // elements that count
  Var mean = {};  // for a standard deviation, else empty
};

// The mean of values of any shape. The mask has the shape of values or of their first axes, for example a feature of
// the batch that is 0 in padding rows. Values where the mask is 0 do not count, even if they are NaN; without a mask
// all count. If none counts, the result is NaN. Values other than f32 are converted. All this also holds for
// standard_deviation.
//
//   giro::logs().add_metric("loss", average(softmax_cross_entropy(logits, labels), batch["mask"]))
//
// Errors: those of giro::moments.
Metric average(const Var& values, const Var& mask = {}, Where where = Where::current());
// The population standard deviation, sqrt(mean(x^2) - mean(x)^2).
Metric standard_deviation(const Var& values, const Var& mask = {}, Where where = Where::current());
// The fraction of rows with the largest logit at the label. logits (R, C), labels and mask (R,).
Metric accuracy(const Var& logits, const Var& labels, const Var& mask, Where where = Where::current());
// The same per row, as f32 (R,) of 1 and 0; not differentiated.
Var correct(const Var& logits, const Var& labels, Where where = Where::current());

}  // namespace giro::nn
