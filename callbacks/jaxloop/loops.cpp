#include <giro/callbacks/jaxloop/loops.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string_view>

#include <giro/loop/interrupt.h>
#include <giro/loop/loop_state.h>
#include <giro/runtime/files/archive.h>

#include "callbacks/jaxloop/chunks.h"
#include "kernels/elementwise.h"
#include "runtime/text.h"
#include "runtime/throw_error.h"

namespace giro::jaxloop {
namespace {

constexpr const char* kStats[] = {"num_params",     "num_flops",      "init_time",     "begin_time",
                                  "life_time_secs", "loop_time_secs", "steps_per_sec", "examples_per_sec"};

// A digest of each collection that a checkpoint would save.
std::vector<std::pair<std::string, std::int64_t>> digests(const TrainState& state) {
  const Buffer buffer = state.stream().allocate(sizeof(std::int64_t));
  const Tensor value(buffer.data(), DType::i64, {}, state.device());
  std::vector<std::pair<std::string, std::int64_t>> found;
  for (const auto& collection : state.collections()) {
    if (!collection->saved()) continue;
    ops::digest(value, collection->bytes(), state.stream());
    found.emplace_back(collection->name(), to_host<std::int64_t>(value, state.stream()).front());
  }
  return found;
}

// The first count at or after `from` at which any of the actions is due, or 0.
std::int64_t next_due(const std::vector<Action>& actions, std::int64_t from) {
  std::int64_t next = 0;
  for (const Action& action : actions) {
    const std::int64_t due = (from + action.interval() - 1) / action.interval() * action.interval();
    if (next == 0 || due < next) next = due;
  }
  return next;
}

// Calls f(name, entry) for each value of these logs, except those that are only there to combine another one. A loss
// that is also a metric is one value.
template <class F>
void for_each_value(const Logs& logs, F&& f) {
  std::vector<std::string_view> seen;
  for (std::size_t i = 0; i < logs.schema().size(); ++i) {
    const std::string& name = logs.schema()[i].name;
    const bool is_part = logs.schema().role(i).part != LogSchema::Part::value;
    if (is_part || std::find(seen.begin(), seen.end(), name) != seen.end()) continue;
    seen.push_back(name);
    f(name, i);
  }
}

// Adds the records of a history from `first` on.
void add_records(LoopOutputs& outputs, const History& history, std::size_t first) {
  if (first == 0) {
    for_each_value(history.latest(), [&](const std::string& name, std::size_t) { outputs.scalars[name] = {}; });
  }
  for (std::size_t record = first; record < history.size(); ++record) {
    const History::Record values = record + 1 == history.size() ? history.back() : history[record];
    outputs.combined.add(values.logs, values.elapsed.step_samples);
    for_each_value(values.logs, [&](const std::string& name, std::size_t entry) {
      outputs.scalars[name].push_back(values.logs.value(entry));
    });
  }
}

void add_arrays(LoopOutputs& outputs, const Outputs& all, std::size_t first) {
  std::size_t record = 0;
  for (const Outputs::Record& one : all) {
    if (record++ < first) continue;
    outputs.combined.add_arrays(one.logs);
    for (const auto& entry : one.logs.entries()) {
      if (!entry.value.is_scalar()) outputs.arrays[entry.name].push_back(*entry.value.array());
    }
  }
}

}  // namespace

std::int64_t step_of(const TrainState& state) {
  const Tensor step = state.at("step");
  (void)step.data<std::int64_t>();  // throws for another type
  std::int64_t value = 0;           // called for each chunk, so without to_host's vector
  detail::read_bytes(&value, step, state.stream());
  return value;
}

DatasetIterator::DatasetIterator(AnyDataset<Batch> dataset, std::int64_t position)
    : dataset_(std::move(dataset)), position_(position) {
  if (!dataset_) throw_invalid("DatasetIterator: the dataset is empty, expected a range");
}

bool DatasetIterator::is_at_end() const {
  if (const std::optional<std::int64_t> batches = rest().num_batches()) return *batches == 0;
  if (!cursor_ || cursor_->position > position_) cursor_ = std::make_shared<Cursor>(Cursor{rest().begin(), position_});
  auto& [it, position] = *cursor_;
  for (; position < position_ && it != dataset_.end(); ++position) ++it;
  return it == dataset_.end();
}

Loop::Loop(Step& step, Hooks hooks, LoopOptions options, std::vector<std::string> default_stats)
    : step_(&step), hooks_(hooks), options_(std::move(options)), init_time_(Elapsed::now()) {
  if (options_.stats.empty()) options_.stats = std::move(default_stats);
  const std::vector<std::string> known(std::begin(kStats), std::end(kStats));
  for (const std::string& name : options_.stats) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    throw_invalid("there is no statistic '{}'{}", name, suggestion(name, known));
  }
}

