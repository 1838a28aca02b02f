#pragma once

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
#include <giro/loop/data/any_dataset.h>
#include <giro/loop/data/batch.h>
#include <giro/loop/log/logs.h>

namespace giro::flip {

// A function of the model's outputs and a batch. It returns a scalar, weighted by the number of rows of the batch, or a
// Metric with its own weight, such as nn::average(values, batch["mask"]).
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
  std::vector<std::pair<std::string, MetricFunction>> metrics;  // by label
  AnyDataset<Batch> data;                                       // any range that can be iterated repeatedly
  std::optional<nn::Layer> model = {};                          // default: the trained one
};

struct EvalLoopOptions {
  EvalTask task;
  std::optional<std::int64_t> n_steps = {};  // default: all of the data
  std::string group = "eval";                // of the metrics
};

// Evaluates a checkpoint over the first n_steps batches of the data, the same ones each time. The summary has the mean
// of each metric over all rows. Its group "train" has the loss, seconds_per_step, and gradients_l2norm and
// weights_l2norm, the L2 norms of all gradients of the latest step and of all parameters. The checkpoint's state does
// not change.
//
//   for (const auto& checkpoint : train_loop) {
//     const auto summary = eval_loop(checkpoint);
//   }
//
// A summary that is evaluated again, over other data, keeps its metrics of other groups.
class EvalLoop {
 public:
  // Errors: invalid_argument for n_steps < 1 or more than the data's batches, empty data, endless data without n_steps,
  // no metric, two metrics with one label, or the group "train".
  explicit EvalLoop(EvalLoopOptions options);
  EvalLoop(EvalLoop&&) noexcept = default;
  EvalLoop& operator=(EvalLoop&&) noexcept = default;

  // Errors: LoopError; invalid_argument for a checkpoint without a state, or data that end before n_steps.
  Summary operator()(Summary checkpoint);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace giro::flip
