#pragma once

#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include <giro/loop/journal.h>
#include <giro/loop/matching.h>

namespace giro {

class Archive;

// The base of a callback class for loops of any state and batch. Its member
//   template <class S, class B> void operator()(LoopState<S, B>& loop)
// and, if present, on_claim, on_resume, on_start, on_save and on_end of the same form, are instantiated for the types
// of the loop. operator(), on_start and on_end may return the same types as in any other callback.
struct GenericCallback {};

namespace detail {

// A generic callback for one loop's types, usable like any other callback.
template <class F, class S, class B>
struct BoundCallback {
  using Generic = F;

  decltype(auto) operator()(LoopState<S, B>& loop) { return callable(loop); }
  void persist(Archive& archive)
    requires requires(F& f) { f.persist(archive); }
  {
    callable.persist(archive);
  }
  bool saves() const
    requires requires(const F& f) { f.saves(); }
  {
    return callable.saves();
  }
  void on_save(LoopState<S, B>& loop)
    requires requires(F& f) { f.on_save(loop); }
  {
    callable.on_save(loop);
  }
  void on_claim(LoopState<S, B>& loop)
    requires requires(F& f) { f.on_claim(loop); }
  {
    callable.on_claim(loop);
  }
  void on_resume(LoopState<S, B>& loop)
    requires requires(F& f) { f.on_resume(loop); }
  {
    callable.on_resume(loop);
  }
  decltype(auto) on_start(LoopState<S, B>& loop) {
    if constexpr (requires { callable.on_start(loop); }) {
      return callable.on_start(loop);
    } else {
      static_assert(!names_on_start<F>(), "giro: a GenericCallback's on_start must take a LoopState<S, B>&");
    }
  }
  decltype(auto) on_end(LoopState<S, B>& loop) {
    if constexpr (requires { callable.on_end(loop); }) {
      return callable.on_end(loop);
    } else {
      static_assert(!names_on_end<F>(), "giro: a GenericCallback's on_end must take a LoopState<S, B>&");
    }
  }

  F callable;
};

}  // namespace detail

// How the loop treats a callback. Its signature alone decides this.
enum class CallbackKind {
  device_step,  // made by jit or eager: queued, never waited for
  observer,     // takes only const Elapsed& and const Logs&, and returns nothing: runs in step order when the step's
                // logs have reached the host, and sees all of them; never stalls the device
  barrier,      // everything else: all earlier work is finished and observed first
};

namespace detail {

template <class F>
constexpr CallbackKind kind_of() {
  if constexpr (IsStep<F>::value) {
    return CallbackKind::device_step;
  } else {
    static_assert(std::is_copy_constructible_v<F>,
                  "giro: a loop copies its callbacks, so they cannot capture anything that is move-only");
    static_assert(!IsReference<F>::value,
                  "giro: a loop copies its callbacks: instead of std::ref, pass a lambda that captures the object by "
                  "reference");
    static_assert(IsReference<F>::value || Signature<F>::known,
                  "giro: a callback must have a single signature, without auto parameters");
    constexpr bool observes = []<class... Args>(std::tuple<Args...>*) {
      return sizeof...(Args) > 0 && (is_observed<Args> && ...);
    }(static_cast<typename Signature<F>::Arguments*>(nullptr));
    return observes && std::is_void_v<typename Signature<F>::Return> ? CallbackKind::observer : CallbackKind::barrier;
  }
}

}  // namespace detail

namespace detail {

template <class F>
constexpr bool is_primary_only() {
  if constexpr (requires { F::kPrimaryOnly; }) {
    return F::kPrimaryOnly;
  } else {
    return false;
  }
}

// Receives the calls of device steps that a loop makes.
class StepSink {
 public:
  virtual ~StepSink() = default;
  // Appends a call of a recorded step to the held-back calls.
  virtual void push(const std::shared_ptr<StepRecording>& recording, const StepCall& call) = 0;
  // Called before a call that runs at once: launches the held-back calls, so that their logs come first.
  virtual void flush_deferred() = 0;
};

}  // namespace detail

// A callable that a loop of state S and batch B runs. A value: copying it copies the callable. Its parameter types, any
// subset in any order, determine its arguments and its CallbackKind. It returns nothing, Logs, the state, (Logs,
// state), or (Logs of outputs, Logs, state); any of these as std::optional.
//
// A class may have more members:
// - on_start and on_end, with parameters of the same types, run before the loop's first step and after its last. Their
//   logs are dropped.
// - on_claim() runs before anything else of the loop. A callback that writes files locks them here, so that a run that
//   would write to another run's files ends before it has changed any.
// - kPrimaryOnly = true: the callback runs only on rank 0 if several ranks work on one state. For callbacks that print
//   or write.
// - persist(Archive&) saves what the callback remembers from step to step, so that a resumed run continues as if it had
//   not been interrupted.
template <class S, class B>
class Callback {
 public:
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, Callback>)
  Callback(F callable) : model_(make_model(std::move(callable))) {}