void Loop::offer_memory(LoopOutputs& outputs) const {
  if (memory_) outputs.memory = [this, &outputs](Archive& archive) { memory_(archive, outputs.stop_loop); };
}

void Loop::end(TrainState& state, LoopOutputs& outputs) {
  offer_memory(outputs);
  run_due(options_.end_actions, loop_count_, state, outputs);
  outputs.memory = nullptr;
}

void Loop::persist(Archive& archive) {
  archive("loop_count", loop_count_);
  const auto persist_all = [&](const std::string& name, const std::vector<Action>& actions) {
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (actions[i].remembers()) archive.within(fmt::format("{}_{}", name, i), [&] { actions[i].persist(archive); });
    }
  };
  persist_all("begin_action", options_.begin_actions);
  persist_all("end_action", options_.end_actions);
  persist_all("step_begin_action", step_->options().begin_actions);
  persist_all("step_end_action", step_->options().end_actions);
}

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

void run_due(const std::vector<Action>& actions, std::int64_t count, TrainState& state, LoopOutputs& outputs) {
  for (const bool last : {false, true}) {
    for (const Action& action : actions) {
      if (action.runs_last() == last && action.is_due(count)) action(state, outputs);
    }
  }
}

LoopOutputs Loop::Chunks::run(std::optional<std::int64_t> num_steps) {
  ++loop_.loop_count_;
  LoopOutputs outputs;
  run_due(loop_.options_.begin_actions, loop_.loop_count_, state(), outputs);
  const bool has_steps = num_steps != 0 && !batches_.is_at_end();
  if (has_steps) count_flops();
  const double begin = Elapsed::now();
  steps_ = 0;
  if (loop_.step_->train()) loop_.offer_memory(outputs);
  const std::int64_t samples = has_steps ? advance(num_steps, outputs) : 0;
  outputs.memory = nullptr;
  state().stream().synchronize();
  loop_.seconds_ = std::max(Elapsed::now() - begin, 1e-9);
  loop_.add_stats(outputs, state(), begin, steps_, samples);
  return outputs;
}

TrainState Loop::Chunks::finish() {
  if (run_) (void)end_run();
  return std::move(state_);
}

// Once, and only if the statistic is wanted.
void Loop::Chunks::count_flops() {
  if (loop_.num_flops_ || std::ranges::find(loop_.options_.stats, "num_flops") == loop_.options_.stats.end()) return;
  const AnyDataset<Batch> data = batches_.rest();
  const auto first = data.begin();
  const Batch batch = loop_.hooks_.begin ? loop_.step_->begin(state(), *first) : *first;
  loop_.num_flops_ = loop_.step_->recorded().program(state(), batch).flops();
}

void Loop::Chunks::begin_run(const Period& stop) {
  std::vector<Task<TrainState, Batch>> tasks;
  if (const Hooks hooks = loop_.hooks_; !hooks.begin && !hooks.end) {
    tasks.push_back({every(1), loop_.step_->recorded()});
  } else {
    tasks.push_back({every(1), [hooks, step = loop_.step_](LoopState<TrainState, Batch>& loop) {
                       const Batch batch = hooks.begin ? step->begin(loop.state, loop.batch()) : loop.batch();
                       Logs logs = step->recorded()(loop.state, batch);
                       if (!hooks.end) return logs;
                       logs.fetch();
                       return step->end(loop.state, std::move(logs));
                     }});
  }
  tasks.insert(tasks.end(), loop_.options_.tasks.begin(), loop_.options_.tasks.end());
  data_.emplace(batches_.rest());
  device_ = state_.device();
  run_.emplace(std::move(state_), *data_, tasks,
               giro::LoopOptions<TrainState, Batch>{.stop = stop, .elapsed = {.steps = batches_.position()}});
}

