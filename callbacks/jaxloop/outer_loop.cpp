#include <giro/callbacks/jaxloop/outer_loop.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <thread>
#include <utility>

#include <giro/callbacks/resume.h>
#include <giro/kernels/nn/partitioner.h>
#include <giro/loop/interrupt.h>
#include <giro/runtime/files/archive.h>
#include <giro/runtime/files/checkpoint_store.h>

#include "callbacks/jaxloop/chunks.h"
#include "runtime/throw_error.h"

namespace giro::jaxloop {
namespace {

std::string stopped_file(const CheckpointSpec& spec) {
  return (std::filesystem::path(spec.checkpoint_dir) / "STOPPED").string();
}

void check(const OuterLoopOptions& options, const OuterLoopArguments& arguments) {
  if (options.train_loop == nullptr && options.eval_loops.empty())
    throw_invalid("outer loop: there is neither a train loop nor an eval loop");
  if (options.train_loop != nullptr && !arguments.train_dataset)
    throw_invalid("outer loop: there is a train loop, but no train_dataset");
  if (options.train_loop != nullptr && arguments.train_loop_steps < 1) {
    throw_invalid("outer loop: train_loop_steps is {}, expected at least 1", arguments.train_loop_steps);
  }
  if (options.eval_loops.size() != arguments.eval_specs.size()) {
    throw_invalid("outer loop: there are {} eval loops and {} eval_specs, expected one for each",
                  options.eval_loops.size(), arguments.eval_specs.size());
  }
  for (const EvalSpec& spec : arguments.eval_specs) {
    if (!spec.dataset) throw_invalid("outer loop: an eval_spec has no dataset");
    if (spec.eval_loop_interval >= 1) continue;
    throw_invalid("outer loop: eval_loop_interval is {}, expected at least 1", spec.eval_loop_interval);
  }
}

}  // namespace

LoopResult OuterLoop::operator()(TrainState state, const OuterLoopArguments& arguments) {
  check(options_, arguments);
  return options_.train_loop != nullptr ? train(std::move(state), arguments)
                                        : evaluate_checkpoints(std::move(state), arguments);
}

LoopResult OuterLoop::train(TrainState state, const OuterLoopArguments& arguments) {
  TrainLoop& train_loop = *options_.train_loop;
  const std::int64_t chunk_steps = arguments.train_loop_steps, total = arguments.train_total_steps;
  detail::declare_dataset(state, arguments.train_dataset);
  const std::shared_ptr<const Partitioner> ranks = state.partitioner();
  bool had_ended = false, stops = false;
  std::size_t next_eval = options_.eval_loops.size();  // of this round
  if (options_.checkpoint_spec) {
    const std::string& dir = options_.checkpoint_spec->checkpoint_dir;
    // Before anything is saved, so that an evaluation alongside this training does not end because of an earlier
    // training's file.
    const std::string found = decide_on_rank_0(ranks.get(), [&] {
      const std::string stopped = stopped_file(*options_.checkpoint_spec);
      const bool exists = std::filesystem::exists(stopped);
      if (exists) posix_file_system()->remove(stopped);
      return exists ? "STOPPED" : "";
    });
    had_ended = !found.empty();
    if (CheckpointStore(dir).latest_steps() >= 0) {
      (void)restore(state, dir, *posix_file_system(), [&](Archive& archive) { persist(archive, next_eval, stops); });
    }
  }
  // Between two loops a signal waits for the next step. The inner loops then install no handlers, which saves each a
  // dozen system calls.
  const detail::InterruptScope signals(true);
  std::int64_t step = step_of(state);
  train_loop.set_loop_count(step / chunk_steps);
  DatasetIterator batches(arguments.train_dataset, step);
  TrainLoop::Chunks chunks(train_loop, std::move(state), batches);
  LoopOutputs outputs;
  // Lets the actions of the loops save what all of them remember, until this ends.
  const auto set_memory = [&](const std::function<void(Archive&, bool stops)>& memory) {
    train_loop.memory_ = memory;
    for (EvalLoop* eval_loop : options_.eval_loops) eval_loop->memory_ = memory;
  };
  set_memory([&](Archive& archive, bool are_asked) {
    bool asked = stops || are_asked;
    persist(archive, next_eval, asked);
  });
  const struct End {
    const decltype(set_memory)& set;
    ~End() { set({}); }
  } end{set_memory};
  // Ends the round.
  const auto evaluate_rest = [&] {
    const bool asked = evaluate(chunks.state(), arguments, train_loop.loop_count(), next_eval, outputs.interrupted);
    stops = rank_with(ranks.get(), stops || asked).has_value();
  };
  if (step > 0 && (step % chunk_steps == 0 || step >= total) && !(had_ended && step >= total)) evaluate_rest();
  if (outputs.interrupted != 0) return {chunks.finish(), std::move(outputs)};
  while (step < total && !stops) {
    next_eval = 0;
    LoopOutputs trained = train_loop.train(chunks, std::min(chunk_steps - step % chunk_steps, total - step));
    const std::int64_t now = step_of(chunks.state());
    if (now == step) {
      log(
          fmt::format("outer loop: the train loop made no step at step {} of {}: the train dataset has ended, or "
                      "the step applies no gradients",
                      step, total));
      break;
    }
    outputs = std::move(trained);
    step = now;
    stops = outputs.stop_loop;
    if (outputs.interrupted == 0) evaluate_rest();
    if (outputs.interrupted != 0) return {chunks.finish(), std::move(outputs)};
  }
  state = chunks.finish();
  if (options_.checkpoint_spec && state.is_primary()) {
    const CheckpointSpec& spec = *options_.checkpoint_spec;
    replace_file(*posix_file_system(), stopped_file(spec), fmt::format("{}\n", step));
  }
  outputs.stop_loop = stops;
  // A signal after the last step has nothing left to end, but is reported.
  if (!detail::is_in_saving_loop()) {
    double signal = detail::interrupt_signal();
    if (state.partitioner()) state.partitioner()->all_reduce_max({&signal, 1});
    outputs.interrupted = static_cast<int>(signal);
  }
  return {std::move(state), std::move(outputs)};
}

void OuterLoop::persist(Archive& archive, std::size_t& next_eval, bool& stops) {
  archive("next_eval_loop", next_eval)("stops", stops);
  archive("train_loop", *options_.train_loop);
  for (std::size_t i = 0; i < options_.eval_loops.size(); ++i) {
    archive(fmt::format("eval_loop_{}", i), *options_.eval_loops[i]);
  }
}

bool OuterLoop::evaluate(TrainState& state, const OuterLoopArguments& arguments, std::int64_t round, std::size_t& next,
                         int& interrupted) {
  bool stops = false;
  while (next < options_.eval_loops.size()) {
    const std::size_t i = next++;
    const EvalSpec& spec = arguments.eval_specs[i];
    if (round % spec.eval_loop_interval != 0) continue;
    const auto is_wanted = [&] { return spec.should_eval_fn(step_of(state)) ? "evaluate" : ""; };
    if (spec.should_eval_fn && decide_on_rank_0(state.partitioner().get(), is_wanted).empty()) continue;
    LoopResult evaluated = (*options_.eval_loops[i])(std::move(state), spec.dataset, spec.num_steps);
    state = std::move(evaluated.state);
    stops = stops || evaluated.outputs.stop_loop;
    if (evaluated.outputs.interrupted != 0) {
      interrupted = evaluated.outputs.interrupted;
      break;
    }
  }
  return stops;
}

LoopResult OuterLoop::evaluate_checkpoints(TrainState state, const OuterLoopArguments& arguments) {
  if (!options_.checkpoint_spec)
    throw_invalid("outer loop: there is no train loop, and no checkpoint_spec with checkpoints to evaluate");
  if (state.partitioner() && state.partitioner()->size() > 1) {
    throw_error(ErrorCode::unsupported, "outer loop: evaluation without training supports one process only");
  }
  const CheckpointSpec& spec = *options_.checkpoint_spec;
  const auto is_over = [&] {
    return spec.iterate_stop_fn ? spec.iterate_stop_fn() : std::filesystem::exists(stopped_file(spec));
  };
  const detail::InterruptScope signals(true);
  LoopOutputs outputs;
  std::int64_t evaluated = -1, round = 0;
  for (bool stops = false; !stops && outputs.interrupted == 0;) {
    const bool was_over = is_over();  // checked first: what was saved before the end is then visible
    if (CheckpointStore(spec.checkpoint_dir).latest_steps() > evaluated) {
      evaluated = restore(state, spec.checkpoint_dir).steps;
      std::size_t next = 0;
      stops = evaluate(state, arguments, ++round, next, outputs.interrupted);
      continue;
    }
    if (was_over) break;
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(spec.iterate_interval_secs);
    while (std::chrono::steady_clock::now() < until && (outputs.interrupted = detail::interrupt_signal()) == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  return {std::move(state), std::move(outputs)};
}

}  // namespace giro::jaxloop