  Callback(const Callback& other)
      : model_(other.model_->clone()),
        kind_(other.kind_),
        sees_elapsed_(other.sees_elapsed_),
        is_primary_only_(other.is_primary_only_),
        can_stop_(other.can_stop_) {}
  Callback(Callback&&) noexcept = default;
  Callback& operator=(const Callback& other) { return *this = Callback(other); }
  Callback& operator=(Callback&&) noexcept = default;

  CallbackKind kind() const noexcept { return kind_; }
  // Whether it reads the elapsed time, possibly through LoopState.
  bool sees_elapsed() const noexcept { return sees_elapsed_; }
  std::string name() const { return model_->name(); }
  // Whether its signature lets it ask the loop to stop.
  bool can_stop() const noexcept { return can_stop_; }
  // Whether its signature lets it change the state.
  bool changes_state() const { return model_->changes_state(); }
  // Whether it runs only on rank 0 if several ranks work on one state.
  bool is_primary_only() const { return is_primary_only_; }

  // For loops. run executes a barrier, or a device step at once; enqueue may hold a device step back.
  void run(LoopState<S, B>& loop) { model_->run(loop); }
  void enqueue(LoopState<S, B>& loop, detail::StepSink& sink) { model_->enqueue(loop, sink); }
  detail::Observer* observer() const noexcept { return model_.get(); }
  // Called before every on_resume. A callback that writes files makes sure here that no other run writes to them.
  void on_claim(LoopState<S, B>& loop) { model_->on_claim(loop); }
  // Called before every on_start. May restore an interrupted run.
  void on_resume(LoopState<S, B>& loop) { model_->on_resume(loop); }
  void on_start(LoopState<S, B>& loop) { model_->on_start(loop); }
  // Whether the callback saves the run. on_save is called in a step in which a signal requests a save.
  bool saves() const { return model_->saves(); }
  void on_save(LoopState<S, B>& loop) { model_->on_save(loop); }
  void on_end(LoopState<S, B>& loop) { model_->on_end(loop); }
  // remembers: whether it has anything to persist. persist saves or restores it, between two steps.
  bool remembers() const { return model_->remembers(); }
  void persist(Archive& archive) { model_->persist(archive); }

 private:
  struct Concept : detail::Observer {
    virtual std::unique_ptr<Concept> clone() const = 0;
    virtual CallbackKind kind() const = 0;
    virtual bool sees_elapsed() const = 0;
    virtual std::string name() const = 0;
    virtual bool changes_state() const = 0;
    virtual bool is_primary_only() const = 0;
    virtual bool can_stop() const = 0;
    virtual void run(LoopState<S, B>&) {}
    virtual void enqueue(LoopState<S, B>&, detail::StepSink&) {}
    virtual void on_claim(LoopState<S, B>&) {}
    virtual void on_resume(LoopState<S, B>&) {}
    virtual bool saves() const { return false; }
    virtual void on_save(LoopState<S, B>&) {}
    virtual void on_start(LoopState<S, B>&) {}
    virtual void on_end(LoopState<S, B>&) {}
    virtual bool remembers() const = 0;
    virtual void persist(Archive&) {}
  };

