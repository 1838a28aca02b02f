#include <fmt/format.h>

#include <typeinfo>

#include "runtime/internal/backend.h"
#include "runtime/program/emit.h"

namespace giro::detail {

void StreamImpl::add_progress(const std::shared_ptr<const CallProgress>& progress) {
  const std::lock_guard lock(progress_mutex_);
  std::erase_if(progress_, [](const auto& one) { return one.expired(); });
  progress_.push_back(progress);
}

void rethrow_with_progress(const StreamImpl& stream) {
  constexpr const char* kBlocking = "GIRO_BLOCKING=1 in the environment";
  try {
    throw;
  } catch (const Error& error) {
    const std::string message = error.what();
    if (typeid(error) != typeid(Error) || message.find(kBlocking) != message.npos || Blocking::is_wanted()) throw;
    std::string told;
    for (const auto& progress : stream.progress()) {
      const auto program = progress.lock();
      const std::string one = program ? program->describe() : "";
      if (!one.empty()) told += "; " + one;
    }
    throw Error(error.code(),
                fmt::format("{}{}; with {} a step runs op by op, and the error names the op", message, told, kBlocking),
                error.where());
  }
}

}  // namespace giro::detail
