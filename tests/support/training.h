#pragma once

#include <utility>

#include <giro/kernels/nn/functional.h>
#include <giro/kernels/optim/train_state.h>
#include <giro/loop/data/batch.h>
#include <giro/loop/log/logs.h>

namespace giro::test {

// The function of a step that trains on loss_of(params, batch) and logs it.
template <class F>
auto training(F loss_of) {
  return [loss_of = std::move(loss_of)](TrainState& state, const Batch& batch) {
    const nn::Var loss = state.value_and_grad([&](const nn::Params& params) { return loss_of(params, batch); });
    state.apply_gradients();
    return logs().add_metric("loss", loss);
  };
}

// The same for the cross-entropy of image and label. Also logs the accuracy.
template <class Model>
auto classifying(Model model) {
  return [model = std::move(model)](TrainState& state, const Batch& batch) {
    const auto [loss, logits] = state.value_and_grad([&](const nn::Params& params) {
      const nn::Var outputs = model(params, batch["image"]);
      return std::pair{mean(softmax_cross_entropy(outputs, batch["label"])), outputs};
    });
    state.apply_gradients();
    return logs().add_metric("loss", loss).add_metric("accuracy", accuracy(logits, batch["label"]));
  };
}

}  // namespace giro::test
