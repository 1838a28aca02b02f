#pragma once

#include <any>
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
#include <giro/loop/log/history.h>
#include <giro/loop/log/outputs.h>
#include <giro/loop/loop_result.h>
#include <giro/loop/loop_state.h>
#include <giro/loop/time/elapsed.h>
#include <giro/loop/time/schedule.h>
#include <giro/runtime/state.h>

namespace giro::detail {

// What a run is doing outside of its callbacks, for error messages.
enum class Activity { loop, dataset, next_batch, batch_size };

// Steps in which no callback is due: nothing happens in them but counting. Those before both limits are idle.
struct IdleSteps {
  std::int64_t until_steps = 0, until_samples = 0;
};

// A run's position in its dataset, without the types of the dataset and its batches.
class Cursor {
 public:
  virtual ~Cursor() = default;
  // The number of batches that the dataset skips before begin().
  virtual std::int64_t first_batch() const = 0;
  // Goes to batch number `batch`. Call this before the functions below.
  virtual void begin(std::int64_t batch) = 0;
  virtual bool at_end() const = 0;
  // The batch here, and its number of samples.
  virtual const void* batch() = 0;
  virtual std::int64_t samples(const void* batch) const = 0;
  // Goes to the next batch. Returns false at the end. `batch`, the one before, becomes null if it is no longer valid.
  virtual bool advance(const void*& batch) = 0;
  // Call this when the batch before is no longer needed, before batch() is called for the next.
  virtual void release() = 0;
  // Goes over batches as long as their steps are idle, and counts them. Returns whether the dataset has ended; its last
  // step is not counted then, and `batch` is its batch, or null. `activity` is what it was doing if it throws.
  virtual bool skip(const IdleSteps& idle, Elapsed& elapsed, Activity& activity, const void*& batch) = 0;
  // Saves or restores what the dataset remembers.
  virtual void persist(Archive& archive) = 0;
};

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

// LoopOptions and tasks without the types of the state and the batch.
struct EngineOptions {
  Period stop = {};
  Elapsed elapsed = {};
  History history = {};
  Outputs outputs = {};
  std::vector<AnyCallback> on_start = {}, on_end = {};
  std::int64_t tokens_per_sample = 0;
  std::any metadata = {};
  bool catch_signals = true;
  std::int64_t steps_per_execution = 0;
  std::shared_ptr<Arbiter> arbiter = {};
};
struct EngineTask {
  Schedule schedule;
  std::vector<AnyCallback> callbacks;
};

// Runs the steps of a loop; compiled once for all types. Its functions are those of Run, LoopState and Elapse, each
// documented there.
class Engine {
 public:
  // `dataset` and `state` must outlive it. `loop` may be constructed later and destroyed earlier.
  static std::unique_ptr<Engine> create(EngineOptions options, std::vector<EngineTask> tasks, Cursor& dataset,
                                        StateAccess& state, AnyLoopState& loop);
  virtual ~Engine() = default;

  virtual StopReason advance(const Period& until) = 0;
  virtual void extend(const Period& stop, History history, Outputs outputs) = 0;
  // Afterwards the results may be moved away.
  virtual void finish() = 0;
  virtual const Elapsed& elapsed() const = 0;
  virtual History& history() = 0;
  virtual Outputs& outputs() = 0;
  virtual std::any& metadata() = 0;
  virtual int interrupted() const = 0;
  virtual StopReason ended() const = 0;

  virtual Elapsed completed() const = 0;
  virtual void at_step_end(std::function<void()> f) = 0;
  virtual void after_step(std::function<void()> f, bool first) = 0;
  virtual void persist(Archive& archive) = 0;

  // For a loop whose body is not a callback: begin() once, next() after each step. They return whether there is a step;
  // its batch is the cursor's.
  virtual bool begin() = 0;
  virtual bool next() = 0;
};

}  // namespace giro::detail
