#pragma once

#include <any>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include <giro/loop/log/history.h>
#include <giro/loop/log/logs.h>
#include <giro/loop/step/signature.h>
#include <giro/loop/step/step.h>
#include <giro/loop/time/elapsed.h>
#include <giro/runtime/error.h>

namespace giro {

// What a callback may see and change while a loop runs.
template <class S, class B>
class LoopState {
 public:
  LoopState(S& s, const Elapsed& start, const History& past, std::any& data)
      : state(s), elapsed(start), history(past), metadata(data), first_record_(past.size()) {}

  S& state;
  const Elapsed& elapsed;  // at the beginning of this step
  const History& history;  // of the steps before this one
  std::any& metadata;      // the program's own: LoopOptions::metadata
  Logs logs;               // of this step so far
  bool stop_iteration = false;
  bool failed = false;  // whether an error has ended the loop: on_end runs all the same

  // The batch of this step, of elapsed.step_samples samples. Error(invalid_argument) in an on_end, where there is none.
  const B& batch() const {
    if (batch_ == nullptr) throw Error(ErrorCode::invalid_argument, "on_end: there is no batch when a loop has ended");
    return *batch_;
  }
  void set_batch(const B* batch) noexcept { batch_ = batch; }
  bool has_batch() const noexcept { return batch_ != nullptr; }

  // The latest value of everything that was logged since the loop began.
  Logs accumulated_logs() const {
    Logs all = history.latest(first_record_);
    all.merge(logs);
    return all;
  }

 private:
  const B* batch_ = nullptr;
  std::size_t first_record_;
};

namespace detail {

template <class T>
struct IsStep : std::false_type {};
template <class S, class Statics>
struct IsStep<Step<S, Statics>> : std::true_type {};

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <class T, class S>
inline constexpr bool is_or_bases = std::is_same_v<T, S> || std::is_base_of_v<T, S>;

template <class Arg, class S, class B>
decltype(auto) loop_argument(LoopState<S, B>& loop) {
  using T = std::remove_cvref_t<Arg>;
  constexpr bool mutable_reference = std::is_lvalue_reference_v<Arg> && !std::is_const_v<std::remove_reference_t<Arg>>;
  if constexpr (std::is_same_v<T, Elapsed>) {
    return static_cast<const Elapsed&>(loop.elapsed);
  } else if constexpr (std::is_same_v<T, Logs>) {
    return static_cast<const Logs&>(loop.logs);
  } else if constexpr (std::is_same_v<T, LoopState<S, B>>) {
    return (loop);
  } else if constexpr (is_or_bases<T, S> && (mutable_reference || !std::is_same_v<T, B>)) {
    return static_cast<T&>(loop.state);
  } else if constexpr (is_or_bases<T, B>) {
    return static_cast<const T&>(loop.batch());
  } else {
    static_assert(std::is_void_v<Arg>,
                  "giro: a loop can give a callback its State&, const Batch&, const Elapsed&, "
                  "const Logs& and LoopState&, and nothing else");
  }
}

template <class Arg>
inline constexpr bool is_observed =
    std::is_same_v<std::remove_cvref_t<Arg>, Elapsed> || std::is_same_v<std::remove_cvref_t<Arg>, Logs>;

// Whether a function of this signature may change the state of its loop.
template <class S, class B, class R, class... Args>
constexpr bool may_change_state(SignatureOf<R, Args...>*) {
  constexpr bool returns_state = !std::is_void_v<R> && !std::is_same_v<std::remove_cvref_t<R>, Logs>;
  return returns_state || (false || ... ||
                           (std::is_same_v<std::remove_cvref_t<Args>, LoopState<S, B>> ||
                            (is_or_bases<std::remove_cvref_t<Args>, S> && std::is_lvalue_reference_v<Args> &&
                             !std::is_const_v<std::remove_reference_t<Args>>)));
}

template <class R, class S, class B>
void take_result(LoopState<S, B>& loop, R&& result) {
  using T = std::remove_cvref_t<R>;
  if constexpr (std::is_same_v<T, Logs>) {
    loop.logs.merge(result);
  } else if constexpr (std::is_same_v<T, S>) {
    loop.state = std::forward<R>(result);
  } else if constexpr (IsOptional<T>::value) {
    if (result) take_result(loop, *std::forward<R>(result));
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    static_assert(std::tuple_size_v<T> == 2 || std::tuple_size_v<T> == 3,
                  "giro: a callback returns nothing, Logs, the state, (Logs, state) or (Logs of outputs, Logs, state)");
    std::apply([&](auto&&... parts) { (take_result(loop, std::forward<decltype(parts)>(parts)), ...); },
               std::forward<R>(result));
  } else {
    static_assert(std::is_void_v<R>,
                  "giro: a callback returns nothing, Logs, the state, (Logs, state) or (Logs of outputs, Logs, state)");
  }
}

// Calls f with what its parameter types ask for, and takes what it returns.
template <class F, class S, class B, class... Args>
void call_with(F&& f, LoopState<S, B>& loop, std::tuple<Args...>*) {
  if constexpr (std::is_void_v<decltype(f(loop_argument<Args>(loop)...))>) {
    f(loop_argument<Args>(loop)...);
  } else {
    take_result(loop, f(loop_argument<Args>(loop)...));
  }
}

// The name of a class as a reader knows it; "a function" for a lambda.
std::string name_of(const std::type_info& type);

}  // namespace detail

// The base of a callback class for loops of any state and batch. Its members
//   template <class S, class B> void operator()(LoopState<S, B>& loop)
// and, if it has them, on_start and on_end of the same form, are made for the types of the loop that it is given to.
struct GenericCallback {};

namespace detail {

// One of them for one loop's types: a callback like any other.
template <class F, class S, class B>
struct BoundCallback {
  using Generic = F;