  template <class F>
  struct Model final : Concept {
    explicit Model(F f) : callable(std::move(f)) {}

    static constexpr CallbackKind kKind = detail::kind_of<F>();

    std::unique_ptr<Concept> clone() const override { return std::unique_ptr<Concept>(new Model(*this)); }
    CallbackKind kind() const override { return kKind; }
    bool sees_elapsed() const override {
      if constexpr (detail::IsStep<F>::value) {
        return callable.uses_broadcasts();
      } else {
        return []<class... Args>(std::tuple<Args...>*) {
          return ((std::is_same_v<std::remove_cvref_t<Args>, Elapsed> ||
                   std::is_same_v<std::remove_cvref_t<Args>, LoopState<S, B>>) ||
                  ...);
        }(static_cast<typename detail::Signature<F>::Arguments*>(nullptr));
      }
    }
    std::string name() const override {
      if constexpr (detail::IsStep<F>::value) {
        return "a step";
      } else if constexpr (requires { typename F::Generic; }) {
        return detail::name_of(typeid(typename F::Generic));
      } else {
        return detail::name_of(typeid(F));
      }
    }
    bool can_stop() const override {
      if constexpr (kKind == CallbackKind::barrier) {
        return []<class... Args>(std::tuple<Args...>*) {
          return (std::is_same_v<Args, LoopState<S, B>&> || ...);
        }(static_cast<typename detail::Signature<F>::Arguments*>(nullptr));
      } else {
        return false;
      }
    }
    bool is_primary_only() const override {
      if constexpr (requires { typename F::Generic; }) {
        return detail::is_primary_only<typename F::Generic>();
      } else {
        return detail::is_primary_only<F>();
      }
    }
    bool changes_state() const override {
      if constexpr (detail::IsStep<F>::value) {
        return callable.changes_state();
      } else {
        bool changes = detail::may_change_state<S, B>(static_cast<detail::Signature<F>*>(nullptr));
        if constexpr (requires { &F::on_start; }) {
          changes |=
              detail::may_change_state<S, B>(static_cast<detail::MemberSignature<decltype(&F::on_start)>*>(nullptr));
        }
        if constexpr (requires { &F::on_end; }) {
          changes |=
              detail::may_change_state<S, B>(static_cast<detail::MemberSignature<decltype(&F::on_end)>*>(nullptr));
        }
        return changes;
      }
    }

