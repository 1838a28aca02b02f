#pragma once

#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include <giro/loop/any_callback.h>
#include <giro/loop/callback_arguments.h>

namespace giro {

// The base of a callback class for loops of any state and batch. Its member
//   template <class S, class B> void operator()(LoopState<S, B>& loop)
// and, if present, on_claim, on_resume, on_start, on_save and on_end of the same form, are instantiated for the types
// of the loop. operator(), on_start and on_end may return the same types as in any other callback.
struct GenericCallback {};

namespace detail {

template <class F>
inline constexpr bool is_generic = std::is_base_of_v<GenericCallback, F>;

template <class F>
constexpr CallbackKind kind_of() {
  if constexpr (is_made_from<Step, F>) {
    return CallbackKind::device_step;
  } else {
    static_assert(std::is_copy_constructible_v<F>,
                  "giro: a loop copies its callbacks, so they cannot capture anything that is move-only");
    static_assert(!is_made_from<std::reference_wrapper, F>,
                  "giro: a loop copies its callbacks: instead of std::ref, pass a lambda that captures the object by "
                  "reference");
    static_assert(is_generic<F> || is_made_from<std::reference_wrapper, F> || Signature<F>::known,
                  "giro: a callback must have a single signature, without auto parameters");
    if constexpr (is_generic<F>) {
      return CallbackKind::barrier;
    } else {
      constexpr bool observes = []<class... Args>(std::tuple<Args...>*) {
        return sizeof...(Args) > 0 && (is_observed<Args> && ...);
      }(static_cast<typename Signature<F>::Arguments*>(nullptr));
      return observes && std::is_void_v<typename Signature<F>::Return> ? CallbackKind::observer : CallbackKind::barrier;
    }
  }
}

template <class F>
constexpr bool is_primary_only() {
  if constexpr (requires { F::kPrimaryOnly; }) {
    return F::kPrimaryOnly;
  } else {
    return false;
  }
}

// A callable as a callback of a loop of state S and batch B.
template <class F, class S, class B>
class ModelOf final : public CallbackModel {
  using Loop = LoopState<S, B>;
  static constexpr CallbackKind kKind = kind_of<F>();
  static constexpr bool kIsStep = kKind == CallbackKind::device_step;
  static constexpr bool kRemembers = requires(F& f, Archive& archive) { f.persist(archive); };
  static constexpr bool kChecksEntries = requires(F& f, const LogSchema& entries) { f.on_logged(entries); };
  static constexpr bool kSaves = requires(F& f, Loop& loop) { f.on_save(loop); };

 public:
  explicit ModelOf(F f) : CallbackModel(traits_of(f)), callable_(std::move(f)) {}

  std::unique_ptr<CallbackModel> clone() const override { return std::unique_ptr<CallbackModel>(new ModelOf(*this)); }
  std::string name() const override { return kIsStep ? "a step" : name_of(typeid(F)); }

  void run(AnyLoopState& any) override {
    Loop& loop = typed(any);
    if constexpr (kIsStep) {
      loop.logs.merge(callable_(loop.state, loop.batch(), broadcasts(loop.elapsed)));
    } else if constexpr (kKind == CallbackKind::observer) {
      observe(loop.elapsed, loop.logs);
    } else {
      call_with(callable_, loop, parameters());
    }
  }
  void enqueue(AnyLoopState& any, StepSink& sink) override {
    if constexpr (kIsStep) {
      Loop& loop = typed(any);
      const Broadcasts& values = broadcasts(loop.elapsed);
      latest_.recording = callable_.find(loop.state, loop.batch(), values, std::move(latest_.recording));
      if (latest_.recording->must_compare_ranks()) {
        sink.flush();  // a rank may wait for this one's part in a call that is held back here
        latest_.recording->compare_ranks();
      }
      if (latest_.recording->is_eager()) {
        sink.flush();
        loop.logs.merge(callable_(loop.state, loop.batch(), values));
      } else {
        sink.push(latest_.recording, callable_.call(loop.state, loop.batch(), values));
      }
    }
  }
  void observe(const Elapsed& elapsed, const Logs& logs) override {
    if constexpr (kKind == CallbackKind::observer) {
      [&]<class... Args>(std::tuple<Args...>*) {
        callable_([&]() -> decltype(auto) {
          if constexpr (std::is_same_v<std::remove_cvref_t<Args>, Elapsed>)
            return (elapsed);
          else
            return (logs);
        }()...);
      }(parameters());
    }
  }
  void persist(Archive& archive) override {
    if constexpr (kRemembers) callable_.persist(archive);
  }
  bool on_logged(const LogSchema& entries) override {
    if constexpr (kChecksEntries) return callable_.on_logged(entries);
    return true;
  }
  void on_save(AnyLoopState& loop) override {
    if constexpr (kSaves) callable_.on_save(typed(loop));
  }
  void on_claim(AnyLoopState& any) override {
    if constexpr (requires(Loop& loop) { callable_.on_claim(loop); }) {
      callable_.on_claim(typed(any));
    } else if constexpr (requires { callable_.on_claim(); }) {
      callable_.on_claim();
    }
  }
  void on_resume(AnyLoopState& any) override {
    if constexpr (requires(Loop& loop) { callable_.on_resume(loop); }) callable_.on_resume(typed(any));
  }
  void on_start(AnyLoopState& any) override {
    if constexpr (requires { &F::on_start; }) {
      call_with([this](auto&&... args) { return callable_.on_start(std::forward<decltype(args)>(args)...); },
                typed(any), static_cast<typename MemberSignature<decltype(&F::on_start)>::Arguments*>(nullptr));
    } else if constexpr (is_generic<F> && requires(Loop& loop) { callable_.on_start(loop); }) {
      call_with([this](Loop& loop) { return callable_.on_start(loop); }, typed(any), parameters());
    } else {
      static_assert(is_generic<F> || !names_on_start<F>,
                    "giro: a callback's on_start must be public, and neither overloaded nor a template");
      static_assert(!is_generic<F> || !names_on_start<F>,
                    "giro: a GenericCallback's on_start must take a LoopState<S, B>&");
    }
  }
  void on_end(AnyLoopState& any) override {
    if constexpr (requires { &F::on_end; }) {
      call_with([this](auto&&... args) { return callable_.on_end(std::forward<decltype(args)>(args)...); }, typed(any),
                static_cast<typename MemberSignature<decltype(&F::on_end)>::Arguments*>(nullptr));
    } else if constexpr (is_generic<F> && requires(Loop& loop) { callable_.on_end(loop); }) {
      call_with([this](Loop& loop) { return callable_.on_end(loop); }, typed(any), parameters());
    } else {
      static_assert(is_generic<F> || !names_on_end<F>,
                    "giro: a callback's on_end must be public, and neither overloaded nor a template");
      static_assert(!is_generic<F> || !names_on_end<F>,
                    "giro: a GenericCallback's on_end must take a LoopState<S, B>&");
    }
  }

