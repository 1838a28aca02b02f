#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include <giro/kernels/nn/partitioner.h>
#include <giro/loop/device_lane.h>
#include <giro/loop/group_arbiter.h>
#include <giro/loop/journal.h>
#include <giro/loop/loop_state.h>
#include <giro/loop/run_clock.h>
#include <giro/loop/run_memory.h>
#include <giro/loop/task.h>
#include <giro/runtime/state.h>

namespace giro::detail {

// The data that a run's steps and callbacks work on.
template <class S, class B>
struct RunParts {
  RunParts(S&& s, LoopOptions<S, B>&& o, RunMemory* memory)
      : state(std::move(s)),
        options(counting_tokens(std::move(o))),
        group(make_group()),
        journal(std::move(options.history), std::move(options.outputs)),
        clock(options.arbiter.get(), group != nullptr, options.elapsed),
        elapsed(clock.started()),
        loop(state, elapsed, journal.history(), options.metadata, memory),
        lane(journal, clock, elapsed, loop.logs) {
    if (group) group->set_launch(lane.launcher());
  }
  RunParts(const RunParts&) = delete;
  RunParts& operator=(const RunParts&) = delete;

  // Waits until all queued work is done and observed.
  void bring_device() {
    if constexpr (std::is_base_of_v<State, S>) {
      lane.bring(&state.stream());
    } else {
      lane.bring(nullptr);
    }
  }

  static LoopOptions<S, B> counting_tokens(LoopOptions<S, B>&& o) {
    set_tokens_per_sample(o.elapsed, o.tokens_per_sample);
    return std::move(o);
  }

  // Makes the arbiter if the options have none and several ranks work on the state; else null.
  std::shared_ptr<GroupArbiter> make_group() {
    if (options.arbiter) return nullptr;
    auto arbiter = GroupArbiter::create(partitioner_of(state));
    options.arbiter = arbiter;
    return arbiter;
  }

  S state;
  LoopOptions<S, B> options;
  std::shared_ptr<GroupArbiter> group;
  Journal journal;
  RunClock clock;
  Elapsed elapsed;
  LoopState<S, B> loop;
  DeviceLane lane;
};

}  // namespace giro::detail
