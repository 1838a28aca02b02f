#pragma once

#include <giro/kernels/nn/partitioner.h>
#include <giro/loop/callback.h>
#include <giro/runtime/state.h>

namespace giro {

// Checks that all ranks of the partitioner have the same bits in everything that a checkpoint saves, except shards.
// Compares a digest of each collection, computed on the device. All ranks make this call, and it waits for them.
// Error(communication) on all ranks if one differs from rank 0, naming that rank and the first collection.
void check_replicas(const State& state, const Partitioner& partitioner);

// A callback that does this if several ranks work on the state, otherwise nothing: every(1'000), check_replicas().
class CheckReplicas : public GenericCallback {
 public:
  template <class S, class B>
  void operator()(LoopState<S, B>& loop) {
    if (loop.partitioner() != nullptr) check_replicas(loop.state, *loop.partitioner());
  }
};
inline CheckReplicas check_replicas() { return {}; }

}  // namespace giro
