#pragma once

#include <optional>

#include <giro/kernels/optim/train_state.h>

namespace giro::flip::detail {

// Where a checkpoint's state is: in the run while it waits at the checkpoint, later in a copy.
struct Source {
  TrainState* run_state = nullptr;  // null: the run has continued
  std::optional<TrainState> copy = {};
};

}  // namespace giro::flip::detail
