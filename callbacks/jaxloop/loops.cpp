#include <giro/callbacks/jaxloop/loops.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include <giro/kernels/digest.h>
#include <giro/loop/loop_state.h>
#include <giro/loop/run.h>
#include <giro/runtime/error.h>

#include "runtime/internal/text.h"

namespace giro::jaxloop {
namespace {

constexpr const char* kStats[] = {"num_params",     "num_flops",      "init_time",     "begin_time",
                                  "life_time_secs", "loop_time_secs", "steps_per_sec", "examples_per_sec"};

// The first count at or after `from` in which any of them is due, or 0.
std::int64_t next_due(const std::vector<Action>& actions, std::int64_t from) {
  std::int64_t next = 0;
  for (const Action& action : actions) {
    const std::int64_t due = (from + action.interval() - 1) / action.interval() * action.interval();
    if (next == 0 || due < next) next = due;
  }
  return next;
}

void run_due(const std::vector<Action>& actions, std::int64_t count, TrainState& state, LoopOutputs& outputs) {
  for (const Action& action : actions) {
    if (action.is_due(count)) action(state, outputs);
  }
}

// Adds the records of a history from one on.
void add_records(LoopOutputs& outputs, const History& history, std::size_t first) {
  if (history.size() == first) return;
  std::vector<std::string> added;
  const Logs latest = history.latest(first);
  for (const auto& entry : latest.entries()) {
    if (std::find(added.begin(), added.end(), entry.name) != added.end()) continue;  // a loss that is a metric as well
    added.push_back(entry.name);
  }
  if (first == 0) {
    for (const std::string& name : added) outputs.scalars[name] = {};
  }
  for (std::size_t record = first; record < history.size(); ++record) {
    const History::Record values = record + 1 == history.size() ? history.back() : history[record];
    std::vector<std::string_view> seen;
    for (const auto& entry : values.logs.entries()) {
      if (std::find(seen.begin(), seen.end(), entry.name) != seen.end()) continue;
      seen.push_back(entry.name);
      outputs.scalars[entry.name].push_back(values.logs.entry_value(entry.collection + "." + entry.name));
    }
  }
}

void add_arrays(LoopOutputs& outputs, const Outputs& all, std::size_t first) {
  std::size_t record = 0;
  for (const Outputs::Record& one : all) {
    if (record++ < first) continue;
    for (const auto& entry : one.logs.entries()) {
      if (!entry.value.is_scalar()) outputs.arrays[entry.name].push_back(*entry.value.array());
    }
  }
}

// The bits of what a checkpoint would save, by collection.
std::vector<std::pair<std::string, std::int64_t>> digests(const TrainState& state) {
  const Buffer buffer = state.stream().allocate(sizeof(std::int64_t));
  const Tensor value(buffer.data(), DType::i64, {}, state.device());
  std::vector<std::pair<std::string, std::int64_t>> found;
  for (const auto& collection : state.collections()) {
    if (!collection->saved()) continue;
    digest(value, collection->bytes(), state.stream());
    found.emplace_back(collection->name(), to_host<std::int64_t>(value, state.stream()).front());
  }
  return found;
}

}  // namespace

std::int64_t step_of(const TrainState& state) {
  return to_host<std::int64_t>(state.at("step"), state.stream()).front();
}

Loop::Loop(Step& step, Hooks hooks, LoopOptions options, std::vector<std::string> default_stats)
    : step_(&step), hooks_(hooks), options_(std::move(options)), init_time_(Elapsed::now()) {
  if (options_.stats.empty()) options_.stats = std::move(default_stats);
  const std::vector<std::string> known(std::begin(kStats), std::end(kStats));
  for (const std::string& name : options_.stats) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("there is no statistic '{}'{}", name, suggestion(name, known)));
  }
}

Loop::~Loop() = default;

