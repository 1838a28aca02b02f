#include <giro/callbacks/jaxloop/loops.h>

#include <fmt/format.h>

#include <algorithm>

#include <giro/runtime/files/archive.h>

#include "callbacks/jaxloop/chunks.h"
#include "kernels/ops.h"
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
    queue(ops::Digest{value, collection->bytes()}, state.stream());
    found.emplace_back(collection->name(), to_host<std::int64_t>(value, state.stream()).front());
  }
  return found;
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

Loop::~Loop() = default;

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
