#pragma once

#include <any>
#include <cstddef>

#include <giro/loop/log/history.h>
#include <giro/loop/log/logs.h>
#include <giro/loop/time/elapsed.h>
#include <giro/runtime/error.h>

namespace giro {

// What a callback may see and change while a loop runs.
template <class S, class B>
class LoopState {
 public:
  LoopState(S& s, const Elapsed& start, const History& past, std::any& data)
      : state(s), elapsed(start), history(past), metadata(data), first_record_(past.size()) {}

  S& state;
  const Elapsed& elapsed;  // at the beginning of this step
  const History& history;  // of the steps before this one
  std::any& metadata;      // the program's own: LoopOptions::metadata
  Logs logs;               // of this step so far
  bool stop_iteration = false;
  bool failed = false;  // whether an error has ended the loop: on_end runs all the same

  // The batch of this step, of elapsed.step_samples samples. Error(invalid_argument) where there is none: in an on_end,
  // and in what last() brings after the last step where the batch is gone: of a dataset that can be passed over only
  // once, or of a run that is finished where it was held.
  const B& batch() const {
    if (batch_ == nullptr)
      throw Error(ErrorCode::invalid_argument, "there is no batch here: the last step is over, and its batch is gone");
    return *batch_;
  }
  void set_batch(const B* batch) noexcept { batch_ = batch; }
  bool has_batch() const noexcept { return batch_ != nullptr; }

  // The latest value of everything that was logged since the loop began.
  Logs accumulated_logs() const {
    Logs all = history.latest(first_record_);
    all.merge(logs);
    return all;
  }

 private:
  const B* batch_ = nullptr;
  std::size_t first_record_;
};

}  // namespace giro
