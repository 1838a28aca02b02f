#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <giro/callbacks/flip/checkpoint.h>
#include <giro/kernels/nn/layer.h>
#include <giro/kernels/nn/metrics.h>
#include <giro/kernels/nn/var.h>
#include <giro/loop/data/batch.h>
#include <giro/loop/data/dataset.h>
#include <giro/loop/log/logs.h>

namespace giro::flip {

// Of the model's outputs and a batch: a scalar, which weighs as much as the batch has rows, or a Metric, which knows
// what it weighs, as nn::average(values, batch["mask"]).
class MetricFunction {
 public:
  template <class F>
    requires std::is_invocable_v<const F&, const nn::Var&, const Batch&>
  MetricFunction(F f)
      : add_([f = std::move(f)](Logs& logs, const std::string& label, const nn::Var& outputs, const Batch& batch) {
          logs.add_metric(label, f(outputs, batch));
        }) {}

  void add(Logs& logs, const std::string& label, const nn::Var& outputs, const Batch& batch) const {
    add_(logs, label, outputs, batch);
  }

 private:
  std::function<void(Logs&, const std::string&, const nn::Var&, const Batch&)> add_;
};

// What to evaluate.
struct EvalTask {
  std::vector<std::pair<std::string, MetricFunction>> metrics;  // by their labels
  Dataset data;
  std::optional<nn::Layer> model = {};  // default: the one that is trained
};

struct EvalLoopOptions {
  EvalTask task;
  std::optional<std::int64_t> n_steps = {};  // default: all of the data
  std::string group = "eval";                // of the metrics
};

// Evaluates a checkpoint: over the first n_steps batches of the data, each time the same. The summary has the mean of
// each metric over all rows, and in the group "train" the loss, seconds_per_step, gradients_l2norm and weights_l2norm,
// the L2 norms of all gradients of the latest step and of all parameters. The checkpoint's state stays as it is.
//
//   for (const auto& checkpoint : train_loop) {
//     const auto summary = eval_loop(checkpoint);
//   }
//
// A summary that is evaluated again, over other data, keeps the metrics that it has.
class EvalLoop {
 public:
  // Errors: invalid_argument for n_steps < 1 or more than the data have, data without a batch or, without n_steps,
  // without an end, no metric, two of a label, or the group "train".
  explicit EvalLoop(EvalLoopOptions options);
  EvalLoop(EvalLoop&&) noexcept;
  EvalLoop& operator=(EvalLoop&&) noexcept;
  ~EvalLoop();

  // Errors: LoopError; invalid_argument for a checkpoint without a state.
  Summary operator()(Summary checkpoint);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace giro::flip