    void run(LoopState<S, B>& loop) override {
      if constexpr (detail::IsStep<F>::value) {
        loop.logs.merge(callable(loop.state, loop.batch(), broadcasts(loop.elapsed)));
      } else if constexpr (kKind == CallbackKind::barrier) {
        detail::call_with(callable, loop, static_cast<typename detail::Signature<F>::Arguments*>(nullptr));
      }
    }
    void enqueue(LoopState<S, B>& loop, detail::StepSink& sink) override {
      if constexpr (detail::IsStep<F>::value) {
        const Broadcasts& values = broadcasts(loop.elapsed);
        latest.recording = callable.find(loop.state, loop.batch(), values, std::move(latest.recording));
        if (latest.recording->is_eager()) {
          sink.flush_deferred();
          loop.logs.merge(callable(loop.state, loop.batch(), values));
        } else {
          sink.push(latest.recording, callable.call(loop.state, loop.batch(), values));
        }
      }
    }
    void observe(const Elapsed& elapsed, const Logs& logs) override {
      if constexpr (kKind == CallbackKind::observer) {
        [&]<class... Args>(std::tuple<Args...>*) {
          callable([&]() -> decltype(auto) {
            if constexpr (std::is_same_v<std::remove_cvref_t<Args>, Elapsed>)
              return (elapsed);
            else
              return (logs);
          }()...);
        }(static_cast<typename detail::Signature<F>::Arguments*>(nullptr));
      }
    }
    static constexpr bool kRemembers = requires(F& f, Archive& archive) { f.persist(archive); };
    bool remembers() const override { return kRemembers; }
    void persist(Archive& archive) override {
      if constexpr (kRemembers) callable.persist(archive);
    }
    static constexpr bool kSaves = requires(F& f, LoopState<S, B>& loop) { f.on_save(loop); };
    bool saves() const override {
      if constexpr (requires { callable.saves(); }) {
        return callable.saves();
      } else {
        return kSaves;
      }
    }
    void on_save(LoopState<S, B>& loop) override {
      if constexpr (kSaves) callable.on_save(loop);
    }
    void on_claim(LoopState<S, B>& loop) override {
      if constexpr (requires { callable.on_claim(loop); }) {
        callable.on_claim(loop);
      } else if constexpr (requires { callable.on_claim(); }) {
        callable.on_claim();
      }
    }
    void on_resume(LoopState<S, B>& loop) override {
      if constexpr (requires { callable.on_resume(loop); }) callable.on_resume(loop);
    }
    void on_start(LoopState<S, B>& loop) override {
      if constexpr (requires { &F::on_start; }) {
        detail::call_with([this](auto&&... args) { return callable.on_start(std::forward<decltype(args)>(args)...); },
                          loop,
                          static_cast<typename detail::MemberSignature<decltype(&F::on_start)>::Arguments*>(nullptr));
      } else {
        static_assert(!detail::names_on_start<F>(),
                      "giro: a callback's on_start must be public, and neither overloaded nor a template");
      }
    }
    void on_end(LoopState<S, B>& loop) override {
      if constexpr (requires { &F::on_end; }) {
        detail::call_with([this](auto&&... args) { return callable.on_end(std::forward<decltype(args)>(args)...); },
                          loop,
                          static_cast<typename detail::MemberSignature<decltype(&F::on_end)>::Arguments*>(nullptr));
      } else {
        static_assert(!detail::names_on_end<F>(),
                      "giro: a callback's on_end must be public, and neither overloaded nor a template");
      }
    }

    // Returns the same object each time if the step takes broadcasts.
    const Broadcasts& broadcasts(const Elapsed& elapsed)
      requires detail::IsStep<F>::value
    {
      if (!callable.uses_broadcasts()) return latest.broadcasts;
      if (latest.broadcasts.empty()) latest.broadcasts = Broadcasts(elapsed);
      latest.broadcasts.set(elapsed);
      return latest.broadcasts;
    }

    struct Latest {  // for a step
      std::shared_ptr<detail::StepRecording> recording;
      Broadcasts broadcasts;

      Latest() = default;
      Latest(const Latest&) {}  // a copy of the callback has its own
      Latest(Latest&&) noexcept = default;
      Latest& operator=(const Latest&) = delete;
    };
    struct Nothing {};

    F callable;
    [[no_unique_address]] std::conditional_t<detail::IsStep<F>::value, Latest, Nothing> latest;
  };

  // Not make_unique: every program would have to compile a unique_ptr of each callback's Model.
  template <class F>
  static std::unique_ptr<Concept> make_model(F callable) {
    if constexpr (std::is_base_of_v<GenericCallback, F>) {
      using Bound = detail::BoundCallback<F, S, B>;
      return std::unique_ptr<Concept>(new Model<Bound>(Bound{std::move(callable)}));
    } else {
      return std::unique_ptr<Concept>(new Model<F>(std::move(callable)));
    }
  }

  std::unique_ptr<Concept> model_;
  CallbackKind kind_ = model_->kind();
  bool sees_elapsed_ = model_->sees_elapsed();
  bool is_primary_only_ = model_->is_primary_only();
  bool can_stop_ = model_->can_stop();
};

}  // namespace giro