LoopResult Loop::run(TrainState state, const Dataset& batches, const Elapsed& start,
                     std::optional<std::int64_t> num_steps, std::int64_t& steps) {
  ++loop_count_;
  LoopOutputs outputs;
  run_due(options_.begin_actions, loop_count_, state, outputs);
  const bool has_steps = num_steps != 0 && batches.num_batches() != 0;
  if (has_steps && !num_flops_ && std::ranges::find(options_.stats, "num_flops") != options_.stats.end()) {
    const auto first = batches.begin();
    const Batch batch = hooks_.begin ? step_->begin(state, *first) : *first;
    num_flops_ = step_->recorded().program(state, batch).flops();
  }
  const double begin = Elapsed::now();
  std::int64_t samples = 0;
  steps = 0;
  if (has_steps) {
    std::vector<Task<TrainState, Batch>> tasks;
    if (!hooks_.begin && !hooks_.end) {
      tasks.push_back({every(1), step_->recorded()});
    } else {
      tasks.push_back({every(1), [this](LoopState<TrainState, Batch>& loop) {
                         const Batch batch = hooks_.begin ? step_->begin(loop.state, loop.batch()) : loop.batch();
                         Logs logs = step_->recorded()(loop.state, batch);
                         if (!hooks_.end) return logs;
                         logs.fetch();
                         return step_->end(loop.state, std::move(logs));
                       }});
    }
    tasks.insert(tasks.end(), options_.tasks.begin(), options_.tasks.end());

    const StepOptions& of_step = step_->options();
    giro::LoopOptions<TrainState, Batch> options{.elapsed = start};
    if (num_steps) options.stop = at(start.steps + *num_steps);
    Dataset data = batches;
    Run run(std::move(state), data, tasks, std::move(options));
    Advanced why = Advanced::reached;
    std::size_t records = 0, arrays = 0;
    while (why == Advanced::reached) {
      const std::int64_t done = run.elapsed().steps - start.steps;
      if (done > 0) run_due(of_step.end_actions, done, run.state(), outputs);
      // The next step begins: there is a batch for it.
      run_due(of_step.begin_actions, done + 1, run.state(), outputs);
      const std::int64_t end_due = next_due(of_step.end_actions, done + 1);
      const std::int64_t begin_due = next_due(of_step.begin_actions, done + 2);
      std::int64_t next = end_due;
      if (begin_due > 0 && (next == 0 || begin_due - 1 < next)) next = begin_due - 1;
      why = next > 0 ? run.advance(at(start.steps + next)) : run.advance();
      add_records(outputs, run.history(), records);
      add_arrays(outputs, run.outputs(), arrays);
      records = run.history().size();
      arrays = run.outputs().size();
    }
    const std::int64_t done = run.elapsed().steps - start.steps;
    if (done > 0) run_due(of_step.end_actions, done, run.state(), outputs);
    auto result = run.finish();
    outputs.interrupted = result.interrupted;
    steps = result.elapsed.steps - start.steps;
    samples = result.elapsed.samples - start.samples;
    state = std::move(result.state);
  }
  state.stream().synchronize();
  seconds_ = std::max(Elapsed::now() - begin, 1e-9);
  add_stats(outputs, state, begin, steps, samples);
  return {std::move(state), std::move(outputs)};
}

void Loop::end(LoopResult& result) { run_due(options_.end_actions, loop_count_, result.state, result.outputs); }

void Loop::add_stats(LoopOutputs& outputs, const TrainState& state, double begin, std::int64_t steps,
                     std::int64_t samples) const {
  for (const std::string& name : options_.stats) {
    double value = 0;
    if (name == "num_params") {
      for (const Leaf& leaf : state.collection("params").leaves()) value += static_cast<double>(leaf.value.count());
    } else if (name == "num_flops") {
      value = num_flops_.value_or(0);
    } else if (name == "init_time") {
      value = init_time_;
    } else if (name == "begin_time") {
      value = begin;
    } else if (name == "life_time_secs") {
      value = Elapsed::now() - init_time_;
    } else if (name == "loop_time_secs") {
      value = seconds_;
    } else {
      value = static_cast<double>(name == "steps_per_sec" ? steps : samples) / seconds_;
    }
    outputs.scalars["jaxloop/" + name] = {value};
  }
}

LoopResult TrainLoop::operator()(TrainState state, DatasetIterator& batches, std::optional<std::int64_t> num_steps) {
  std::int64_t steps = 0;
  const Elapsed start{.steps = batches.place()};
  LoopResult result = run(std::move(state), batches.rest(), start, num_steps, steps);
  batches.advance(steps);
  log([&] {
    return fmt::format("train    | step: {:6d} | steps_per_sec: {:6.1f}", step_of(result.state),
                       static_cast<double>(steps) / seconds());
  });
  end(result);
  return result;
}

LoopResult EvalLoop::operator()(TrainState state, const Dataset& dataset, std::optional<std::int64_t> num_steps) {
  const auto before = digests(state);
  std::int64_t steps = 0;
  LoopResult result = run(std::move(state), dataset, {}, num_steps, steps);
  log([&] {
    return fmt::format("eval     | step: {:6d} | eval time: {:4.2f} seconds", step_of(result.state), seconds());
  });
  end(result);
  const auto after = digests(result.state);
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i] == after[i]) continue;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("eval loop: the evaluation has changed the state's {}; expected a step that leaves the "
                            "state as it is, or a train loop",
                            before[i].first));
  }
  return result;
}

}  // namespace giro::jaxloop
