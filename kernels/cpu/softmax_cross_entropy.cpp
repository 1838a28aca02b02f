#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <numeric>

#include "kernels/cpu/fold.h"
#include "kernels/cpu/for_each.h"
#include "kernels/expr/math.h"
#include "kernels/host_device/fault.h"
#include "kernels/host_device/storage.h"
#include "kernels/ops.h"

namespace giro::cpu {
namespace {

constexpr std::int64_t kRows = 16;  // at a time
constexpr std::int64_t kCostOfExp = 8;

struct Exponentials {
  GIRO_LOOP_INLINE static void run(float* x, std::int64_t n) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) x[i] = expr::math::exp(x[i]);
  }
};

// Computes each row's loss and, if wanted, `factor` times its gradient. The exponentials are computed in `work` (rows,
// classes), which becomes the gradient in f32. `work` and `narrow` may be the logits.
template <class T, class Label>
struct CrossEntropy {
  float* losses;
  float* work;
  T* narrow;  // the gradient as T; null if it stays in `work`, or none is wanted
  bool wants_gradient;
  float factor;
  const T* logits;
  const Label* labels;
  std::int64_t rows, classes;
  host_device::Fault fault;
  // If wanted, how many rows of each block have their largest logit (the first, if tied) at the label, and no NaN.
  std::int64_t* correct = nullptr;

  void operator()(std::int64_t begin, std::int64_t end) const {
    float at_label[kRows] = {};  // the label's logit minus the row's largest one
    for (std::int64_t r = begin; r < end; ++r) {
      float* const row = work + r * classes;
      for (std::int64_t c = 0; c < classes; ++c) row[c] = static_cast<float>(logits[r * classes + c]);
      const float* const first_largest = std::max_element(row, row + classes);
      const float largest = *first_largest;
      if (is_known(r)) at_label[r - begin] = row[labels[r]] - largest;
      if (correct != nullptr) {
        const bool is_label = first_largest - row == static_cast<std::int64_t>(labels[r]);
        correct[begin / kRows] += is_label && std::none_of(row, row + classes, [](float x) { return x != x; });
      }
      for (std::int64_t c = 0; c < classes; ++c) row[c] -= largest;
    }
    float* const e = work + begin * classes;
    expr::Compiled<Exponentials>::all.get()(e, (end - begin) * classes);
    for (std::int64_t r = begin; r < end; ++r) losses[r] = finish(r, at_label[r - begin]);
    for (std::int64_t i = begin * classes; narrow != nullptr && i < end * classes; ++i) narrow[i] = T(work[i]);
  }

  bool is_known(std::int64_t r) const { return labels[r] >= 0 && static_cast<std::int64_t>(labels[r]) < classes; }

  float finish(std::int64_t r, float at_label) const {
    float* const e = work + r * classes;
    if (!is_known(r)) {
      fault(r, static_cast<std::int64_t>(labels[r]));
      std::fill_n(e, classes, std::numeric_limits<float>::quiet_NaN());
      return std::numeric_limits<float>::quiet_NaN();
    }
    double total = 0;  // with a million classes, a float would keep three digits
    for (std::int64_t c = 0; c < classes; ++c) total += static_cast<double>(e[c]);
    if (wants_gradient) {
      const float divisor = static_cast<float>(total);
      for (std::int64_t c = 0; c < classes; ++c) e[c] /= divisor;
      e[labels[r]] -= 1.0f;
      for (std::int64_t c = 0; c < classes; ++c) e[c] = factor * e[c];
    }
    return static_cast<float>(std::log(total)) - at_label;
  }
};

// Calls f with a CrossEntropy. Without a gradient in f32, `scratch` holds the exponentials.
template <class F>
void with_cross_entropy(float* losses, const Tensor& dlogits, const Tensor& logits, const Tensor& labels, float factor,
                        const Fault& fault, const Stream& stream, F&& f) {
  const bool is_direct = dlogits && dlogits.dtype() == DType::f32;
  const Temporary scratch = is_direct ? Temporary() : Temporary(DType::f32, logits.shape(), stream);
  float* const work = (is_direct ? dlogits : scratch).data<float>();
  host_device::with_storage(logits.dtype(), [&]<class T>(host_device::Type<T>) {
    host_device::with_integer(labels.dtype(), [&]<class Label>(host_device::Type<Label>) {
      f(CrossEntropy<T, Label>{losses, work, dlogits && !is_direct ? dlogits.data<T>() : nullptr,
                               static_cast<bool>(dlogits), factor, logits.data<T>(), labels.data<Label>(),
                               logits.shape()[0], logits.shape()[1], host_device::Fault(fault)});
    });
  });
}

// The same bits as a separate sum op.
float sum_of(const float* losses, std::int64_t rows) {
  const Fold fold = fold_of(expr::Combiner::sum, DType::f32);
  Total total = fold.identity;
  for (std::int64_t r = 0; r < rows; r += kPiece) {
    fold.rows(losses + r, 1, std::min(kPiece, rows - r), r, &total);
  }
  float sum = 0;
  fold.finish(&total, &sum, 1);
  return sum;
}

}  // namespace

void run(const ops::SoftmaxCrossEntropy& op, const Stream& stream) {
  with_cross_entropy(
      op.losses.data<float>(), op.dlogits, op.logits, op.labels, 1.0f, op.fault, stream, [&](const auto& rows) {
        submit(stream, [rows] { for_each_block(rows.rows, kRows, rows.rows * rows.classes * kCostOfExp, rows); });
      });
}

void run(const ops::MeanCrossEntropy& op, const Stream& stream) {
  const Temporary losses(DType::f32, {op.logits.shape()[0]}, stream);
  float* const accuracy = op.accuracy ? op.accuracy.data<float>() : nullptr;
  with_cross_entropy(losses.data<float>(), op.dlogits, op.logits, op.labels, static_cast<float>(op.factor), op.fault,
                     stream, [&](const auto& rows) {
                       submit(stream, [rows, accuracy, loss = op.loss.data<float>()] {
                         std::int64_t correct[ops::MeanCrossEntropy::kMaxRows / kRows] = {};
                         auto counted = rows;
                         if (accuracy != nullptr) counted.correct = correct;
                         for_each_block(rows.rows, kRows, rows.rows * rows.classes * kCostOfExp, counted);
                         *loss = sum_of(rows.losses, rows.rows) / static_cast<float>(rows.rows);
                         if (accuracy == nullptr) return;
                         const auto hits = std::accumulate(std::begin(correct), std::end(correct), std::int64_t{0});
                         *accuracy = static_cast<float>(static_cast<double>(hits) / static_cast<double>(rows.rows));
                       });
                     });
}

}  // namespace giro::cpu
