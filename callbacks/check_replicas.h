#pragma once

#include <giro/kernels/nn/partitioner.h>
#include <giro/loop/callback.h>
#include <giro/runtime/state.h>

namespace giro {

// That every rank of the partitioner has the same bits in all that a checkpoint would save, but for shards: a digest of
// each collection is computed on the device, and compared on the host. A call of all ranks, which waits.
// Error(communication), on each rank that differs from rank 0, naming the first collection.
void check_replicas(const State& state, const Partitioner& partitioner);

// A callback that does so where several ranks work on the state, and else nothing: every(1'000), check_replicas().
class CheckReplicas : public GenericCallback {
 public:
  template <class S, class B>
  void operator()(LoopState<S, B>& loop) {
    if (loop.partitioner() != nullptr) check_replicas(loop.state, *loop.partitioner());
  }
};
inline CheckReplicas check_replicas() { return {}; }

}  // namespace giro
