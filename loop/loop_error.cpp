#include <giro/loop/loop_error.h>

#include <new>

namespace giro::detail {

std::pair<ErrorCode, std::string> explain_exception(const std::exception_ptr& cause) {
  try {
    std::rethrow_exception(cause);
  } catch (const Error& error) {
    return {error.code(), error.what()};
  } catch (const std::bad_alloc&) {
    return {ErrorCode::out_of_memory, "the host has no memory left"};
  } catch (const std::exception& error) {
    return {ErrorCode::callback, error.what()};
  } catch (...) {
    return {ErrorCode::callback, "an exception of unknown type"};
  }
}

}  // namespace giro::detail
