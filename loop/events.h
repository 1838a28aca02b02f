#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <giro/loop/callback.h>
#include <giro/loop/loop.h>
#include <giro/loop/step/signature.h>
#include <giro/loop/time/schedule.h>

namespace giro {

// The points of the predefined loops at which a program can run callbacks, by name.
// clang-format treats these as expressions and lays them out differently each time.
// clang-format off
#define GIRO_FOR_EACH_EVENT(X)                                                                                  \
  X(on_train_begin) X(on_train_batch_begin) X(train_step) X(on_train_step) X(reset_step) X(on_reset_step)       \
  X(on_epoch_end) X(on_train_batch_end) X(on_train_end)                                                         \
  X(on_test_begin) X(on_test_batch_begin) X(test_step) X(on_test_step) X(on_test_batch_end) X(on_test_end)      \
  X(on_predict_begin) X(on_predict_batch_begin) X(predict_step) X(on_predict_step) X(on_predict_batch_end)      \
  X(on_predict_end)
// clang-format on
#define GIRO_EVENT(name) name,
enum class LoopEvent : std::size_t { GIRO_FOR_EACH_EVENT(GIRO_EVENT) };
#undef GIRO_EVENT
#define GIRO_EVENT(name) #name,
inline constexpr std::array kEventNames = std::to_array<std::string_view>({GIRO_FOR_EACH_EVENT(GIRO_EVENT)});
#undef GIRO_EVENT

// Error(not_found) naming the nearest event.
LoopEvent event_of(std::string_view name);
inline std::string to_string(LoopEvent event) { return std::string(kEventNames[static_cast<std::size_t>(event)]); }

// Callbacks, and the event or the schedule at which they run.
template <class S, class B>
struct EventTask {
  std::optional<LoopEvent> event;  // empty: runs at the schedule
  Schedule schedule;
  std::vector<Callback<S, B>> callbacks;

