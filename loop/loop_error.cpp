#include <giro/loop/loop_error.h>

#include <new>

namespace giro {

struct LoopError::Rest {
  History history;
  Outputs outputs;
  std::any metadata;
};

std::shared_ptr<LoopError::Rest> LoopError::keep(History history, Outputs outputs, std::any metadata) {
  return std::make_shared<Rest>(Rest{std::move(history), std::move(outputs), std::move(metadata)});
}

History& LoopError::history() const noexcept { return rest_->history; }
Outputs& LoopError::outputs() const noexcept { return rest_->outputs; }
std::any& LoopError::metadata() const noexcept { return rest_->metadata; }

namespace detail {

std::pair<ErrorCode, std::string> explain_exception(const std::exception_ptr& cause) {
  try {
    std::rethrow_exception(cause);
  } catch (const Error& error) {
    return {error.code(), error.what()};
  } catch (const std::bad_alloc&) {
    return {ErrorCode::out_of_memory, "the host is out of memory"};
  } catch (const std::exception& error) {
    return {ErrorCode::callback, error.what()};
  } catch (...) {
    return {ErrorCode::callback, "an exception of unknown type"};
  }
}

}  // namespace detail
}  // namespace giro
