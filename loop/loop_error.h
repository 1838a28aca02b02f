#pragma once

#include <any>
#include <exception>
#include <memory>
#include <string>
#include <typeindex>
#include <utility>

#include <giro/loop/log/history.h>
#include <giro/loop/log/outputs.h>
#include <giro/loop/loop_result.h>
#include <giro/loop/time/elapsed.h>
#include <giro/runtime/error.h>

namespace giro {

// An error that ended a loop early. The message names the callback and the step. Nothing is lost: it carries the state,
// the history, the outputs and the metadata as the last completed step left them, apart from changes that the failed
// step had already made.
class LoopError : public Error {
 public:
  // `state` is kept as type S; get it with state<S>().
  template <class S>
  LoopError(ErrorCode code, const std::string& message, std::exception_ptr cause, S state, const Elapsed& elapsed,
            History history, Outputs outputs, std::any metadata)
      : Error(code, message),
        cause_(std::move(cause)),
        state_(std::make_shared<S>(std::move(state))),
        state_type_(typeid(S)),
        results_(keep(elapsed, std::move(history), std::move(outputs), std::move(metadata))) {}

  // The exception of the callback, the dataset or the device.
  const std::exception_ptr& cause() const noexcept { return cause_; }
  History& history() const noexcept { return results_->history; }
  Outputs& outputs() const noexcept { return results_->outputs; }
  std::any& metadata() const noexcept { return results_->metadata; }
  // Completed steps.
  const Elapsed& elapsed() const noexcept { return results_->elapsed; }
  // The state, which may be moved from; null if it has another type.
  template <class S>
  S* state() const noexcept {
    return state_type_ == typeid(S) ? static_cast<S*>(state_.get()) : nullptr;
  }

 private:
  static std::shared_ptr<detail::RunResults> keep(const Elapsed& elapsed, History history, Outputs outputs,
                                                  std::any metadata);

  std::exception_ptr cause_;
  std::shared_ptr<void> state_;
  std::type_index state_type_;
  std::shared_ptr<detail::RunResults> results_;
};

namespace detail {
// The code and the message of any exception.
std::pair<ErrorCode, std::string> explain_exception(const std::exception_ptr& cause);
}  // namespace detail

}  // namespace giro