std::int64_t Loop::Chunks::advance(std::optional<std::int64_t> num_steps, LoopOutputs& outputs) {
  const std::int64_t begin = batches_.position();
  const Period stop = num_steps ? at(begin + *num_steps) : Period();
  if (run_ && run_->state().device() != device_) (void)end_run();
  if (run_)
    run_->extend(stop);
  else
    begin_run(stop);
  Run<TrainState, AnyDataset<Batch>>& run = *run_;
  const StepOptions& of_step = loop_.step_->options();
  const std::int64_t samples = run.elapsed().samples;
  StopReason why = StopReason::reached;
  std::size_t records = 0, arrays = 0;
  while (why == StopReason::reached) {
    if (steps_ > 0) run_due(of_step.end_actions, steps_, run.state(), outputs);
    // There is a batch for the next step, so it begins.
    run_due(of_step.begin_actions, steps_ + 1, run.state(), outputs);
    const std::int64_t end_due = next_due(of_step.end_actions, steps_ + 1);
    const std::int64_t begin_due = next_due(of_step.begin_actions, steps_ + 2);
    std::int64_t next = end_due;
    if (begin_due > 0 && (next == 0 || begin_due - 1 < next)) next = begin_due - 1;
    why = next > 0 ? run.advance(at(begin + next)) : run.advance();
    add_records(outputs, run.history(), records);
    add_arrays(outputs, run.outputs(), arrays);
    records = run.history().size();
    arrays = run.outputs().size();
    steps_ = run.elapsed().steps - begin;
  }
  if (steps_ > 0) run_due(of_step.end_actions, steps_, run.state(), outputs);
  const std::int64_t all = run.elapsed().samples - samples;
  const auto& partitioner = run.state().partitioner();
  if (why != StopReason::stopped || !loop_.options_.tasks.empty() || (partitioner && partitioner->size() > 1)) {
    outputs.interrupted = end_run();
  } else if (detail::may_be_interrupted()) {
    outputs.interrupted = detail::effective_signal();
  }
  batches_.advance(steps_);
  return all;
}

int Loop::Chunks::end_run() {
  auto result = run_->finish();
  run_.reset();
  state_ = std::move(result.state);
  return result.interrupted;
}

LoopOutputs TrainLoop::train(Chunks& chunks, std::optional<std::int64_t> num_steps) {
  LoopOutputs outputs = chunks.run(num_steps);
  log([&] {
    return fmt::format("train    | step: {:6d} | steps_per_sec: {:6.1f}", step_of(chunks.state()),
                       static_cast<double>(chunks.steps()) / seconds());
  });
  end(chunks.state(), outputs);
  return outputs;
}

LoopResult TrainLoop::operator()(TrainState state, DatasetIterator& batches, std::optional<std::int64_t> num_steps) {
  Chunks chunks(*this, std::move(state), batches);
  LoopOutputs outputs = train(chunks, num_steps);
  return {chunks.finish(), std::move(outputs)};
}

LoopResult EvalLoop::operator()(TrainState state, const AnyDataset<Batch>& dataset,
                                std::optional<std::int64_t> num_steps) {
  const auto before = digests(state);
  DatasetIterator batches(dataset);
  Chunks chunks(*this, std::move(state), batches);
  LoopOutputs outputs = chunks.run(num_steps);
  log([&] {
    return fmt::format("eval     | step: {:6d} | eval time: {:4.2f} seconds", step_of(chunks.state()), seconds());
  });
  end(chunks.state(), outputs);
  const auto after = digests(chunks.state());
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i] == after[i]) continue;
    throw_invalid(
        "eval loop: the evaluation changed the state's {}; expected a step that leaves the state unchanged, or a train "
        "loop",
        before[i].first);
  }
  return {chunks.finish(), std::move(outputs)};
}

}  // namespace giro::jaxloop
