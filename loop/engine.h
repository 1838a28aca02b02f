#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <giro/kernels/nn/partitioner.h>
#include <giro/loop/any_callback.h>
#include <giro/loop/arbiter.h>
#include <giro/loop/cursor.h>
#include <giro/loop/log/history.h>
#include <giro/loop/log/outputs.h>
#include <giro/loop/loop_result.h>
#include <giro/loop/loop_state.h>
#include <giro/loop/task.h>
#include <giro/loop/time/elapsed.h>
#include <giro/runtime/error.h>
#include <giro/runtime/state.h>

namespace giro::detail {

// What a run needs of its state, without its type.
class StateAccess {
 public:
  virtual ~StateAccess() = default;
  // Null if the state is not a State.
  virtual const State* device_state() const { return nullptr; }
  virtual std::shared_ptr<const Partitioner> partitioner() const { return nullptr; }
  virtual void persist(Archive&) {}
  // Throws the LoopError for a run that ends with this error, with the results so far.
  [[noreturn]] virtual void raise(ErrorCode code, const std::string& message, const std::exception_ptr& cause) = 0;
};

// LoopOptions without the types of the state and the batch.
struct EngineOptions {
  RunResults results = {};  // of earlier loops
  Period stop = {};
  std::vector<AnyCallback> on_start = {}, on_end = {};
  std::int64_t tokens_per_sample = 0;
  bool catch_signals = true;
  std::int64_t steps_per_execution = 0;
  std::shared_ptr<Arbiter> arbiter = {};
};

// Runs the steps of a loop; compiled once for all types. Its functions are those of Run, LoopState and Elapse, each
// documented there.
class Engine {
 public:
  // `dataset` and `state` must outlive it. `loop` may be constructed later and destroyed earlier.
  static std::unique_ptr<Engine> create(EngineOptions options, std::vector<AnyTask> tasks, Cursor& dataset,
                                        StateAccess& state, AnyLoopState& loop);
  virtual ~Engine() = default;

  RunResults results;  // so far. After finish() they may be moved away.

  virtual StopReason advance(const Period& until) = 0;
  virtual void extend(const Period& stop, History history, Outputs outputs) = 0;
  virtual void finish() = 0;

  virtual Elapsed completed() const = 0;
  virtual void at_step_end(std::function<void()> f) = 0;
  virtual void after_step(std::function<void()> f, bool first) = 0;
  virtual void persist(Archive& archive) = 0;

  // For a loop whose body is not a callback: ends the step that it is in, if any, and begins the next. Returns whether
  // there is one; its batch is the cursor's.
  virtual bool next() = 0;

 protected:
  explicit Engine(RunResults earlier) : results(std::move(earlier)) {}
};

}  // namespace giro::detail
