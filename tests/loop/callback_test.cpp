#include <giro/loop/callback.h>

#include <gtest/gtest.h>

#include <any>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <giro/kernels/optim/train_state.h>
#include <giro/loop/data/batch.h>
#include <giro/loop/step/step.h>

namespace giro {
namespace {

struct Count {
  int value = 0;
};
struct Words {
  std::string text;
};
using Loop = LoopState<Count, Words>;
using Kind = CallbackKind;

// A loop in the middle of its fourth step.
struct Fixture {
  Count state{7};
  Words batch{"words"};
  History history;
  Elapsed elapsed{.steps = 3, .samples = 30};
  std::any metadata;
  Loop loop{state, elapsed, history, metadata};

  Fixture() {
    loop.set_batch(&batch);
    loop.logs.add_metric("a", 0.5);
  }
};

// Records the arguments that a callback received.
struct Seen {
  std::vector<std::string> arguments;
  Count* state = nullptr;

  void note(Count& s) {
    arguments.push_back("state");
    state = &s;
    ++s.value;
  }
  void note(const Words& batch) { arguments.push_back(batch.text); }
  void note(const Elapsed& elapsed) { arguments.push_back("elapsed " + std::to_string(elapsed.steps)); }
  void note(Loop& loop) { arguments.push_back("loop " + std::to_string(loop.logs.entries().size())); }
  void note(const Logs& l) { arguments.push_back("logs " + std::to_string(static_cast<int>(4 * l.entry_value("a")))); }
};

template <class Arg>
constexpr const char* noted() {
  using T = std::remove_cvref_t<Arg>;
  if (std::is_same_v<T, Count>) return "state";
  if (std::is_same_v<T, Words>) return "words";
  if (std::is_same_v<T, Elapsed>) return "elapsed 3";
  if (std::is_same_v<T, Loop>) return "loop 1";
  return "logs 2";
}

template <class... Args>
struct Probe {
  Seen* seen;
  void operator()(Args... args) const { (seen->note(args), ...); }
};

void check_callback(Callback<Count, Words> callback, const Seen& seen, std::initializer_list<const char*> expected,
                    bool observer) {
  Fixture fixture;
  if (observer) {
    EXPECT_EQ(callback.kind(), Kind::observer);
    callback->observe(fixture.loop.elapsed, fixture.loop.logs);
  } else {
    EXPECT_EQ(callback.kind(), Kind::barrier);
    callback->run(fixture.loop);
  }
  EXPECT_EQ(seen.arguments, std::vector<std::string>(expected.begin(), expected.end()));
  if (seen.state != nullptr) {
    EXPECT_EQ(seen.state, &fixture.state);
    EXPECT_EQ(fixture.state.value, 8);
  }
}

// Compiled 58 times, so it leaves as much as possible to check_callback.
template <class... Args>
void check_arrangement() {
  constexpr bool observer =
      sizeof...(Args) > 0 &&
      ((std::is_same_v<std::remove_cvref_t<Args>, Elapsed> || std::is_same_v<std::remove_cvref_t<Args>, Logs>)&&...);
  Seen seen;
  check_callback(Probe<Args...>{&seen}, seen, {noted<Args>()...}, observer);
}

// Checks every subset of the parameters in order and in reverse, so each two stand in both orders. Returns how many it
// has checked.
template <class... Forward, class... Backward>
int check_subsets(std::tuple<Forward...>*, std::tuple<Backward...>*) {
  check_arrangement<Forward...>();
  if constexpr (sizeof...(Forward) < 2) return 1;
  check_arrangement<Backward...>();
  return 2;
}
template <class... Forward, class... Backward, class First, class... Rest>
int check_subsets(std::tuple<Forward...>* forward, std::tuple<Backward...>* backward, First*, Rest*... rest) {
  return check_subsets(forward, backward, rest...) +
         check_subsets(static_cast<std::tuple<Forward..., typename First::type>*>(nullptr),
                       static_cast<std::tuple<typename First::type, Backward...>*>(nullptr), rest...);
}

template <class... Args>
int check_all_subsets() {
  std::tuple<>* const none = nullptr;
  return check_subsets(none, none, static_cast<std::type_identity<Args>*>(nullptr)...);
}

TEST(Callback, EverySubsetInTwoOrders) {
  EXPECT_EQ((check_all_subsets<Count&, const Words&, const Elapsed&, Loop&, const Logs&>()), 58);
}

TEST(Callback, ParametersByValueAndConstReference) {
  Fixture fixture;
  int seen = 0;
  Callback<Count, Words>([&](const Count& state, Words batch, Elapsed elapsed, Logs l, const Loop& loop) {
    seen = state.value + static_cast<int>(batch.text.size() + l.entries().size() + loop.logs.entries().size());
    seen += static_cast<int>(elapsed.steps);
  })->run(fixture.loop);
  EXPECT_EQ(seen, 7 + 5 + 1 + 1 + 3);
}

TEST(Callback, NumbersAsStateAndBatch) {
  int state = 2;
  const double batch = 1.5;
  const History history;
  const Elapsed elapsed;
  std::any metadata;
  LoopState<int, double> loop{state, elapsed, history, metadata};
  loop.set_batch(&batch);
  Callback<int, double>([](double b, int& s) { s += static_cast<int>(2 * b); })->run(loop);
  EXPECT_EQ(state, 5);
  Callback<int, double>([](int s) { return s + 1; })->run(loop);
  EXPECT_EQ(state, 6);
}

TEST(Callback, StateAndBatchOfOneType) {
  int state = 2;
  const int batch = 40;
  const History history;
  const Elapsed elapsed;
  std::any metadata;
  LoopState<int, int> loop{state, elapsed, history, metadata};
  loop.set_batch(&batch);
  Callback<int, int>([](int& s, const int& b) { s += b; })->run(loop);
  EXPECT_EQ(state, 42);
}

TEST(Callback, BasesOfTheState) {
  struct Derived : Count {
    int more = 1;
  };
  Derived state;
  const Words batch;
  const History history;
  const Elapsed elapsed;
  std::any metadata;
  LoopState<Derived, Words> loop{state, elapsed, history, metadata};
  loop.set_batch(&batch);
  Callback<Derived, Words>([](Count& s) { s.value = 3; })->run(loop);
  Callback<Derived, Words>([](Derived& s) { s.more = s.value; })->run(loop);
  EXPECT_EQ(state.more, 3);
}

TEST(Callback, ReturnForms) {
  Fixture fixture;
  Loop& loop = fixture.loop;
  const auto run = [&](auto callable) {
    Callback<Count, Words> callback(callable);
    EXPECT_EQ(callback.kind(), Kind::barrier);
    callback->run(loop);
  };
  run([](Count&) {});
  EXPECT_EQ(loop.logs.entries().size(), 1u);

  run([] { return logs().add_metric("a", 1).add_metric("b", 2); });
  EXPECT_EQ(loop.logs.entry_value("a"), 1);
  EXPECT_EQ(loop.logs.entry_value("b"), 2);

  run([](const Count& state) { return Count{state.value + 1}; });
  EXPECT_EQ(fixture.state.value, 8);

  run([](const Count& state) { return std::pair{logs().add_metric("c", 3), Count{state.value + 1}}; });
  EXPECT_EQ(fixture.state.value, 9);
  EXPECT_EQ(loop.logs.entry_value("c"), 3);

  run([](const Count& state) { return std::tuple{Count{state.value + 1}, logs().add_metric("d", 4)}; });
  EXPECT_EQ(fixture.state.value, 10);
  EXPECT_EQ(loop.logs.entry_value("d"), 4);
}

// A callback for any state and batch that returns the function's result.
template <class F>
struct GenericOf : GenericCallback {
  explicit GenericOf(F f) : function(f) {}
  template <class S, class B>
  auto operator()(LoopState<S, B>& loop) {
    return function(loop.state);
  }
  template <class S, class B>
  auto on_start(LoopState<S, B>& loop) {
    return function(loop.state);
  }
  template <class S, class B>
  auto on_end(LoopState<S, B>& loop) {
    return function(loop.state);
  }
  F function;
};

TEST(Callback, GenericCallbacksMayReturnResults) {
  const auto run = [](auto function) {
    const auto of = [&](auto&& call) {
      Fixture fixture;
      Callback<Count, Words> callback{GenericOf(function)};
      EXPECT_EQ(callback.kind(), Kind::barrier);
      call(callback, fixture.loop);
      return std::pair{fixture.state.value, fixture.loop.logs.entry_value("a")};
    };
    const auto called = of([](auto& callback, Loop& loop) { callback->run(loop); });
    EXPECT_EQ(of([](auto& callback, Loop& loop) { callback->on_start(loop); }), called);
    EXPECT_EQ(of([](auto& callback, Loop& loop) { callback->on_end(loop); }), called);
    return called;
  };
  using Result = std::pair<int, double>;
  const auto some_logs = [](double a) { return logs().add_metric("a", a); };
  EXPECT_EQ(run([](Count&) {}), (Result{7, 0.5}));
  EXPECT_EQ(run([=](Count&) { return some_logs(2); }), (Result{7, 2}));
  EXPECT_EQ(run([](const Count& state) { return Count{state.value + 1}; }), (Result{8, 0.5}));
  EXPECT_EQ(run([=](const Count& state) { return std::pair{some_logs(3), Count{state.value + 1}}; }), (Result{8, 3}));
  EXPECT_EQ(run([=](const Count&) {
              return std::tuple{logs().add_output("y", 1), some_logs(4), Count{9}};
            }),
            (Result{9, 4}));
  EXPECT_EQ(run([=](Count&) { return std::optional(some_logs(5)); }), (Result{7, 5}));
  EXPECT_EQ(run([](Count&) { return std::optional<Logs>(); }), (Result{7, 0.5}));
}

TEST(Callback, LogsMakeABarrierOfAnObserver) {
  EXPECT_EQ((Callback<Count, Words>([](const Elapsed&) { return Logs(); }).kind()), Kind::barrier);
  EXPECT_EQ((Callback<Count, Words>([](const Elapsed&) {}).kind()), Kind::observer);
  EXPECT_EQ((Callback<Count, Words>([] {}).kind()), Kind::barrier);
}

void free_function(Count& state) { state.value = 100; }

TEST(Callback, FunctionsAndFunctionObjects) {
  Fixture fixture;
  Callback<Count, Words>(free_function)->run(fixture.loop);
  EXPECT_EQ(fixture.state.value, 100);
  Callback<Count, Words>(std::function<void(Count&)>([](Count& s) { s.value = 200; }))->run(fixture.loop);
  EXPECT_EQ(fixture.state.value, 200);
  Callback<Count, Words> counter([n = 0](Count& s) mutable noexcept { s.value = ++n; });
  counter->run(fixture.loop);
  counter->run(fixture.loop);
  EXPECT_EQ(fixture.state.value, 2);
}

TEST(Callback, StepsRunOnTheDevice) {
  using TrainCallback = Callback<TrainState, Batch>;
  const auto body = [](TrainState&, const Batch&) { return Logs(); };
  EXPECT_EQ(TrainCallback(jit(body)).kind(), CallbackKind::device_step);
  EXPECT_EQ(TrainCallback(eager(body)).kind(), CallbackKind::device_step);
  EXPECT_EQ(TrainCallback(jit([](const State&, const Batch&) { return Logs(); })).kind(), CallbackKind::device_step);
  EXPECT_EQ(TrainCallback(body).kind(), CallbackKind::barrier);
}

}  // namespace
}  // namespace giro
