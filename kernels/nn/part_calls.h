#pragma once

#include <memory>
#include <span>

#include <giro/kernels/nn/var.h>
#include <giro/runtime/not_copied.h>
#include <giro/runtime/step_context.h>

namespace giro::nn {

// The calls of a function for one part of a batch after the other, on this thread (TrainState::value_and_grad). What a
// call computes from the parameters stands for its part alone. This notices where it is taken for the whole batch.
class PartCalls : detail::NotCopied {
 public:
  PartCalls(std::shared_ptr<const Partitioner> ranks, int parts);
  ~PartCalls();  // The calls are over.

  // The next call begins.
  void next();
  // A result of the call: the caller gets those of all calls.
  static void returned(const Var& result);

  // Error(invalid_argument) if this thread is within such calls, and the loss is a sum over rows: grads is the mean of
  // the parts' gradients.
  static void expect_mean(const Var& loss);

  using Total = Var::OfPart::Total;

  // For what makes values: y is computed from `inputs`, and which total of theirs y is.
  static void note(const Var& y, std::span<const Var> inputs);
  static void note_total(const Var& y, Total total);
  // Error(invalid_argument) if the calls are over, and the line that made the value left none behind in another call.
  static void expect_all(const Var& value);

 private:
  struct Made;

  std::shared_ptr<Made> made_;
  giro::detail::StepScope step_;
};

}  // namespace giro::nn
