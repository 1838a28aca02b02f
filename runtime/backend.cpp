#include "runtime/backend.h"

#include <fmt/format.h>

#include <typeinfo>

#include "runtime/op_by_op.h"
#include "runtime/throw_error.h"

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
    if (typeid(error) != typeid(Error) || message.find(kBlocking) != message.npos || wants_op_by_op()) throw;
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

void StreamImpl::reject(const char* call) const {
  const StreamRecording* recording = StreamRecording::current();
  if (recording == nullptr || takes_part_in(*recording)) {
    throw_invalid(
        "{}: this stream on {} is being recorded by another thread, or by this one, which has set its recording aside",
        call, to_string(device));
  }
  const bool same = device == recording->stream.device;
  throw_invalid(
      "{}: work was queued on another stream, of {}{}, while this thread records on {} of {}; a recorded step may "
      "touch only one device context",
      call, to_string(device), recording->states.describe(*this), same ? "one" : "a stream",
      to_string(recording->stream.device));
}

}  // namespace giro::detail
