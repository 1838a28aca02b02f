#include <giro/callbacks/flip/train_loop.h>

#include <fmt/format.h>

#include <algorithm>

#include <giro/callbacks/check_replicas.h>
#include <giro/loop/run.h>
#include <giro/loop/step/step.h>

#include "runtime/throw_error.h"

namespace giro::flip {
namespace {

Step<TrainState> train_step(const TrainTask& task) {
  return jit(
      [model = task.model, loss_of = task.loss](TrainState& state, const Batch& batch) {
        constexpr std::source_location kNowhere{};
        const std::string& input = batch.features().front().first;
        const nn::Var loss = state.value_and_grad(
            [&](const nn::Params& params) { return loss_of(model(params, batch[input], kNowhere), batch); }, kNowhere);
        state.apply_gradients(kNowhere);
        return logs().add_metric("loss", loss);
      },
      std::source_location());
}

}  // namespace

// Where a checkpoint's state is: in the run while it waits at the checkpoint, later in a copy.
struct detail::Source {
  TrainState* run_state = nullptr;  // null: the run has continued
  std::optional<TrainState> copy = {};
};

TrainState& Checkpoint::mutable_state() const {
  if (source_ && source_->run_state != nullptr) return *source_->run_state;
  if (source_ && source_->copy) return *source_->copy;
  throw_invalid("the checkpoint of step {} has no state: expected one from a train loop that has not failed since",
                step);
}

struct TrainLoop::Impl {
  explicit Impl(TrainLoopOptions given) : options(std::move(given)) {
    if (options.n_steps < 0) throw_invalid("train loop: n_steps is {}, expected 0 or more", options.n_steps);
    if (options.n_steps_per_checkpoint < 1) {
      throw_invalid("train loop: n_steps_per_checkpoint is {}, expected 1 or more", options.n_steps_per_checkpoint);
    }
    if (!options.task.loss) throw_invalid("train loop: there is no loss");
    if (!options.task.data) throw_invalid("train loop: there is no data");
    const auto first = options.task.data.begin();
    if (first == options.task.data.end()) throw_invalid("train loop: the data is empty, expected at least one batch");

    const double begin = Elapsed::now();
    TrainState state = TrainState::create(options.task.model, options.task.optimizer,
                                          {.inputs = (*first).spec(),
                                           .seed = options.seed,
                                           .context = options.device ? *options.device : discover_devices().best(),
                                           .partitioner = options.partitioner,
                                           .precision = options.precision});
    Restored restored;
    const double begin_reading = Elapsed::now();
    giro::detail::declare_dataset(state, options.task.data);
    if (options.init) {
      restored = options.init(state);
      if (options.partitioner) check_replicas(state, *options.partitioner);
    }
    if (!restored.path.empty()) {
      log(fmt::format("A checkpoint was loaded in {:.2f} seconds.", Elapsed::now() - begin_reading));
    }
    log(fmt::format("Total model initialization time is {:.2f} seconds.", Elapsed::now() - begin));
    std::int64_t weights = 0;
    for (const Leaf& leaf : state.collection("params").leaves()) weights += leaf.value.count();
    log(fmt::format("Total number of trainable weights: {} ~ {:.1f} MB.", weights,
                    static_cast<double>(weights) * sizeof(float) / (1 << 20)));

    data.emplace(options.task.data.skip(restored.steps));
    run.emplace(std::move(state), *data, std::vector<Task<TrainState, Batch>>{{every(1), train_step(options.task)}},
                LoopOptions<TrainState, Batch>{.elapsed = restored});
  }
  // A checkpoint that is still held takes over the state.
  ~Impl() {
    if (is_held()) source->copy.emplace(std::move(run->state()));
    detach_source();
  }

  void log(const std::string& line) const {
    if (options.log && (!options.partitioner || options.partitioner->rank() == 0)) options.log(line);
  }
  std::int64_t steps() const { return run->elapsed().steps; }
  bool is_held() const { return source && source->run_state != nullptr && source.use_count() > 1; }
  void detach_source() {
    if (source) source->run_state = nullptr;
    source.reset();
  }
  // The next step with a checkpoint: (step - 1) is a multiple of n_steps_per_checkpoint.
  std::int64_t next_checkpoint() const {
    const std::int64_t each = options.n_steps_per_checkpoint;
    return steps() == 0 ? 1 : 1 + each + (steps() - 1) / each * each;
  }