 private:
  struct Latest {  // for a step
    std::shared_ptr<StepRecording> recording;
    Broadcasts broadcasts;

    Latest() = default;
    Latest(const Latest&) {}  // a copy of the callback has its own
    Latest(Latest&&) noexcept = default;
    Latest& operator=(const Latest&) = delete;
  };
  struct Nothing {};

  static CallbackTraits traits_of(const F& f) {
    CallbackTraits traits{.kind = kKind,
                          .is_primary_only = is_primary_only<F>(),
                          .remembers = kRemembers,
                          .saves = kSaves,
                          .checks_entries = kChecksEntries};
    if constexpr (kIsStep) {
      traits.sees_elapsed = f.uses_broadcasts();
      traits.changes_state = f.changes_state();
    } else {
      [&]<class... Args>(std::tuple<Args...>*) {
        traits.sees_elapsed =
            ((std::is_same_v<std::remove_cvref_t<Args>, Elapsed> || std::is_same_v<std::remove_cvref_t<Args>, Loop>) ||
             ...);
        traits.can_stop = kKind == CallbackKind::barrier && (std::is_same_v<Args, Loop&> || ...);
      }(parameters());
      traits.changes_state = changes_state();
    }
    if constexpr (requires { f.saves(); }) traits.saves = f.saves();
    return traits;
  }
  static constexpr bool changes_state() {
    if constexpr (is_generic<F>) {
      return true;
    } else {
      bool changes = may_change_state<S, B>(static_cast<Signature<F>*>(nullptr));
      if constexpr (requires { &F::on_start; }) {
        changes |= may_change_state<S, B>(static_cast<MemberSignature<decltype(&F::on_start)>*>(nullptr));
      }
      if constexpr (requires { &F::on_end; }) {
        changes |= may_change_state<S, B>(static_cast<MemberSignature<decltype(&F::on_end)>*>(nullptr));
      }
      return changes;
    }
  }
  static Loop& typed(AnyLoopState& loop) { return static_cast<Loop&>(loop); }
  // Of operator(), as a null pointer to a tuple of them; none for a step.
  static constexpr auto* parameters() {
    if constexpr (is_generic<F>) {
      return static_cast<std::tuple<Loop&>*>(nullptr);
    } else if constexpr (Signature<F>::known) {
      return static_cast<typename Signature<F>::Arguments*>(nullptr);
    } else {
      return static_cast<std::tuple<>*>(nullptr);
    }
  }

  // Returns the same object each time if the step takes broadcasts.
  const Broadcasts& broadcasts(const Elapsed& elapsed)
    requires kIsStep
  {
    if (!callable_.uses_broadcasts()) return latest_.broadcasts;
    if (latest_.broadcasts.empty()) latest_.broadcasts = Broadcasts(elapsed);
    latest_.broadcasts.set(elapsed);
    return latest_.broadcasts;
  }

  F callable_;
  [[no_unique_address]] std::conditional_t<kIsStep, Latest, Nothing> latest_;
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
// - on_logged(const LogSchema&) runs at the end of a step that logs entries of other names than steps before it, with
//   these names, until it returns true, and when a run is resumed. A callback that reads an entry checks it here,
//   before it is first due.
// - kPrimaryOnly = true: the callback runs only on rank 0 if several ranks work on one state. For callbacks that print
//   or write.
// - persist(Archive&) saves what the callback remembers from step to step, so that a resumed run continues as if it had
//   not been interrupted.
template <class S, class B>
class Callback : public detail::AnyCallback {
 public:
  // Not make_unique: every program would have to compile a unique_ptr of each callback's model.
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, Callback>)
  Callback(F callable)
      : AnyCallback(std::unique_ptr<detail::CallbackModel>(new detail::ModelOf<F, S, B>(std::move(callable)))) {}
};

}  // namespace giro
