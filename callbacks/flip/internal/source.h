#pragma once

#include <optional>

#include <giro/kernels/nn/train_state.h>

namespace giro::flip::detail {

// Where a checkpoint's state is: in the run that is held at it, or, once that goes on, in a copy.
struct Source {
  TrainState* of_run = nullptr;  // null: the run has gone on
  std::optional<TrainState> own = {};
};

}  // namespace giro::flip::detail
