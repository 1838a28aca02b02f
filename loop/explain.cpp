#include <giro/loop/explain.h>

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string_view>

#include <giro/loop/callback_arguments.h>

namespace giro::detail {
namespace {

constexpr std::int64_t kHorizon = 10'000;  // steps that are predicted
constexpr std::size_t kShown = 4;          // the most steps listed for a task that needs the host

const char* words(const AnyCallback& callback) {
  switch (callback.kind()) {
    case CallbackKind::device_step:
      return callback->traits.sees_elapsed ? "device step, queued one at a time with its broadcasts"
                                           : "device step, queued and never waited for";
    case CallbackKind::observer:
      return "observer, sees the logs a little behind the device";
    case CallbackKind::barrier:
      break;
  }
  return "barrier, the device catches up to that step first";
}

bool is_barrier(const AnyCallback& callback) { return callback.kind() == CallbackKind::barrier; }

}  // namespace

std::string name_of(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(type.name(), nullptr, nullptr, &status),
                                                    std::free);
  std::string name = status == 0 && text ? text.get() : type.name();
  constexpr std::string_view kAnonymous = "(anonymous namespace)::";
  for (std::size_t at = 0; (at = name.find(kAnonymous)) != name.npos;) name.erase(at, kAnonymous.size());
  return name.find_first_of("({") == name.npos ? name : "a function";
}

std::string explain(std::vector<AnyTask> tasks, std::int64_t batch_size, std::int64_t tokens_per_sample) {
  std::vector<std::vector<std::int64_t>> host_steps(tasks.size());  // per task, the first few steps that need the host
  std::int64_t alone = 0, longest = 0;
  bool has_device_step = false, whole = true;
  Elapsed elapsed{.step_samples = batch_size, .tokens_per_sample = tokens_per_sample};
  for (; elapsed.steps < kHorizon; elapsed.count(batch_size)) {
    std::int64_t device_steps = 0;
    bool needs_host = false, takes_broadcasts = false;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      const auto traits = tasks[i].schedule.traits();
      needs_host |= traits.runs_user_code;
      // The user's function is not called for this.
      if (traits.runs_user_code || !tasks[i].schedule(elapsed)) continue;
      bool barrier = false;
      for (const AnyCallback& callback : tasks[i].callbacks) {
        barrier |= is_barrier(callback);
        if (callback.kind() != CallbackKind::device_step) continue;
        ++device_steps;
        takes_broadcasts |= callback->traits.sees_elapsed;
      }
      needs_host |= barrier;
      if (barrier && host_steps[i].size() <= kShown) host_steps[i].push_back(elapsed.steps);
    }
    has_device_step |= device_steps > 0;
    if (needs_host || takes_broadcasts || device_steps > 1) whole = false;
    // A step that needs the host can still be the first of a series that the device runs alone.
    alone = device_steps != 1 ? 0 : needs_host || takes_broadcasts ? 1 : alone + 1;
    longest = std::max(longest, alone);
  }

  std::string text;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const AnyTask& task = tasks[i];
    for (const AnyCallback& callback : task.callbacks) {
      text += fmt::format("{}. {}: {}: {}\n", i + 1, to_string(task.schedule), callback->name(), words(callback));
    }
    const auto traits = task.schedule.traits();
    if (traits.reads_clock && std::ranges::any_of(task.callbacks, is_barrier)) {
      whole = false;
      text += "   also needs the host by the clock\n";
    }
    if (traits.runs_user_code) text += "   asks the program at every step\n";
    std::string steps;
    for (std::size_t k = 0; k < std::min(kShown, host_steps[i].size()); ++k) {
      steps += fmt::format("{}{}", k == 0 ? "" : ", ", host_steps[i][k]);
    }
    if (host_steps[i].size() > kShown) steps += ", ...";
    if (!steps.empty()) text += fmt::format("   needs the host at steps {}\n", steps);
    if (traits.awaits_end) text += "   and may need it at the end\n";
  }
  if (!has_device_step) return text + "No task is a device step: the host runs every step.\n";
  if (whole) return text + "The device may run all of its steps alone.\n";
  return text + fmt::format("The device may run up to {} {} alone.\n", longest, longest == 1 ? "step" : "steps");
}

}  // namespace giro::detail
