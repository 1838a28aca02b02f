#pragma once

#include <memory>
#include <string>

#include <giro/runtime/error.h>

namespace giro::detail {

class StreamImpl;

// How far a program queued on a stream has progressed, for error messages: a device reports a failure at the next wait,
// without saying what failed.
class CallProgress {
 public:
  virtual ~CallProgress() = default;
  // "the step of train.cpp:31 had completed 41 of 57 calls", or empty if nothing is in progress.
  virtual std::string describe() const = 0;
};

// Call while an Error(device) is caught: rethrows it with the programs in progress on the stream, and how to find the
// op.
[[noreturn]] void rethrow_with_progress(const StreamImpl& stream);

// Calls f(), which waits for the stream's work or launches it.
template <class F>
decltype(auto) with_progress_in_errors(const StreamImpl& stream, F&& f) {
  try {
    return f();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::device) throw;
    rethrow_with_progress(stream);
  }
}

}  // namespace giro::detail