  // Error(not_found) naming the nearest event.
  EventTask(std::string_view name, Callback<S, B> callback)
      : event(event_of(name)), schedule(never()), callbacks{std::move(callback)} {}
  EventTask(std::string_view name, std::initializer_list<Callback<S, B>> list)
      : event(event_of(name)), schedule(never()), callbacks(list) {}
  EventTask(Schedule when, Callback<S, B> callback) : schedule(std::move(when)), callbacks{std::move(callback)} {}
  EventTask(Schedule when, std::initializer_list<Callback<S, B>> list) : schedule(std::move(when)), callbacks(list) {}
  // Matches any other arguments, to give a readable compile error.
  template <class When, class First, class... Rest>
    requires(sizeof...(Rest) > 0 ||
             !(std::is_convertible_v<When, Schedule> || std::is_convertible_v<When, std::string_view>))
  EventTask(When&&, First&&, Rest&&...)
      : schedule(detail::expect_task<std::conditional_t<std::is_convertible_v<When, std::string_view>, Schedule, When>,
                                     Rest...>()) {}
};

namespace detail {

// A member function of an object as a callback. Its signature determines its arguments.
template <auto kMember, class F, class Arguments>
struct MemberOf;
template <auto kMember, class F, class... Args>
struct MemberOf<kMember, F, std::tuple<Args...>> {
  static constexpr bool kPrimaryOnly = is_primary_only<F>();
  std::shared_ptr<F> object;
  decltype(auto) operator()(Args... args) const { return std::invoke(kMember, *object, std::forward<Args>(args)...); }
};
// The same for the loop's state.
template <auto kMember, class S, class Arguments>
struct MemberOfState;
template <auto kMember, class S, class... Args>
struct MemberOfState<kMember, S, std::tuple<Args...>> {
  decltype(auto) operator()(S& state, Args... args) const {
    return std::invoke(kMember, state, std::forward<Args>(args)...);
  }
};

// For WithName: a class with one member, named after an event.
#define GIRO_EVENT(name) \
  struct Named_##name {  \
    void name();         \
  };
GIRO_FOR_EACH_EVENT(GIRO_EVENT)
#undef GIRO_EVENT

// Calls visit.operator()<&T::on_train_begin>(LoopEvent::on_train_begin), and so on, for the member functions that T
// has.
template <class T, class F>
constexpr void for_each_event_of(F&& visit) {
#define GIRO_EVENT(name)                                                                 \
  if constexpr (requires { &T::name; }) {                                                \
    if constexpr (std::is_member_function_pointer_v<decltype(&T::name)>) {               \
      visit.template operator()<&T::name>(LoopEvent::name);                              \
    }                                                                                    \
  } else if constexpr (std::is_class_v<T> && !std::is_final_v<T>) {                      \
    static_assert(                                                                       \
        requires { &WithName<T, Named_##name>::name; },                                  \
        "giro: an event must be public, and neither overloaded nor a template: " #name); \
  }
  GIRO_FOR_EACH_EVENT(GIRO_EVENT)
#undef GIRO_EVENT
}
#undef GIRO_FOR_EACH_EVENT

template <class T>
constexpr bool has_events() {
  bool any = false;
  for_each_event_of<T>([&]<auto>(LoopEvent) { any = true; });
  return any;
}

// Throws Error(invalid_argument): the loop has nothing to run in its steps, and lacks a `step`.
[[noreturn]] void reject_missing_step(LoopEvent step);

// The callbacks for each event and schedule, in the order in which they were added.
template <class S, class B>
struct EventTable {
  using Callbacks = std::vector<Callback<S, B>>;
  std::array<Callbacks, kEventNames.size()> by_event;
  std::vector<Task<S, B>> scheduled;
  Callbacks on_start, each_step, on_end;  // of the outermost loop

  Callbacks& operator[](LoopEvent event) { return by_event[static_cast<std::size_t>(event)]; }

  // Error(invalid_argument) if the steps would do no work. The work may run at `step`, at one of `others`, or in a
  // callback with a schedule or in the list `callbacks`, unless that is an observer or can stop the loop.
  void expect(LoopEvent step, std::initializer_list<LoopEvent> others) {
    const auto works = [](const auto& callbacks) {
      for (const AnyCallback& callback : callbacks) {
        if (callback.kind() != CallbackKind::observer && !callback->traits.can_stop) return true;
      }
      return false;
    };
    bool any = !(*this)[step].empty() || works(each_step);
    for (const LoopEvent event : others) any |= !(*this)[event].empty();
    for (const Task<S, B>& task : scheduled) any |= works(task.callbacks);
    if (!any) reject_missing_step(step);
  }
  // Appends a task for each of these events that has callbacks, under the event's name.
  void add_tasks(std::vector<Task<S, B>>& tasks, std::initializer_list<LoopEvent> events, const Schedule& schedule) {
    for (const LoopEvent event : events) {
      if (!(*this)[event].empty()) tasks.emplace_back(named(schedule, to_string(event)), (*this)[event]);
    }
  }
};

}  // namespace detail

// An element of the list `callbacks` of a predefined loop. It is one of these:
// - An object with member functions named like events. They run at these events, all on the same object.
// - A callback with a class member `static constexpr LoopEvent kEvent`. It runs at that event.
// - Any other callback. It runs at the end of each step of the loop it is passed to.
//
// on_start and on_end run before and after that loop. A member function with a misspelt event name is never called: the
// compiler cannot list a class's members, and a base class with functions to override would fix their parameters. The
// names of tasks, and kEvent, are checked. A value: each loop has its own object.
template <class S, class B>
class EventCallback {
  using Table = detail::EventTable<S, B>;

 public:
  template <class F>
    requires(!std::is_same_v<F, EventCallback> && !std::is_same_v<F, std::vector<EventCallback>>)
  EventCallback(F callback) {
    if constexpr (detail::has_events<F>()) {
      static_assert(!detail::Signature<F>::known,
                    "giro: a class with event members is called only through them and cannot have an operator()");
      static_assert(
          requires { &F::on_start; } || !detail::names_on_start<F>,
          "giro: a callback's on_start must be public, and neither overloaded nor a template");
      static_assert(
          requires { &F::on_end; } || !detail::names_on_end<F>,
          "giro: a callback's on_end must be public, and neither overloaded nor a template");
      add_ = [callback = std::move(callback)](Table& table) {
        const auto object = std::make_shared<F>(callback);
        detail::for_each_event_of<F>(
            [&]<auto kMember>(LoopEvent event) { table[event].push_back(member<kMember>(object)); });
        if constexpr (requires { &F::on_start; }) table.on_start.push_back(member<&F::on_start>(object));
        if constexpr (requires { &F::on_end; }) table.on_end.push_back(member<&F::on_end>(object));
      };
    } else if constexpr (requires { F::kEvent; }) {
      static_assert(std::is_convertible_v<decltype(F::kEvent), LoopEvent>,
                    "giro: a callback's kEvent must be a LoopEvent");
      add_ = [callback = Callback<S, B>(std::move(callback))](Table& table) { table[F::kEvent].push_back(callback); };
    } else {
      add_ = [callback = Callback<S, B>(std::move(callback))](Table& table) { table.each_step.push_back(callback); };
    }
  }

  void add_to(Table& table) const { add_(table); }

 private:
  template <auto kMember, class F>
  static Callback<S, B> member(const std::shared_ptr<F>& object) {
    using Arguments = typename detail::MemberSignature<decltype(kMember)>::Arguments;
    return detail::MemberOf<kMember, F, Arguments>{object};
  }

  std::function<void(Table&)> add_;
};

namespace detail {

// The state's own members come first, then tasks, then callbacks.
template <class S, class B>
EventTable<S, B> make_events(std::vector<EventTask<S, B>> tasks, const std::vector<EventCallback<S, B>>& callbacks) {
  EventTable<S, B> table;
  for_each_event_of<S>([&]<auto kMember>(LoopEvent event) {
    using Arguments = typename MemberSignature<decltype(kMember)>::Arguments;
    table[event].push_back(MemberOfState<kMember, S, Arguments>());
  });
  for (EventTask<S, B>& task : tasks) {
    if (task.event) {
      for (Callback<S, B>& callback : task.callbacks) table[*task.event].push_back(std::move(callback));
    } else {
      table.scheduled.emplace_back(std::move(task.schedule), std::move(task.callbacks));
    }
  }
  for (const EventCallback<S, B>& callback : callbacks) callback.add_to(table);
  return table;
}

}  // namespace detail
}  // namespace giro
