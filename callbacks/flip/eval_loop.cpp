#include <giro/callbacks/flip/eval_loop.h>

#include <algorithm>
#include <cmath>

#include <giro/loop/arbiter.h>
#include <giro/loop/inner_loop.h>
#include <giro/loop/loop.h>
#include <giro/loop/step/step.h>

#include "kernels/elementwise.h"
#include "runtime/throw_error.h"

namespace giro::flip {
namespace {

// A signal waits until the evaluation has ended; then the stream handles it.
struct UninterruptedArbiter : Arbiter {
  int interrupt() override { return 0; }
  bool save() override { return false; }
};

Step<const TrainState> eval_step(const EvalTask& task) {
  return jit(
      [model = task.model, metrics = task.metrics](const TrainState& state, const Batch& batch) {
        const std::string& input = batch.features().front().first;
        const nn::Var outputs = (model ? *model : state.model())(state.params(), batch[input], std::source_location());
        Logs logs;
        for (const auto& [label, metric] : metrics) metric.add(logs, label, outputs, batch);
        return logs;
      },
      std::source_location());
}

// Of contiguous values. `ranks`: set if each rank has one shard of the values.
double l2_norm(const Tensor& values, const Stream& stream, const Partitioner* ranks = nullptr) {
  const Buffer buffer = stream.allocate(sizeof(double));
  const Tensor squares(buffer.place(), DType::f64, {}, values.device());
  ops::sum_of_squares(squares, values, stream);
  if (ranks != nullptr) ranks->sum_over_shards(squares, stream);
  return std::sqrt(to_host<double>(squares, stream).front());
}

double gradients_l2_norm(const TrainState& state) {
  const Collection& grads = state.collection("grads");
  const Partitioner* const ranks = state.partitioner().get();
  // If each rank updates a shard, it has the gradients of that shard only.
  if (ranks == nullptr || ranks->update_shard().count == 1) return l2_norm(grads.flat(), state.stream());
  return l2_norm(grads.flat(ranks->update_shard()), state.stream(), ranks);
}

}  // namespace

struct EvalLoop::Impl {
  explicit Impl(EvalLoopOptions given) : options(std::move(given)), step(eval_step(options.task)) {}

  EvalLoopOptions options;
  Step<const TrainState> step;
};

EvalLoop::EvalLoop(EvalLoopOptions options) {
  if (options.n_steps && *options.n_steps < 1)
    throw_invalid("eval loop: n_steps is {}, expected 1 or more", *options.n_steps);
  if (options.group == "train")
    throw_invalid("eval loop: the group 'train' is reserved for the training metrics, expected another");
  if (!options.task.data) throw_invalid("eval loop: there is no data");
  constexpr std::int64_t kForever = AnyDataset<Batch>::kForever;
  const std::optional<std::int64_t> batches = options.task.data.num_batches();
  if (batches == 0) throw_invalid("eval loop: the data is empty, expected at least one batch");
  if (!options.n_steps && batches == kForever) throw_invalid("eval loop: the data repeats endlessly, expected n_steps");
  if (options.n_steps && batches && batches != kForever && *options.n_steps > *batches) {
    throw_invalid("eval loop: n_steps is {}, but the data has {} batches", *options.n_steps, *batches);
  }
  if (options.task.metrics.empty()) throw_invalid("eval loop: there is no metric");
  std::vector<std::string> labels;
  for (const auto& [label, metric] : options.task.metrics) {
    if (std::find(labels.begin(), labels.end(), label) != labels.end()) {
      throw_invalid("eval loop: two metrics are named '{}'", label);
    }
    labels.push_back(label);
  }
  impl_ = std::make_shared<Impl>(std::move(options));
}

Summary EvalLoop::operator()(Summary summary) {
  if (!impl_) throw_invalid("eval loop: it was moved from");
  TrainState& state = summary.mutable_state();
  const EvalLoopOptions& options = impl_->options;
  const AnyDataset<Batch>& data = options.task.data;
  std::int64_t steps = 0;
  auto evaluate = inner_loop([&](TrainState moved) {
    auto result = loop(std::move(moved), data, {{every(1), impl_->step}},
                       {.stop = options.n_steps ? at(*options.n_steps) : Period{},
                        .arbiter = std::make_shared<UninterruptedArbiter>()});
    steps = result.elapsed.steps;
    return result;
  });
  const Logs logs = evaluate.preserves_state()(state);
  if (options.n_steps && steps < *options.n_steps) {
    throw_invalid("eval loop: n_steps is {}, but the data ended after {} batches", *options.n_steps, steps);
  }

  auto& metrics = summary.metrics;
  const auto has_group = [&](const std::string& group) {
    return std::ranges::any_of(metrics, [&](const Summary::Metric& metric) { return metric.group == group; });
  };
  if (!has_group("train")) {
    metrics.push_back(
        {"train", "seconds_per_step",
         summary.elapsed_time / static_cast<double>(std::max<std::int64_t>(summary.n_completed_steps, 1))});
    metrics.push_back({"train", "gradients_l2norm", gradients_l2_norm(state)});
    metrics.push_back({"train", "weights_l2norm", l2_norm(state.collection("params").flat(), state.stream())});
    metrics.push_back({"train", "loss", summary.loss});
  }
  std::erase_if(metrics, [&](const Summary::Metric& metric) { return metric.group == options.group; });
  for (const auto& [label, metric] : options.task.metrics) {
    metrics.push_back({options.group, label, logs.entry_value("metrics." + label)});
  }
  return summary;
}

}  // namespace giro::flip
