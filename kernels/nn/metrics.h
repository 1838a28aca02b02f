#pragma once

#include <cstdint>

#include <giro/kernels/nn/functional.h>
#include <giro/kernels/nn/var.h>

namespace giro::nn {

// A metric over the elements of a batch that count: its value, and what is needed to merge it with other batches and
// ranks. Scalars, f64; not differentiated. Logs take it as one entry (Logs::add_metric). A metric without a count is a
// total, of any shape and dtype: those of several batches are added. The value says which way it is better
// (Var::direction): an average if its values do, a standard deviation never.
struct Metric {
  Var value;
  Var count = {};      // elements that count
  Var mean = {};       // for a standard deviation, else empty
  Var logarithm = {};  // the mean of the logarithms, if the value is its exponential; else empty
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
// The population standard deviation, sqrt(mean((x - mean(x))^2)).
Metric standard_deviation(const Var& values, const Var& mask = {}, Where where = Where::current());
// The fraction of rows with the largest logit at the label. logits (R, C), labels and mask (R,).
Metric accuracy(const Var& logits, const Var& labels, const Var& mask, Where where = Where::current());
// The same per row, as f32 (R,) of 1 and 0; not differentiated.
Var correct(const Var& logits, const Var& labels, Where where = Where::current());
// The fraction of rows whose label is among the k classes with the largest logits; in a tie, the first ones count. A
// NaN counts as larger than every number; a row with a NaN at its label is wrong. logits (..., C), labels (...), mask
// as for average.
Metric top_k_accuracy(const Var& logits, const Var& labels, std::int64_t k, const Var& mask = {},
                      Where where = Where::current());
// exp of the mean of the losses; over steps and ranks, exp of the mean of all losses together.
Metric perplexity(const Var& losses, const Var& mask = {}, Where where = Where::current());
// For a class: the fraction of its predictions that are right, and the fraction of its elements that are predicted as
// such. NaN if there are none. predictions and labels are integers or booleans of one shape; mask as for average.
Metric precision(const Var& predictions, const Var& labels, std::int64_t of_class = 1, const Var& mask = {},
                 Where where = Where::current());
Metric recall(const Var& predictions, const Var& labels, std::int64_t of_class = 1, const Var& mask = {},
              Where where = Where::current());
// How many elements of each class have been predicted as each class: i64 (C, C), rows by label, columns by prediction.
// A total, to log with Logs::add_output. predictions and labels are integers of one shape. Elements with a class
// outside [0, classes) are not counted.
Metric confusion_matrix(const Var& predictions, const Var& labels, std::int64_t classes,
                        Where where = Where::current());

}  // namespace giro::nn