  // The checkpoint at step `until`, or where the stream ends before; none if it has ended here.
  std::optional<Checkpoint> advance(std::int64_t until) {
    if (why != StopReason::reached) return std::nullopt;
    if (is_held()) source->copy.emplace(run->state().clone());
    detach_source();
    const double begin = Elapsed::now();
    const std::int64_t before = steps();
    why = StopReason::stopped;  // in case advance() throws
    why = run->advance(at(until));
    signal = run->interrupted();
    if (steps() == before) return std::nullopt;

    source = std::make_shared<detail::Source>(detail::Source{.run_state = &run->state()});
    Checkpoint checkpoint;
    checkpoint.step = steps();
    checkpoint.n_completed_steps = steps() - before;
    checkpoint.elapsed_time = Elapsed::now() - begin;
    checkpoint.loss = run->history().back().logs.entry_value("loss");
    checkpoint.elapsed = run->elapsed();
    checkpoint.source_ = source;
    return checkpoint;
  }
  Checkpoint expect_next(const char* function, std::int64_t until) {
    if (auto checkpoint = advance(until)) return std::move(*checkpoint);
    reject_ended_stream(function);
  }
  // Handles a signal that arrived while no step ran, as in the body of a loop over checkpoints, after its last one.
  void handle_pending_signal() {
    if (why != StopReason::reached) return;
    double found = giro::detail::interrupt_signal();
    if (options.partitioner) options.partitioner->all_reduce_max({&found, 1});
    signal = static_cast<int>(found);
    if (signal != 0) why = StopReason::interrupted;
  }
  [[noreturn]] void reject_ended_stream(const char* function) const {
    const char* reason = "an error ended it";
    if (why == StopReason::dataset_ended) reason = "the data ended";
    if (why == StopReason::interrupted) reason = "a signal ended it";
    throw_invalid("{}: the stream ended at step {}: {}", function, steps(), reason);
  }

  TrainLoopOptions options;
  std::optional<AnyDataset<Batch>> data;
  std::optional<Run<TrainState, AnyDataset<Batch>>> run;
  StopReason why = StopReason::reached;  // why the stream has ended; reached: it has not
  int signal = 0;                        // that ended it
  std::shared_ptr<detail::Source> source;
};

TrainLoop::TrainLoop(TrainLoopOptions options) : impl_(new Impl(std::move(options))) {}

const std::shared_ptr<TrainLoop::Impl>& TrainLoop::impl() const {
  if (!impl_) throw_invalid("train loop: it was moved from");
  return impl_;
}

TrainLoop::Iterator TrainLoop::begin() { return {impl(), impl()->options.n_steps}; }
TrainLoop::Checkpoints TrainLoop::operator()(std::int64_t n_steps) { return {impl(), n_steps}; }

Checkpoint TrainLoop::next_step() { return impl()->expect_next("next_step", step() + 1); }
Checkpoint TrainLoop::next_checkpoint() { return impl()->expect_next("next_checkpoint", impl_->next_checkpoint()); }

std::int64_t TrainLoop::step() const { return impl()->steps(); }
int TrainLoop::interrupted() const { return impl()->signal; }

TrainLoop::Iterator::Iterator(std::shared_ptr<Impl> impl, std::int64_t n_steps)
    : impl_(std::move(impl)), n_steps_(n_steps) {
  if (impl_->steps() >= n_steps_) {
    impl_->log(fmt::format("Stop training, already reached the total training steps {}.", n_steps_));
  } else if (impl_->why != StopReason::reached && impl_->why != StopReason::interrupted) {
    impl_->reject_ended_stream("begin");
  }
  ++*this;
}

TrainLoop::Iterator& TrainLoop::Iterator::operator++() {
  current_.reset();
  if (impl_->steps() < n_steps_) {
    current_ = impl_->advance(std::min(impl_->next_checkpoint(), n_steps_));
  } else {
    impl_->handle_pending_signal();
  }
  return *this;
}

}  // namespace giro::flip
