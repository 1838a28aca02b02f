#pragma once

#include <memory>
#include <string>
#include <utility>

#include <giro/loop/log/logs.h>
#include <giro/loop/time/elapsed.h>
#include <giro/runtime/error.h>

namespace giro {

class Archive;

// How the loop treats a callback. Its signature alone decides this.
enum class CallbackKind {
  device_step,  // made by jit or eager: queued, never waited for
  observer,     // takes only const Elapsed& and const Logs&, and returns nothing: runs in step order when the step's
                // logs have reached the host, and sees all of them; never stalls the device
  barrier,      // everything else: all earlier work is finished and observed first
};

namespace detail {

class AnyLoopState;
class StepRecording;
struct StepCall;

// Receives the calls of device steps that a loop makes.
class StepSink {
 public:
  virtual ~StepSink() = default;
  // Appends a call of a recorded step to the held-back calls.
  virtual void push(const std::shared_ptr<StepRecording>& recording, const StepCall& call) = 0;
  // Called before a call that runs at once: launches the held-back calls, so that their logs come first.
  virtual void flush() = 0;
};

// What a callback's signature and members say about it.
struct CallbackTraits {
  CallbackKind kind = CallbackKind::barrier;
  bool sees_elapsed = false;     // reads the elapsed time, possibly through LoopState
  bool can_stop = false;         // its signature lets it ask the loop to stop
  bool changes_state = false;    // its signature lets it change the state
  bool is_primary_only = false;  // runs only on rank 0 if several ranks work on one state
  bool remembers = false;        // has something to persist
  bool saves = false;            // saves the run: on_save is called in a step in which a signal requests a save
  bool checks_entries = false;   // on_logged is called with the names of what is logged
};

// A callback without the types of its loop. Each function gets the LoopState<S, B> of these types.
class CallbackModel {
 public:
  explicit CallbackModel(const CallbackTraits& given) : traits(given) {}
  virtual ~CallbackModel() = default;
  virtual std::unique_ptr<CallbackModel> clone() const = 0;
  virtual std::string name() const = 0;
  // Shows an observer the logs of a step in which it is due, when they have arrived.
  virtual void observe(const Elapsed&, const Logs&) {}
  // Runs it, or a device step at once; enqueue may hold a device step back.
  virtual void run(AnyLoopState&) {}
  virtual void enqueue(AnyLoopState&, StepSink&) {}
  // Called before every on_resume. A callback that writes files makes sure here that no other run writes to them.
  virtual void on_claim(AnyLoopState&) {}
  // Called before every on_start. May restore an interrupted run.
  virtual void on_resume(AnyLoopState&) {}
  virtual void on_start(AnyLoopState&) {}
  virtual void on_save(AnyLoopState&) {}
  virtual void on_end(AnyLoopState&) {}
  // Saves or restores what it remembers, between two steps.
  virtual void persist(Archive&) {}
  // Called with the names of a step's logs at its end, until it returns true. When a run is resumed, first with those
  // of the steps so far.
  virtual bool on_logged(const LogSchema&) { return true; }

  const CallbackTraits traits;
  bool failed = false;  // it has thrown, and is called no more
};

// A value: copying it copies the callable. The loop's engine is compiled once over these; Callback<S, B> makes them.
class AnyCallback {
 public:
  AnyCallback(const AnyCallback& other) : model_(other.get()->clone()) {}
  AnyCallback(AnyCallback&&) noexcept = default;
  AnyCallback& operator=(const AnyCallback& other) { return *this = AnyCallback(other); }
  AnyCallback& operator=(AnyCallback&&) noexcept = default;

  CallbackKind kind() const { return get()->traits.kind; }
  // Error(invalid_argument) if it was moved from.
  CallbackModel* get() const {
    if (!model_) throw Error(ErrorCode::invalid_argument, "a callback was used that had been moved from");
    return model_.get();
  }
  CallbackModel* operator->() const { return get(); }

 protected:
  explicit AnyCallback(std::unique_ptr<CallbackModel> model) : model_(std::move(model)) {}

 private:
  std::unique_ptr<CallbackModel> model_;
};

}  // namespace detail
}  // namespace giro