  void operator()(LoopState<S, B>& loop) { callable(loop); }
  void on_start(LoopState<S, B>& loop) {
    if constexpr (requires { callable.on_start(loop); }) callable.on_start(loop);
  }
  void on_end(LoopState<S, B>& loop) {
    if constexpr (requires { callable.on_end(loop); }) callable.on_end(loop);
  }

  F callable;
};

}  // namespace detail

// What a callback is to the loop; its signature alone decides it.
enum class CallbackKind {
  device_step,  // made by jit or eager: queued, never waited for
  observer,     // nothing but const Elapsed& and const Logs&, and no result: runs when the step's logs have reached the
                // host, in step order, with all that the step logged; never stalls the device
  barrier,      // everything else: what came before is finished and observed first
};

namespace detail {

template <class F>
constexpr CallbackKind kind_of() {
  if constexpr (IsStep<F>::value) {
    return CallbackKind::device_step;
  } else {
    static_assert(Signature<F>::known, "giro: a callback has one signature, without auto parameters");
    constexpr bool observes = []<class... Args>(std::tuple<Args...>*) {
      return sizeof...(Args) > 0 && (is_observed<Args> && ...);
    }(static_cast<typename Signature<F>::Arguments*>(nullptr));
    return observes && std::is_void_v<typename Signature<F>::Return> ? CallbackKind::observer : CallbackKind::barrier;
  }
}

}  // namespace detail

// A callable that a loop of state S and batch B runs: a value, copied whole. The types of its parameters, any subset in
// any order, say what it needs (CallbackKind). It returns nothing, Logs, the state, (Logs, state), or
// (Logs of outputs, Logs, state); any of these as std::optional.
//
// A class may also have on_start and on_end, with parameters of the same types, that run before the loop's first step
// and behind its last; what they log goes nowhere.
template <class S, class B>
class Callback {
 public:
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, Callback>)
  Callback(F callable) : model_(make_model(std::move(callable))) {}

  Callback(const Callback& other)
      : model_(other.model_->clone()), kind_(other.kind_), sees_elapsed_(other.sees_elapsed_) {}
  Callback(Callback&&) noexcept = default;
  Callback& operator=(const Callback& other) { return *this = Callback(other); }
  Callback& operator=(Callback&&) noexcept = default;

  CallbackKind kind() const noexcept { return kind_; }
  // Whether it looks at the clock's time.
  bool sees_elapsed() const noexcept { return sees_elapsed_; }
  std::string name() const { return model_->name(); }
  // Whether its signature lets it change the state.
  bool changes_state() const { return model_->changes_state(); }

  // A barrier, or a device step, which launch() may have to be called for.
  void run(LoopState<S, B>& loop) { model_->run(loop); }
  void launch() { model_->launch(); }
  void observe(const Elapsed& elapsed, const Logs& logs) { model_->observe(elapsed, logs); }
  void on_start(LoopState<S, B>& loop) { model_->on_start(loop); }
  void on_end(LoopState<S, B>& loop) { model_->on_end(loop); }

 private:
  struct Concept {
    virtual ~Concept() = default;
    virtual std::unique_ptr<Concept> clone() const = 0;
    virtual CallbackKind kind() const = 0;
    virtual bool sees_elapsed() const = 0;
    virtual std::string name() const = 0;
    virtual bool changes_state() const = 0;
    virtual void run(LoopState<S, B>&) {}
    virtual void launch() {}
    virtual void observe(const Elapsed&, const Logs&) {}
    virtual void on_start(LoopState<S, B>&) {}
    virtual void on_end(LoopState<S, B>&) {}
  };

  template <class F>
  struct Model final : Concept {
    explicit Model(F f) : callable(std::move(f)) {}

    static constexpr CallbackKind kKind = detail::kind_of<F>();

    std::unique_ptr<Concept> clone() const override { return std::make_unique<Model>(*this); }
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
        loop.logs.merge(callable.enqueue(loop.state, loop.batch(),
                                         callable.uses_broadcasts() ? Broadcasts(loop.elapsed) : Broadcasts()));
      } else if constexpr (kKind == CallbackKind::barrier) {
        detail::call_with(callable, loop, static_cast<typename detail::Signature<F>::Arguments*>(nullptr));
      }
    }
    void launch() override {
      if constexpr (detail::IsStep<F>::value) callable.launch();
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
    void on_start(LoopState<S, B>& loop) override {
      if constexpr (requires { &F::on_start; }) {
        detail::call_with([this](auto&&... args) { return callable.on_start(std::forward<decltype(args)>(args)...); },
                          loop,
                          static_cast<typename detail::MemberSignature<decltype(&F::on_start)>::Arguments*>(nullptr));
      }
    }
    void on_end(LoopState<S, B>& loop) override {
      if constexpr (requires { &F::on_end; }) {
        detail::call_with([this](auto&&... args) { return callable.on_end(std::forward<decltype(args)>(args)...); },
                          loop,
                          static_cast<typename detail::MemberSignature<decltype(&F::on_end)>::Arguments*>(nullptr));
      }
    }

    F callable;
  };

  template <class F>
  static std::unique_ptr<Concept> make_model(F callable) {
    if constexpr (std::is_base_of_v<GenericCallback, F>) {
      using Bound = detail::BoundCallback<F, S, B>;
      return std::make_unique<Model<Bound>>(Bound{std::move(callable)});
    } else {
      return std::make_unique<Model<F>>(std::move(callable));
    }
  }

  std::unique_ptr<Concept> model_;
  CallbackKind kind_ = model_->kind();
  bool sees_elapsed_ = model_->sees_elapsed();
};

}  // namespace giro
