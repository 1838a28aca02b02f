#pragma once

#include <concepts>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <giro/loop/data/current_batch.h>
#include <giro/loop/data/range.h>
#include <giro/loop/interrupt.h>
#include <giro/loop/run_core.h>
#include <giro/loop/task.h>

namespace giro {

// A loop that can be paused: it is advanced to a point, inspected, and advanced again, any number of times. `loop` is a
// run that is advanced once. However a run is split into advances, it makes the same calls and produces the same state,
// history and outputs, bit for bit.
//
//   giro::Run run(std::move(state), train, {{giro::every(1), train_step}});
//   while (run.advance(giro::at(run.elapsed().steps + 1'000)) == giro::StopReason::reached) evaluate(run.state());
//   auto [trained, history, elapsed] = run.finish();
//
// The dataset must outlive the run. A position in it is a number of batches. A resumed run (LoopState::persist) begins
// with dataset.begin_at(batch), an iterator at batch number `batch`, if the dataset has that member; otherwise it skips
// the earlier batches one by one. If begin() is not at batch 0, first_batch() must return its number. A member
// persist(Archive&) saves, or checks, what identifies the dataset.
template <class S, std::ranges::input_range R>
class Run {
 public:
  using B = std::ranges::range_value_t<R>;

  Run(S state, R& dataset, const std::vector<Task<S, B>>& tasks, LoopOptions<S, B> options = {})
      : dataset_(&dataset), core_(std::move(state), tasks, std::move(options)) {
    std::function<void(Archive&)> persist;
    if constexpr (requires(Archive& archive) { dataset.persist(archive); }) {
      persist = [&dataset](Archive& archive) { dataset.persist(archive); };
    }
    core_.set_dataset(std::move(persist), detail::first_batch(dataset));
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // Runs until `until` is reached or the run ends; `until` counts like LoopOptions::stop. Every device step has then
  // run, and all logs are in the history. Errors: LoopError as in loop, which ends the run; Error(invalid_argument) if
  // the run has already ended.
  StopReason advance(const Period& until = {}) {
    if (core_.has_ended()) {
      throw Error(ErrorCode::invalid_argument,
                  "advance: the run has already ended at step " + std::to_string(elapsed().steps));
    }
    const detail::InterruptScope signals(core_.options().catch_signals, core_.saves());
    try {
      StopReason why = go(until);
      core_.settle();
      // A signal may have come while the run waited for the device, and is not checked later.
      if (why == StopReason::reached && core_.is_interrupted()) why = StopReason::interrupted;
      if (why != StopReason::reached) core_.set_ended(why);
      return why;
    } catch (...) {
      core_.fail(std::current_exception());
    }
  }

  // Sets another stop for a run that has stopped at LoopOptions::stop, with a new history and new outputs. The batch
  // after the stop is made when the run is advanced, so a dataset that fails there leaves the run intact until then.
  // Error(invalid_argument) if the run has not stopped there.
  void extend(const Period& stop, History history = {}, Outputs outputs = {}) {
    core_.extend(stop, std::move(history), std::move(outputs));
  }

  // The results of the steps so far. The state's leaves may be written, as between two loops.
  S& state() noexcept { return core_.state(); }
  const Elapsed& elapsed() const noexcept { return core_.elapsed(); }
  const History& history() const noexcept { return core_.history(); }
  const Outputs& outputs() const noexcept { return core_.outputs(); }
  std::any& metadata() noexcept { return core_.options().metadata; }
  int interrupted() const noexcept { return core_.interrupted(); }  // the signal that has ended it, or 0

  // Runs every on_end and returns the results. If the run is paused and has not ended, this first runs the callbacks of
  // last() that have not run in the latest step. They have no batch, and their logs are a separate record. Errors:
  // LoopError; invalid_argument if it was finished before.
  LoopResult<S> finish() { return core_.finish(); }

 private:
  using Core = detail::RunCore<S, B>;
  using Current = detail::CurrentBatch<R, B>;

  StopReason go(const Period& until) {
    const std::int64_t begins_at = core_.first_batch();
    if (!it_) core_.resume();
    core_.aim_at(until);
    if (!it_) {
      if (core_.is_at_stop()) return StopReason::stopped;
      core_.set_place(detail::Place::dataset);
      it_.emplace(detail::begin_at(*dataset_, begins_at, core_.first_batch()));
      if (*it_ == std::ranges::end(*dataset_)) {
        if (core_.first_batch() == begins_at) core_.check_none_asked_for();
        return StopReason::dataset_ended;
      }
      if (core_.start(current_.at(*it_))) return StopReason::stopped;
    }
    const auto end = std::ranges::end(*dataset_);
    if (core_.is_after_stop()) {
      if (core_.is_at_stop()) return StopReason::stopped;
      core_.leave_stop();
      if (++*it_ == end) return StopReason::dataset_ended;
    }
    while (!core_.is_at_aim()) {
      std::optional<std::int64_t> last_size;
      if (core_.may_be_quiet()) {
        last_size = count_quiet_steps(end);
        if (core_.is_at_aim() && !last_size) break;
      }
      if (const StopReason why = step(end, last_size); why != StopReason::reached) return why;
    }
    return StopReason::reached;
  }

  // Runs one step. With `last_size`, runs only the end of a quiet step of `last_size` samples, which turned out to be
  // the dataset's last. Returns why the run ends with it, or `reached`.
  template <class End>
  StopReason step(const End& end, const std::optional<std::int64_t>& last_size) {
    core_.set_place(detail::Place::dataset);
    StopReason why = StopReason::reached;
    if (!last_size) {
      const B& batch = current_.at(*it_);
      core_.begin_step(batch);
      why = stop_reason_of(core_.ends_after_step());
      if (why == StopReason::reached) {
        core_.set_place(detail::Place::next_batch);
        if (++*it_ == end) why = StopReason::dataset_ended;
        core_.set_place(detail::Place::loop);
        if constexpr (!Current::kOutlivesIterator) core_.set_batch(nullptr);
      }
    } else {
      core_.begin_last_step(current_.kept(), *last_size);
      why = StopReason::dataset_ended;
    }
    if (why == StopReason::interrupted && core_.saves()) {
      core_.end_interrupted_step();
    } else {
      if (why != StopReason::reached) core_.run_last();
      core_.end_step();
    }
    if (why != StopReason::dataset_ended) current_.forget();
    return why;
  }

  // Counts quiet steps, in which nothing else happens, in registers. A step that may be the run's last is not quiet. If
  // the dataset ends, returns the samples of its last step.
  template <class End>
  std::optional<std::int64_t> count_quiet_steps(const End& end) {
    auto it = std::move(*it_);  // a local that does not escape, so it can stay in registers
    auto count = core_.quiet_count();
    std::optional<std::int64_t> last_size;
    detail::Place place = detail::Place::dataset;
    std::int64_t size = 0;
    try {
      while (count.goes_on()) {
        auto&& batch = *it;
        place = detail::Place::batch_size;
        size = core_.size_of(batch);
        if (!count.fits(size)) {
          current_.keep(std::forward<decltype(batch)>(batch));
          break;
        }
        place = detail::Place::next_batch;
        if (++it == end) {
          current_.keep(std::forward<decltype(batch)>(batch));
          last_size = size;
          break;
        }
        place = detail::Place::dataset;
        count.add(size);
      }
    } catch (...) {
      // Only the next batch has failed; the step was complete.
      if (place == detail::Place::next_batch) count.add(size);
      *it_ = std::move(it);
      core_.write_back(count);
      core_.set_place(place == detail::Place::next_batch ? detail::Place::dataset : place);
      throw;
    }
    *it_ = std::move(it);
    core_.write_back(count);
    return last_size;
  }

  static StopReason stop_reason_of(typename Core::End end) {
    if (end == Core::End::none) return StopReason::reached;
    return end == Core::End::stopped ? StopReason::stopped : StopReason::interrupted;
  }

  R* dataset_;
  std::optional<std::ranges::iterator_t<R>> it_;
  Current current_;
  Core core_;
};

template <class S, class R, class... Rest>
Run(S, R&, Rest&&...) -> Run<S, R>;

}  // namespace giro
