// A callback throws in any of its hooks: the others still end, the error names the callback, and the next run resumes.

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <giro/callbacks/checkpoint.h>
#include <giro/callbacks/resume.h>
#include <giro/loop/loop.h>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace giro {
namespace {

using test::expect_error;

struct Throws : GenericCallback {
  explicit Throws(std::string name) : hook(std::move(name)) {}

  void at(const std::string& here) const {
    if (here == hook) throw std::runtime_error("thrown at " + hook);
  }
  template <class S, class B>
  void on_resume(LoopState<S, B>&) {
    at("on_resume");
  }
  template <class S, class B>
  void on_start(LoopState<S, B>&) {
    at("on_start");
  }
  template <class S, class B>
  void operator()(LoopState<S, B>& loop) {
    if (loop.elapsed.steps != 5) return;
    at("the call");
    loop.at_step_end([this] { at("at_step_end"); });
    loop.after_step([this] { at("after_step"); });
  }
  template <class S, class B>
  void on_end(LoopState<S, B>&) {
    at("on_end");
  }
  void persist(Archive&) const { at("persist"); }

  std::string hook;
};

State make_vector() {
  State state(Device::cpu());
  state.add("params", {{"x", DType::f32, {3}}});
  return state;
}
void count_up(State& state) { static_cast<float*>(state.at("params/x").raw())[0] += 1; }

TEST(Hooks, ThrowingHookIsNamedAndOtherCallbacksEnd) {
  for (const char* hook : {"on_resume", "on_start", "the call", "at_step_end", "after_step", "persist", "on_end"}) {
    SCOPED_TRACE(hook);
    const test::TemporaryDirectory dir;
    int ended = 0;
    const auto run = [&](const std::string& throws_at) {
      return loop(make_vector(), std::vector<int>(12),
                  {{every(1), count_up}, {every(1), Throws(throws_at)}, {every(3), backup_and_restore(dir.path())}},
                  {.on_end = {[&](const Elapsed&) { ++ended; }}});
    };
    const bool in_persist = std::string(hook) == "persist";
    expect_error(ErrorCode::callback,
                 {in_persist ? "giro::BackupAndRestore" : "Throws", std::string("thrown at ") + hook},
                 [&] { (void)run(hook); });
    EXPECT_EQ(ended, 1);
    const auto rest = run("");
    EXPECT_EQ(rest.elapsed.steps, 12);
    EXPECT_EQ(to_host<float>(rest.state.at("params/x"), rest.state.stream())[0], 12);
  }
}

}  // namespace
}  // namespace giro
