#pragma once

#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/var.h>

namespace giro::nn {

// A metric of the elements of a batch that count: its value, and what merges it with that of other batches and ranks.
// Scalars, f64; none is differentiated. Logs take it as one entry (Logs::add_metric).
struct Metric {
  Var value;
  Var count;      // elements that count
  Var mean = {};  // of a standard deviation; else empty
};

// Of values of any shape and a mask of the shape of values or of their first axes, such as a feature of the batch that
// is 0 in the rows that fill it up. What lies where the mask is 0 does not count, even if it is NaN; without a mask all
// counts. Where nothing counts the value is NaN. Values other than f32 are converted.
//
//   giro::logs().add_metric("loss", average(softmax_cross_entropy(logits, labels), batch["mask"]))
//
// Errors: those of giro::moments.
Metric average(const Var& values, const Var& mask = {}, Where where = Where::current());
// Of the population: sqrt(mean(x^2) - mean(x)^2).
Metric standard_deviation(const Var& values, const Var& mask = {}, Where where = Where::current());
// The share of rows whose largest logit stands at the label: logits (R, C), labels and mask (R,).
Metric accuracy(const Var& logits, const Var& labels, const Var& mask, Where where = Where::current());
// Whether it does, f32 (R,) of 1 and 0; not differentiated.
Var correct(const Var& logits, const Var& labels, Where where = Where::current());

}  // namespace giro::nn
