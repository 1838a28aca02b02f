#pragma once

#include <memory>
#include <string>
#include <utility>

#include <giro/loop/log/logs.h>
#include <giro/loop/time/elapsed.h>

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

// Receives the logs of the steps it is due in, when they have arrived.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void observe(const Elapsed&, const Logs&) {}
  virtual std::string name() const { return {}; }
};

// What a callback's signature says about it.
struct CallbackTraits {
  CallbackKind kind = CallbackKind::barrier;
  bool sees_elapsed = false;
  bool can_stop = false;
  bool is_primary_only = false;
  bool remembers = false;
};

// A callback without the types of its loop. Each function gets the LoopState<S, B> of these types.
class CallbackModel : public Observer {
 public:
  virtual std::unique_ptr<CallbackModel> clone() const = 0;
  virtual CallbackTraits traits() const = 0;
  virtual bool changes_state() const = 0;
  virtual void run(AnyLoopState&) {}
  virtual void enqueue(AnyLoopState&, StepSink&) {}
  virtual void on_claim(AnyLoopState&) {}
  virtual void on_resume(AnyLoopState&) {}
  virtual void on_start(AnyLoopState&) {}
  virtual bool saves() const { return false; }
  virtual void on_save(AnyLoopState&) {}
  virtual void on_end(AnyLoopState&) {}
  virtual void persist(Archive&) {}
};

// A value: copying it copies the callable. The loop's engine is compiled once over these; Callback<S, B> makes them.
class AnyCallback {
 public:
  AnyCallback(const AnyCallback& other) : model_(other.model_->clone()), traits_(other.traits_) {}
  AnyCallback(AnyCallback&&) noexcept = default;
  AnyCallback& operator=(const AnyCallback& other) { return *this = AnyCallback(other); }
  AnyCallback& operator=(AnyCallback&&) noexcept = default;

  CallbackKind kind() const noexcept { return traits_.kind; }
  // Whether it reads the elapsed time, possibly through LoopState.
  bool sees_elapsed() const noexcept { return traits_.sees_elapsed; }
  // Whether its signature lets it ask the loop to stop.
  bool can_stop() const noexcept { return traits_.can_stop; }
  // Whether its signature lets it change the state.
  bool changes_state() const { return model_->changes_state(); }
  // Whether it runs only on rank 0 if several ranks work on one state.
  bool is_primary_only() const noexcept { return traits_.is_primary_only; }
  // Whether it has anything to persist.
  bool remembers() const noexcept { return traits_.remembers; }
  std::string name() const { return model_->name(); }
  Observer* observer() const noexcept { return model_.get(); }

  // run executes a barrier, or a device step at once; enqueue may hold a device step back.
  void run(AnyLoopState& loop) { model_->run(loop); }
  void enqueue(AnyLoopState& loop, StepSink& sink) { model_->enqueue(loop, sink); }
  // Called before every on_resume. A callback that writes files makes sure here that no other run writes to them.
  void on_claim(AnyLoopState& loop) { model_->on_claim(loop); }
  // Called before every on_start. May restore an interrupted run.
  void on_resume(AnyLoopState& loop) { model_->on_resume(loop); }
  void on_start(AnyLoopState& loop) { model_->on_start(loop); }
  // Whether the callback saves the run. on_save is called in a step in which a signal requests a save.
  bool saves() const { return model_->saves(); }
  void on_save(AnyLoopState& loop) { model_->on_save(loop); }
  void on_end(AnyLoopState& loop) { model_->on_end(loop); }
  // Saves or restores what it remembers, between two steps.
  void persist(Archive& archive) { model_->persist(archive); }

 protected:
  explicit AnyCallback(std::unique_ptr<CallbackModel> model) : model_(std::move(model)), traits_(model_->traits()) {}

 private:
  std::unique_ptr<CallbackModel> model_;
  CallbackTraits traits_;
};

}  // namespace detail
}  // namespace giro
